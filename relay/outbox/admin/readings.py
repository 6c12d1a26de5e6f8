"""What the pages of the console share when they read: a bounded transaction, one round trip, the optional tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from openoutbox.schema import tables_beside
from relay.outbox.admin.connection import Connection, fetch, operating, rows
from relay.outbox.extensions import watched_tables
from relay.postgres.errors import translating
from relay.postgres.grants import granting
from relay.postgres.sql import TableName, statement

STATEMENT_SECONDS: Final = 5.0
"""A statement that takes longer is cancelled, with StorageBusy."""

Query = tuple[str, Mapping[str, object]]
"""The path of a statement, for example ``outbox/search:relays``, and its parameters."""


@contextmanager
def bounded_reading(url: str, table: TableName, doing: str) -> Iterator[Connection]:
    """A connection with one transaction, whose statements are cancelled after ``STATEMENT_SECONDS``.

    Raises as ``operating``, and StorageBusy for a cancelled statement.
    """
    with operating(url, table, doing) as connection, connection.transaction():
        limit_statements(connection)
        yield connection


def limit_statements(connection: Connection) -> None:
    """Have those of the transaction cancelled after ``STATEMENT_SECONDS``."""
    connection.execute(statement("outbox/search:limit"), {"timeout": f"{STATEMENT_SECONDS * 1000:.0f}"})


def one_round_trip(connection: Connection, table: TableName, *queries: Query) -> list[list[tuple[Any, ...]]]:
    """The rows of each statement, in their order; all of them are sent before the first answer is read."""
    cursors = [connection.cursor(binary=True) for _ in queries]
    with connection.pipeline():
        for cursor, (path, parameters) in zip(cursors, queries, strict=True):
            cursor.execute(statement(path, table, tables_beside(table)), parameters)
    return [cursor.fetchall() for cursor in cursors]


def rows_beside(
    connection: Connection, table: TableName, part: str, path: str, parameters: Mapping[str, object]
) -> list[tuple[Any, ...]] | None:
    """The rows of a statement on an optional table, by its name in ``watched_tables``; None without it.

    Raises SchemaError without the right.
    """
    watched = watched_tables(table)
    [(_, *present)] = rows(connection, "outbox/table:ping", table, watched)
    if not dict(zip(watched, present, strict=True))[part]:
        return None
    place = tables_beside(table)[f"openoutbox_{part}"]
    with granting("SELECT", place, connection.info.user), translating(f"reading {place}"):
        return fetch(connection, statement(path, table, tables_beside(table)), parameters)
