"""Statements over asyncpg itself, without SQLAlchemy above it.

Imported only when a connection of asyncpg is handed in, its own or one of a pool. asyncpg prepares every statement that
has parameters: behind PgBouncer in transaction mode connect with ``statement_cache_size=0``.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import lru_cache

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from openoutbox.errors import InboxRefused
from openoutbox.failure import StatementFailure
from openoutbox.ports import Row, Values
from openoutbox.targets import AsyncpgConnection

ASYNC = (asyncpg.Connection, PoolConnectionProxy)

_PARAMETER = re.compile(r"%\((\w+)\)s(?:::(JSONB?)\b(\[\])?)?", re.IGNORECASE)
_LOST = "08"  # the class of SQLSTATEs of connections


class AsyncpgChannel:
    """An ``AsyncChannel`` over a connection."""

    def __init__(self, target: AsyncpgConnection) -> None:
        self._connection = target

    async def send(self, statement: str, values: Values) -> int:
        sql, names = _positional(statement)
        status = await self._connection.execute(sql, *(values[name] for name in names))
        return int(status.rpartition(" ")[2])

    async def fetch(self, statement: str, values: Values) -> Sequence[Row]:
        sql, names = _positional(statement)
        return [tuple(row) for row in await self._connection.fetch(sql, *(values[name] for name in names))]

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        block = self._connection.transaction()
        await block.start()
        try:
            yield
        except BaseException:
            if not self._connection.is_closed():  # rolling back would hide why the connection was lost
                await block.rollback()
            raise
        await block.commit()

    async def commits_at_once(self) -> bool:
        return not self._connection.is_in_transaction()

    def transaction(self) -> AbstractAsyncContextManager[None]:
        if self._connection.is_in_transaction():
            raise InboxRefused.open_transaction()
        return self.savepoint()

    async def flush(self) -> None: ...


def failure_of(error: BaseException) -> StatementFailure | None:
    """See ``openoutbox.channel.failure_of``."""
    if isinstance(error, asyncpg.InterfaceError):
        return StatementFailure(None, str(error), None, None, connection_lost="connection is closed" in str(error))
    if not isinstance(error, asyncpg.PostgresError):
        return None
    sqlstate: str | None = error.sqlstate
    lost = isinstance(error, asyncpg.PostgresConnectionError) or (sqlstate or "").startswith(_LOST)
    message = getattr(error, "message", None) or str(error)
    return StatementFailure(
        sqlstate, message, getattr(error, "table_name", None), getattr(error, "constraint_name", None), lost
    )


@lru_cache(maxsize=64)
def _positional(statement: str) -> tuple[str, tuple[str, ...]]:
    """A statement with ``$1`` in place of ``%(name)s``, and the names in that order.

    JSON goes in as text: an application may have given the connection a codec of its own for it, which would encode the
    text once more.
    """
    names: list[str] = []

    def place(match: re.Match[str]) -> str:
        name, json_type, array = match[1], match[2], match[3] or ""
        if name not in names:
            names.append(name)
        parameter = f"${names.index(name) + 1}"
        return parameter if json_type is None else f"{parameter}::TEXT{array}::{json_type}{array}"

    return _PARAMETER.sub(place, statement).replace("%%", "%"), tuple(names)
