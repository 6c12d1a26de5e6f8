"""Statements over psycopg 3. Imported only when a connection or cursor of psycopg is handed in.

A cursor of our own is opened on the caller's connection: the caller's keeps its results, and its row and cursor
factories play no part. Nothing is prepared on the server, so that PgBouncer may stand in between.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any, LiteralString, TypeAlias

import psycopg
from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow, tuple_row

from openoutbox.failure import StatementFailure
from openoutbox.ports import Values
from openoutbox.statements import statement as load_statement

SyncTarget: TypeAlias = Connection[Any] | Cursor[Any]
AsyncTarget: TypeAlias = AsyncConnection[Any] | AsyncCursor[Any]

SYNC = (Connection, Cursor)
ASYNC = (AsyncConnection, AsyncCursor)


class PsycopgChannel:
    """A ``SyncChannel`` over a connection or cursor."""

    def __init__(self, target: SyncTarget) -> None:
        self._connection: Connection[Any] = target.connection if isinstance(target, Cursor) else target

    def send(self, statement: LiteralString, values: Values) -> int:
        """See ``SyncChannel``."""
        with Cursor(self._connection) as cursor:
            return cursor.execute(statement, values, prepare=False).rowcount

    def fetch(self, statement: LiteralString, values: Values) -> list[TupleRow]:
        """See ``SyncChannel``."""
        with Cursor(self._connection, row_factory=tuple_row) as cursor:
            return cursor.execute(statement, values, prepare=False).fetchall()

    @contextlib.contextmanager
    def savepoint(self) -> Iterator[None]:
        """See ``SyncChannel``."""
        if _opens_implicitly(self._connection):
            self.send(load_statement("outbox/insert:begin"), {})
        with self._connection.transaction():
            yield

    def commits_at_once(self) -> bool:
        """See ``SyncChannel``."""
        return self._connection.autocommit and _is_idle(self._connection)


class AsyncPsycopgChannel:
    """An ``AsyncChannel`` over a connection or cursor."""

    def __init__(self, target: AsyncTarget) -> None:
        self._connection: AsyncConnection[Any] = target.connection if isinstance(target, AsyncCursor) else target

    async def send(self, statement: LiteralString, values: Values) -> int:
        """See ``SyncChannel``."""
        async with AsyncCursor(self._connection) as cursor:
            return (await cursor.execute(statement, values, prepare=False)).rowcount

    async def fetch(self, statement: LiteralString, values: Values) -> list[TupleRow]:
        """See ``SyncChannel``."""
        async with AsyncCursor(self._connection, row_factory=tuple_row) as cursor:
            return await (await cursor.execute(statement, values, prepare=False)).fetchall()

    @contextlib.asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """See ``SyncChannel``."""
        if _opens_implicitly(self._connection):
            await self.send(load_statement("outbox/insert:begin"), {})
        async with self._connection.transaction():
            yield

    def commits_at_once(self) -> bool:
        """See ``SyncChannel``."""
        return self._connection.autocommit and _is_idle(self._connection)


def failure_of(error: BaseException) -> StatementFailure | None:
    """See ``openoutbox.channel.failure_of``."""
    if not isinstance(error, psycopg.Error):
        return None
    message = error.diag.message_primary or str(error) or type(error).__name__
    return StatementFailure(
        error.sqlstate, message, error.diag.table_name, error.diag.constraint_name, is_connection_loss(error)
    )


def is_connection_loss(error: psycopg.Error) -> bool:
    """Whether the connection itself failed: no SQLSTATE came with it."""
    return error.sqlstate is None and isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)


def _opens_implicitly(connection: Connection[Any] | AsyncConnection[Any]) -> bool:
    """Whether ``transaction()`` would begin and commit a transaction that is the caller's to commit."""
    return not connection.autocommit and _is_idle(connection)


def _is_idle(connection: Connection[Any] | AsyncConnection[Any]) -> bool:
    return connection.info.transaction_status == TransactionStatus.IDLE
