"""Monthly partitions of the PostgreSQL log: created ahead and on demand, checked, and dropped by retention.

Whole months are dropped, first detached CONCURRENTLY, so writers never wait. An interrupted run is completed by the
next one. Everything here is safe to run from several processes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import psycopg

from relay.deliverylog.errors import DeliveryLogError
from relay.deliverylog.postgres.statements import PostgresStatements
from relay.postgres.connect import Connection

PARENTS = ("events", "event_destinations", "attempts")


def month_of(time: datetime) -> datetime:
    """The begin of the UTC month that holds an instant."""
    return time.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def month_after(month: datetime, count: int = 1) -> datetime:
    """The begin of the month ``count`` months later."""
    index = month.year * 12 + month.month - 1 + count
    return month.replace(year=index // 12, month=index % 12 + 1)


@dataclass(frozen=True, slots=True)
class Partition:
    """One monthly table: its name, the parent it belongs to by name, and whether it is attached to it."""

    name: str
    parent: str
    month: datetime
    attached: bool
    pending: bool
    """Its detach was interrupted."""


class Partitions:
    """The partitions of one schema."""

    def __init__(self, statements: PostgresStatements) -> None:
        self._sql = statements

    async def all(self, connection: Connection) -> list[Partition]:
        """Every monthly table."""
        rows = await (await connection.execute(self._sql.text("partitions:months"))).fetchall()
        return [_partition(str(name), parent is not None, bool(pending)) for name, parent, pending in rows]

    async def months(self, connection: Connection) -> set[datetime]:
        """The months that all three tables have a usable partition for."""
        tables_of: defaultdict[datetime, int] = defaultdict(int)
        for partition in await self.all(connection):
            tables_of[partition.month] += partition.attached and not partition.pending
        return {month for month, tables in tables_of.items() if tables == len(PARENTS)}

    async def ensure(self, connection: Connection, months: Iterable[datetime]) -> None:
        """Create the partitions of months. Raises psycopg's InsufficientPrivilege without the right to."""
        wanted = sorted(set(months))
        if wanted:
            await connection.execute(self._sql.text("partitions:ensure_months"), {"months": wanted})

    async def drop_before(self, connection: Connection, oldest: datetime) -> list[str]:
        """Drop every month that ended at or before ``oldest``, on an autocommit connection; returns the tables."""
        await connection.execute(self._sql.text("partitions:lock_timeout"))
        dropped = []
        for partition in await self.all(connection):
            if month_after(partition.month) > oldest:
                continue
            await self._detach(connection, partition)
            await connection.execute(self._sql.on_partition("partitions:drop", partition.parent, partition.name))
            dropped.append(partition.name)
        return dropped

    async def _detach(self, connection: Connection, partition: Partition) -> None:
        if not partition.attached:
            return
        step = "detach_finalize" if partition.pending else "detach"
        try:
            await connection.execute(self._sql.on_partition(f"partitions:{step}", partition.parent, partition.name))
        except (psycopg.errors.LockNotAvailable, psycopg.errors.ObjectNotInPrerequisiteState) as error:
            raise DeliveryLogError(
                f"partition {partition.name} is still being read and was not dropped yet; run the retention again"
            ) from error


def missing_ahead(have: set[datetime], now: datetime, months_ahead: int) -> list[datetime]:
    """Those of this month and the ``months_ahead`` after it that are missing."""
    wanted = [month_after(month_of(now), count) for count in range(months_ahead + 1)]
    return [month for month in wanted if month not in have]


def retention_start(now: datetime, days: int) -> datetime:
    """The instant before which a retention of ``days`` days drops entries."""
    return now - timedelta(days=days)


def _partition(name: str, attached: bool, pending: bool) -> Partition:
    parent, year, month = name.rsplit("_", 2)
    return Partition(name, parent, datetime(int(year), int(month), 1, tzinfo=UTC), attached, pending)
