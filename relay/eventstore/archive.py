"""One tenant's events to a file and back.

The file is JSON lines: a head that names the tenant, and its deleted streams with their last versions; one line for
each event; and a tail with their number, without which a file is not complete. Versions, times and bodies return
unchanged, every digit of them; positions are assigned again, in the same order.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final
from uuid import UUID

from psycopg import AsyncServerCursor

from relay.core.errors import ConfigError
from relay.eventstore.database import NO_DEADLINE, Connection, execute
from relay.eventstore.errors import TenantBusy
from relay.eventstore.model import checked_id
from relay.eventstore.store_part import Id
from relay.eventstore.tenants import TenantPart, check_tenant

_FORMAT: Final = "openoutbox-eventstore/1"
_LINES_AT_ONCE: Final = 1000


class ArchivePart(TenantPart):
    """Exporting tenants and importing them."""

    async def export_tenant(self, tenant_id: Id, path: str | Path) -> int:
        """Write all of a tenant's events to a file of JSON lines, as of one moment; returns their number.

        The file appears under its name when it is complete; what an interruption has left of it is removed. Raises
        ``UnknownTenant`` for a tenant without a partition.
        """
        tenant, file_path = checked_id("tenant_id", tenant_id), Path(path)
        unfinished = file_path.with_name(file_path.name + ".part")
        try:
            # No deadline: between two portions it waits for the file.
            written = await self._database.transaction(
                f"export tenant {tenant}", lambda connection: self._write(connection, tenant, unfinished), NO_DEADLINE
            )
            unfinished.replace(file_path)
        finally:
            unfinished.unlink(missing_ok=True)  # it holds personal data
        return written

    async def import_tenant(self, path: str | Path, tenant_id: Id | None = None) -> tuple[UUID, int]:
        """Provision the exported tenant, or another, and add the file's events with their versions and times.

        Returns the tenant and the number of events. Nothing is announced in the outbox. Raises ``ConfigError`` for
        an incomplete file, before anything is written, and ``TenantBusy`` for a tenant that has events: after an
        interrupted import, drop the tenant and begin again.
        """
        file_path = Path(path)
        exported, deleted, count = await asyncio.to_thread(_inspect, file_path)
        tenant = exported if tenant_id is None else checked_id("tenant_id", tenant_id)
        await self.provision_tenant(tenant)
        has_events = self._statements.text("eventstore/archive:has_events")
        if (await self._database.rows(f"import tenant {tenant}", has_events, {"tenant": tenant}))[0][0]:
            raise TenantBusy(f"tenant {tenant} has events already; drop it first, or import under another id")
        tombstones = self._statements.text("eventstore/archive:import_tombstones")
        await self._database.rows(f"import tenant {tenant}", tombstones, {"tenant": tenant, "deleted": deleted})
        with await asyncio.to_thread(file_path.open, encoding="utf-8") as file:
            next(file)
            lines = islice(file, count)
            while portion := await asyncio.to_thread(lambda: list(islice(lines, _LINES_AT_ONCE))):
                await self._add(tenant, portion)
        return tenant, count

    async def _write(self, connection: Connection, tenant_id: UUID, path: Path) -> int:
        await execute(connection, self._statements.text("eventstore/archive:snapshot"))
        await check_tenant(connection, self._statements, tenant_id)
        written, values = 0, {"tenant": tenant_id}
        head: dict[str, object] = {"format": _FORMAT, "tenant_id": str(tenant_id)}
        tombstones = self._statements.text("eventstore/archive:export_tombstones")
        if deleted := json.loads((await execute(connection, tombstones, values))[0][0]):
            head["deleted_streams"] = deleted
        with path.open("w", encoding="utf-8") as file:
            file.write(json.dumps(head) + "\n")
            async with AsyncServerCursor(connection, "export") as cursor:
                await cursor.execute(self._statements.text("eventstore/archive:export"), values)
                while rows := await cursor.fetchmany(_LINES_AT_ONCE):
                    lines = [f"{row[0]}\n" for row in rows]
                    await asyncio.to_thread(file.writelines, lines)
                    written += len(lines)
            file.write(json.dumps({"events": written}) + "\n")
        return written

    async def _add(self, tenant_id: UUID, lines: Sequence[str]) -> None:
        """One short transaction, so that other tenants' appends go on between."""
        values, add = {"tenant": tenant_id, "lines": lines}, self._statements.text("eventstore/archive:import")
        # No deadline: nothing comes back while the lines are sent, however large they are.
        await self._database.rows(f"import tenant {tenant_id}", add, values, NO_DEADLINE)


def _inspect(path: Path) -> tuple[UUID, str, int]:
    """The tenant, its deleted streams as JSON and the number of events of a complete file.

    Raises ConfigError for any other file.
    """
    with path.open(encoding="utf-8") as file:
        head = _object(path, next(file, ""))
        if head.get("format") != _FORMAT:
            raise ConfigError(f"{path}: not an export of the event store")
        last, lines = "", 0
        for last in file:  # noqa: B007 -- the last line is what is wanted
            lines += 1
    if lines == 0 or _object(path, last) != {"events": lines - 1}:
        raise ConfigError(f"{path}: the end is missing; the export was interrupted or the file was cut")
    return checked_id("tenant_id", str(head.get("tenant_id"))), json.dumps(head.get("deleted_streams", {})), lines - 1


def _object(path: Path, line: str) -> dict[str, object]:
    try:
        value = json.loads(line)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: not an export of the event store, or cut short")
    return value
