"""Statements over psycopg 3. Imported only when a connection or cursor of psycopg is handed in.

A cursor of our own is opened on the caller's connection: the caller's keeps its results, and its row and cursor
factories play no part. Nothing is prepared on the server, so that PgBouncer may stand in between.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator, Iterator
from functools import lru_cache
from typing import Any, LiteralString, TypeAlias

import psycopg
from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.rows import TupleRow, tuple_row

from openoutbox.errors import InboxRefused
from openoutbox.failure import StatementFailure
from openoutbox.ports import Values
from openoutbox.statements import statement as load_statement

SyncTarget: TypeAlias = Connection[Any] | Cursor[Any]
AsyncTarget: TypeAlias = AsyncConnection[Any] | AsyncCursor[Any]

SYNC = (Connection, Cursor)
ASYNC = (AsyncConnection, AsyncCursor)

_BYTES = re.compile(r"(%\(\w+\))s(?=::BYTEA\b)")


class PsycopgChannel:
    """A ``SyncChannel`` over a connection or cursor."""

    def __init__(self, target: SyncTarget) -> None:
        self._connection: Connection[Any] = target.connection if isinstance(target, Cursor) else target

    def send(self, statement: LiteralString, values: Values) -> int:
        return Cursor(self._connection).execute(_binary(statement), values, prepare=False).rowcount

    def fetch(self, statement: LiteralString, values: Values) -> list[TupleRow]:
        with Cursor(self._connection, row_factory=tuple_row) as cursor:
            return cursor.execute(statement, values, prepare=False).fetchall()

    @contextlib.contextmanager
    def savepoint(self) -> Iterator[None]:
        if _opens_implicitly(self._connection):
            self.send(load_statement("outbox/insert:begin"), {})
        with self._connection.transaction():
            yield

    def commits_at_once(self) -> bool:
        if not self._connection.autocommit or not _is_idle(self._connection):
            return False
        if _is_pipelined(self._connection):  # a BEGIN may be on its way: known once the pipeline was synchronised
            with self._connection.pipeline():
                pass
        return _is_idle(self._connection)

    def transaction(self) -> contextlib.AbstractContextManager[object]:
        if not _is_idle(self._connection):
            raise InboxRefused.open_transaction()
        return self._connection.transaction()

    def flush(self) -> None: ...


class AsyncPsycopgChannel:
    """An ``AsyncChannel`` over a connection or cursor."""

    def __init__(self, target: AsyncTarget) -> None:
        self._connection: AsyncConnection[Any] = target.connection if isinstance(target, AsyncCursor) else target

    async def send(self, statement: LiteralString, values: Values) -> int:
        return (await AsyncCursor(self._connection).execute(_binary(statement), values, prepare=False)).rowcount

    async def fetch(self, statement: LiteralString, values: Values) -> list[TupleRow]:
        async with AsyncCursor(self._connection, row_factory=tuple_row) as cursor:
            return await (await cursor.execute(statement, values, prepare=False)).fetchall()

    @contextlib.asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        if _opens_implicitly(self._connection):
            await self.send(load_statement("outbox/insert:begin"), {})
        async with self._connection.transaction():
            yield

    async def commits_at_once(self) -> bool:
        if not self._connection.autocommit or not _is_idle(self._connection):
            return False
        if _is_pipelined(self._connection):
            async with self._connection.pipeline():
                pass
        return _is_idle(self._connection)

    def transaction(self) -> contextlib.AbstractAsyncContextManager[object]:
        if not _is_idle(self._connection):
            raise InboxRefused.open_transaction()
        return self._connection.transaction()

    async def flush(self) -> None: ...


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


def _is_pipelined(connection: Connection[Any] | AsyncConnection[Any]) -> bool:
    return connection.info.pipeline_status != PipelineStatus.OFF


def _is_idle(connection: Connection[Any] | AsyncConnection[Any]) -> bool:
    return connection.info.transaction_status == TransactionStatus.IDLE


@lru_cache(maxsize=64)
def _binary(statement: LiteralString) -> LiteralString:
    """The statement with its bytes sent as they are: psycopg writes an array of them as hexadecimal text otherwise."""
    return _BYTES.sub(r"\1b", statement)
