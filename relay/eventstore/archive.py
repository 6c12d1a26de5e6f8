"""One tenant's events to a file and back. For ``EventStore`` only.

The file is JSON lines: a head that names the tenant, one line an event, and a tail with their number, without which a
file is not complete. Versions, times and bodies come back as they were, every digit of them; positions are
assigned again, in the same order.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final
from uuid import UUID

from psycopg import AsyncServerCursor, IsolationLevel

from relay.core.errors import ConfigError
from relay.eventstore.database import Database, execute
from relay.eventstore.errors import TenantBusy
from relay.eventstore.model import checked_id
from relay.eventstore.statements import EventStoreStatements
from relay.eventstore.tenants import provision

_FORMAT: Final = "openoutbox-eventstore/1"
_LINES_AT_ONCE: Final = 1000


async def export(database: Database, statements: EventStoreStatements, tenant_id: UUID, path: Path) -> int:
    """Write what the tenant has at one moment; how many events. The file appears under its name when it is whole."""
    unfinished = path.with_name(path.name + ".part")
    written = 0
    async with database.connection(f"export tenant {tenant_id}") as connection:
        await connection.set_isolation_level(IsolationLevel.REPEATABLE_READ)
        try:
            async with connection.transaction():
                with unfinished.open("w", encoding="utf-8") as file:
                    file.write(json.dumps({"format": _FORMAT, "tenant_id": str(tenant_id)}) + "\n")
                    async with AsyncServerCursor(connection, "export") as cursor:
                        await cursor.execute(statements.text("eventstore/archive:export"), {"tenant": tenant_id})
                        while rows := await cursor.fetchmany(_LINES_AT_ONCE):
                            lines = [f"{row[0]}\n" for row in rows]
                            await asyncio.to_thread(file.writelines, lines)
                            written += len(lines)
                    file.write(json.dumps({"events": written}) + "\n")
        finally:
            await connection.set_isolation_level(None)
    unfinished.replace(path)
    return written


async def restore(
    database: Database, statements: EventStoreStatements, path: Path, tenant_id: UUID | None
) -> tuple[UUID, int]:
    """Provision the tenant (by default the file's) and add the file's events; the tenant and how many.

    Raises ConfigError for a file that is not a whole export, before anything is written, and TenantBusy for a tenant
    that has events: an import that was interrupted is dropped and begun again.
    """
    of_file, count = await asyncio.to_thread(_inspect, path)
    tenant = of_file if tenant_id is None else tenant_id
    await provision(database, statements, tenant)
    async with database.connection(f"import tenant {tenant}") as connection:
        if (await execute(connection, statements.text("eventstore/archive:has_events"), {"tenant": tenant}))[0][0]:
            raise TenantBusy(f"tenant {tenant} has events already; drop it first, or import under another id")
        with path.open(encoding="utf-8") as file:
            next(file)
            lines = islice(file, count)
            while portion := list(islice(lines, _LINES_AT_ONCE)):
                await _add(database, statements, tenant, portion)
    return tenant, count


async def _add(database: Database, statements: EventStoreStatements, tenant_id: UUID, lines: Sequence[str]) -> None:
    """One short transaction, so that other tenants' appends go on between."""
    values = {"tenant": tenant_id, "lines": lines}
    await database.run(f"import tenant {tenant_id}", statements.text("eventstore/archive:import"), values)


def _inspect(path: Path) -> tuple[UUID, int]:
    """The tenant and the number of events of a file that is whole."""
    with path.open(encoding="utf-8") as file:
        head = _object(path, next(file, ""))
        if head.get("format") != _FORMAT:
            raise ConfigError(f"{path}: not an export of the event store")
        last, lines = "", 0
        for last in file:  # noqa: B007 -- the last line is what is wanted
            lines += 1
    if lines == 0 or _object(path, last) != {"events": lines - 1}:
        raise ConfigError(f"{path}: the end is missing; the export was interrupted or the file was cut")
    return checked_id("tenant_id", str(head.get("tenant_id"))), lines - 1


def _object(path: Path, line: str) -> dict[str, object]:
    try:
        value = json.loads(line)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: not an export of the event store, or cut short")
    return value
