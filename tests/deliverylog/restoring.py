"""What an operator does to a log's tables from outside: a backup, the restore of it, and a tenant's erasure."""

from __future__ import annotations

import asyncio
import copy
from abc import ABC, abstractmethod
from typing import Any

from relay.deliverylog import DeliveryLog
from relay.deliverylog.clickhouse.driver import ClickHouseDeliveryLog
from relay.deliverylog.memory import MemoryDeliveryLog
from tests.support.fixtures.postgres import Database, drop_database
from tests.support.restoring import back_up, restore


class Operator(ABC):
    """One backup at a time."""

    @abstractmethod
    async def back_up(self) -> None:
        """Keep the log as it is now; an earlier backup is gone."""

    @abstractmethod
    async def restore(self) -> None:
        """Make the log what it was at the backup, which stays."""

    @abstractmethod
    async def erase(self, tenant: str) -> None:
        """Delete the rows of a tenant."""

    async def close(self) -> None:  # noqa: B027 -- memory leaves nothing
        """Leave no backup behind."""


class OfMemory(Operator):
    """The attributes of the object."""

    def __init__(self, store: MemoryDeliveryLog) -> None:
        self._held: dict[str, Any] = vars(store)
        self._kept: dict[str, Any] = {}

    async def back_up(self) -> None:
        self._kept = {name: copy.deepcopy(self._held[name]) for name in ("_events", "_attempts", "_quarantine")}

    async def restore(self) -> None:
        self._held.update(copy.deepcopy(self._kept))

    async def erase(self, tenant: str) -> None:
        for name in ("_events", "_attempts"):
            self._held[name] = {key: row for key, row in self._held[name].items() if key[0] != tenant}


class OfPostgres(Operator):
    """A copy of the database. Each backup and restore ends the log's connections."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._backup: Database | None = None

    async def back_up(self) -> None:
        await self.close()
        self._backup = await asyncio.to_thread(back_up, self._database)

    async def restore(self) -> None:
        if self._backup is not None:
            backup, self._backup = self._backup, None
            await asyncio.to_thread(restore, self._database, backup)
            await self.back_up()

    async def erase(self, tenant: str) -> None:
        async with await self._database.connect_async() as connection:
            for table in ("attempts", "events", "event_destinations"):
                text = f"DELETE FROM openoutbox_log.{table} WHERE tenant_id = %s"
                await connection.execute(text.encode(), (tenant,))

    async def close(self) -> None:
        if self._backup is not None:
            await asyncio.to_thread(drop_database, self._backup)
            self._backup = None


class OfClickHouse(Operator):
    """Tables beside the log's, which share its parts."""

    def __init__(self, store: ClickHouseDeliveryLog, prefix: str) -> None:
        self._command = store._client.command
        self._prefix = prefix
        self._tables = [f"event_log{kind}" for kind in ("", "_attempts", "_events", "_quarantine")]

    async def back_up(self) -> None:
        await self.close()
        for table in self._tables:
            await self._command(f"CREATE TABLE kept_{self._prefix}{table} AS {self._prefix}{table}")
            await self._copy(f"{self._prefix}{table}", f"kept_{self._prefix}{table}")

    async def restore(self) -> None:
        for table in self._tables:
            await self._command(f"TRUNCATE TABLE {self._prefix}{table} SYNC")
            await self._copy(f"kept_{self._prefix}{table}", f"{self._prefix}{table}")

    async def _copy(self, source: str, target: str) -> None:
        await self._command(f"ALTER TABLE {target} ATTACH PARTITION ALL FROM {source}")

    async def erase(self, tenant: str) -> None:
        for table in self._tables[:3]:
            await self._command(
                f"ALTER TABLE {self._prefix}{table} DELETE WHERE tenant_id = '{tenant}' SETTINGS mutations_sync = 1"
            )

    async def close(self) -> None:
        for table in self._tables:
            await self._command(f"DROP TABLE IF EXISTS kept_{self._prefix}{table} SYNC")


def operator_of(store: DeliveryLog, database: Database | None, prefix: str) -> Operator:
    """Of the driver."""
    if isinstance(store, MemoryDeliveryLog):
        return OfMemory(store)
    if isinstance(store, ClickHouseDeliveryLog):
        return OfClickHouse(store, prefix)
    assert database is not None
    return OfPostgres(database)
