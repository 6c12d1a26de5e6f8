"""The one reader of an outbox's pauses, for the relay, the operations and the console.

Pauses stand in the optional table of ``sql/outbox/extensions/pause.sql``; reading them needs SELECT on it.
"""

from __future__ import annotations

from typing import Any, LiteralString

from openoutbox.schema import tables_beside
from relay.core.pause import Pause, PauseScope, PauseTarget
from relay.outbox.extensions import pauses_of, watched_tables
from relay.postgres.connect import Connection, SyncConnection
from relay.postgres.errors import translating
from relay.postgres.grants import granting, rights_text
from relay.postgres.operating import fetch
from relay.postgres.sql import TableName, statement


def pause_statement(name: str, table: TableName) -> LiteralString:
    """A statement of ``sql/outbox/pause.sql``; its result becomes pauses by ``pause_of``."""
    return statement(f"outbox/pause:{name}", table, tables_beside(table))


def pause_of(row: tuple[Any, ...]) -> Pause:
    """The pause in a row."""
    scope, name, until, paused_by, reason, since = row
    return Pause(PauseTarget(PauseScope(scope), name), until, paused_by, reason, since)


async def read_for_claims(connection: Connection, table: TableName) -> list[Pause]:
    """The pauses in force, the oldest first, over a connection of the relay. The extension must be there."""
    cursor = connection.cursor(binary=True)
    await cursor.execute(pause_statement("read", table))
    return [pause_of(row) for row in await cursor.fetchall()]


def read_pauses(connection: SyncConnection, table: TableName) -> list[Pause]:
    """The pauses in force, the oldest first. The extension must be there."""
    return [pause_of(row) for row in fetch(connection, pause_statement("read", table), {})]


def pauses_in_force(connection: SyncConnection, table: TableName) -> list[Pause] | None:
    """The pauses in force, the oldest first; None without the extension, also inside a transaction.

    Raises SchemaError without SELECT on their table; the message names the GRANT.
    """
    [(_, _, present, *_)] = fetch(connection, statement("outbox/table:ping", table), watched_tables(table))
    if not present:
        return None
    with (
        granting(rights_text("outbox/grants", "relay_pauses"), pauses_of(table), connection.info.user),
        translating("reading the pauses"),
    ):
        return read_pauses(connection, table)
