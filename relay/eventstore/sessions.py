"""Names the sessions that others wait for, to an operator, also while a statement waits.

Used by ``Reader.holders`` and ``TenantPart.drop_tenant``. Nothing here raises for a database that does not answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterable
from typing import Final

from relay.core.errors import StorageError
from relay.core.tasks import beside
from relay.eventstore.database import Connection, Database, Row, execute
from relay.eventstore.statements import EventStoreStatements

_log = logging.getLogger(__name__)

_WAITED_LONG: Final = 5.0  # seconds until the first message, and between two looks


def named(rows: Iterable[Row]) -> str:
    """Process id, user, application and seconds of the transaction, of each session."""
    return ", ".join(
        "a prepared transaction (pg_prepared_xacts)"
        if not pid
        else f"pid {pid} (user {user}, application {application or 'unnamed'}"
        + (")" if seconds is None else f", its transaction is {seconds} s old)")
        for pid, user, application, seconds in rows
    )


@contextlib.asynccontextmanager
async def saying_who_blocks(
    database: Database, statements: EventStoreStatements, connection: Connection, doing: str
) -> AsyncIterator[None]:
    """Log which sessions that of ``connection`` waits for, after 5 s, and again when these are others."""
    [(pid,)] = await execute(connection, statements.text("eventstore/tenants:own_pid"))
    async with beside(_look(database, statements, pid, doing), "eventstore-blockers"):
        yield


async def _look(database: Database, statements: EventStoreStatements, pid: int, doing: str) -> None:
    blockers, last = statements.text("eventstore/tenants:blockers"), None
    while True:
        await asyncio.sleep(_WAITED_LONG)
        with contextlib.suppress(StorageError):
            rows = await database.rows("look who blocks", blockers, {"pid": pid})
            pids = [row[0] for row in rows]
            if pids and pids != last:
                _log.warning("%s: waits for %s; it goes on when that transaction ends", doing, named(rows))
            last = pids
