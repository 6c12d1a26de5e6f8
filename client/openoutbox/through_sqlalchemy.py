"""Statements over SQLAlchemy 2, with any PostgreSQL driver below it (psycopg, psycopg2, asyncpg).

Imported only when a connection or session of SQLAlchemy is handed in; its asynchronous half, which needs greenlet,
only for an asynchronous one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import Connection, TextClause, exc, text
from sqlalchemy.orm import Session, scoped_session

from openoutbox.failure import StatementFailure
from openoutbox.ports import Row, Values

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session

    AsyncTarget: TypeAlias = AsyncConnection | AsyncSession | async_scoped_session[Any]

SyncTarget: TypeAlias = Connection | Session | scoped_session[Any]

SYNC = (Connection, Session, scoped_session)

_IDLE = 0  # libpq's PQTRANS_IDLE
_ROW_COUNT = {"preserve_rowcount": True}
_PARAMETER = re.compile(r"%\((\w+)\)s")


def async_classes() -> tuple[type, ...]:
    """What ``AsyncAlchemyChannel`` takes."""
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session  # noqa: PLC0415

    return (AsyncConnection, AsyncSession, async_scoped_session)


class AlchemyChannel:
    """A ``SyncChannel`` over a connection or session, which begins its transaction as for any other statement."""

    def __init__(self, target: SyncTarget) -> None:
        # A scoped_session has one session for each thread: the one of this thread, whichever sends the statement.
        self._target: Connection | Session = target() if isinstance(target, scoped_session) else target

    def send(self, statement: str, values: Values) -> int:
        return _send(self._target, statement, values)

    def fetch(self, statement: str, values: Values) -> Sequence[Row]:
        return [tuple(row) for row in self._target.execute(_clause(statement), values)]

    def savepoint(self) -> AbstractContextManager[object]:
        return self._target.begin_nested()

    def commits_at_once(self) -> bool:
        return _commits_at_once(self._target)

    def transaction(self) -> AbstractContextManager[object]:
        return self._target.begin()

    def flush(self) -> None:
        if isinstance(self._target, Session):
            self._target.flush()


class AsyncAlchemyChannel:
    """An ``AsyncChannel`` over a connection or session."""

    def __init__(self, target: AsyncTarget) -> None:
        from sqlalchemy.ext.asyncio import async_scoped_session  # noqa: PLC0415

        self._target: AsyncConnection | AsyncSession = target() if isinstance(target, async_scoped_session) else target

    async def send(self, statement: str, values: Values) -> int:
        return await self._target.run_sync(_send, statement, values)

    async def fetch(self, statement: str, values: Values) -> Sequence[Row]:
        return [tuple(row) for row in await self._target.execute(_clause(statement), values)]

    def savepoint(self) -> AbstractAsyncContextManager[object]:
        return self._target.begin_nested()

    async def commits_at_once(self) -> bool:
        return await self._target.run_sync(_commits_at_once)

    def transaction(self) -> AbstractAsyncContextManager[object]:
        return self._target.begin()

    async def flush(self) -> None:
        if hasattr(self._target, "flush"):  # a session
            await self._target.flush()


def failure_of(error: BaseException) -> StatementFailure | None:
    """See ``openoutbox.channel.failure_of``. The drivers name the same fields differently."""
    if not isinstance(error, exc.DBAPIError) or error.orig is None:
        return None
    original = error.orig
    sqlstate = getattr(original, "sqlstate", None) or getattr(original, "pgcode", None)
    lost = sqlstate is None and isinstance(error, exc.OperationalError | exc.InterfaceError)
    fields = getattr(original, "diag", None) or original.__cause__ or original  # psycopg and psycopg2, or asyncpg
    message = getattr(fields, "message_primary", None) or getattr(fields, "message", None) or str(original)
    table, constraint = getattr(fields, "table_name", None), getattr(fields, "constraint_name", None)
    return StatementFailure(sqlstate, message, table, constraint, lost or error.connection_invalidated)


def _commits_at_once(target: Connection | Session) -> bool:
    """Ask the driver's connection, below SQLAlchemy: psycopg, psycopg2 and asyncpg each know it."""
    pooled = (target if isinstance(target, Connection) else target.connection()).connection
    if not getattr(pooled.dbapi_connection, "autocommit", False):
        return False
    driver: Any = pooled.driver_connection
    if hasattr(driver, "is_in_transaction"):
        return not driver.is_in_transaction()
    return bool(driver.info.transaction_status == _IDLE)


def _send(target: Connection | Session, statement: str, values: Values) -> int:
    """Send a statement as the driver takes it, where that is its form: SQLAlchemy's own costs as much as the INSERT."""
    connection = target if isinstance(target, Connection) else target.connection()
    try:
        if connection.dialect.paramstyle == "pyformat":
            return connection.exec_driver_sql(statement, values, _ROW_COUNT).rowcount
        return connection.execute(_clause(statement), values, execution_options=_ROW_COUNT).rowcount
    except exc.StatementError as error:
        error.hide_parameters = True  # in its message: a payload may be confidential
        raise


@lru_cache(maxsize=64)
def _clause(statement: str) -> TextClause:
    """SQLAlchemy's form of a statement with ``%(name)s`` parameters: ``:name``, and every other colon escaped."""
    escaped = statement.replace(":", r"\:")
    return text(_PARAMETER.sub(r":\1", escaped).replace("%%", "%"))
