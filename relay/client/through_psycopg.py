"""The INSERT over psycopg 3. Imported only when a connection or cursor of psycopg is handed in.

A cursor of our own is opened on the caller's connection: the caller's keeps its results, and its row and cursor
factories play no part. Nothing is prepared on the server, so that PgBouncer may stand in between.
"""

from __future__ import annotations

from typing import Any, LiteralString, TypeAlias

from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor

from relay.client.insert import InsertRows

SyncTarget: TypeAlias = Connection[Any] | Cursor[Any]
AsyncTarget: TypeAlias = AsyncConnection[Any] | AsyncCursor[Any]

SYNC = (Connection, Cursor)
ASYNC = (AsyncConnection, AsyncCursor)


def insert(target: SyncTarget, statement: LiteralString, rows: InsertRows) -> int:
    """Send it; the number of new rows, or -1 when the connection is in pipeline mode and does not know yet."""
    connection = target.connection if isinstance(target, Cursor) else target
    with Cursor(connection) as cursor:
        return cursor.execute(statement, rows, prepare=False).rowcount


async def insert_async(target: AsyncTarget, statement: LiteralString, rows: InsertRows) -> int:
    """As ``insert``, on an asynchronous connection."""
    connection = target.connection if isinstance(target, AsyncCursor) else target
    async with AsyncCursor(connection) as cursor:
        return (await cursor.execute(statement, rows, prepare=False)).rowcount
