"""Connections of the store's own, and what a failed statement means.

Every connection is in autocommit mode and prepares nothing on the server: a prepared statement would in the end be
planned for all tenants' partitions at once, and PgBouncer may stand in between.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final, LiteralString, TypeAlias

import psycopg
from psycopg import AsyncConnection, AsyncCursor
from psycopg.rows import TupleRow, tuple_row
from psycopg.types.json import set_json_loads
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from relay.core.errors import ConfigError, EventError, SchemaError, StorageBusy, StorageError, StorageUnavailable

Connection: TypeAlias = AsyncConnection[Any]
Row: TypeAlias = TupleRow
Values: TypeAlias = Mapping[str, object]

CONFLICT_STATE: Final = "ES001"
"""What ``event_append`` raises when the stream has another version."""

_BUSY: Final = frozenset({"40001", "40P01", "55P03", "55006", "57014"})
_SCHEMA: Final = frozenset({"42P01", "3F000", "42703", "42501", "42883"})
_NOT_AN_EVENT: Final = frozenset({"22P02", "22P05", "22021", "54000"})
_UNAVAILABLE: Final = frozenset({"25006", "57P01", "57P02", "57P03", "57P04", "57P05", "25P03", "25P04", "3D000"})
_UNAVAILABLE_CLASSES: Final = frozenset({"08", "28", "53", "58", "XX"})


def translated(error: psycopg.Error, doing: str) -> StorageError | EventError:
    """The project's error for a driver's; ``doing`` says what was tried."""
    state = error.sqlstate
    text = f"{doing}: {error.diag.message_primary or str(error).strip() or type(error).__name__}"
    if state is None:
        lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
        return (StorageUnavailable if lost else StorageError)(text)
    if state in _NOT_AN_EVENT:
        return EventError(text)
    if state in _BUSY:
        return StorageBusy(text, state)
    if state in _SCHEMA:
        return SchemaError(f"{text}; has migrate run on this schema, and is it granted to this user?", state)
    if state in _UNAVAILABLE or state[:2] in _UNAVAILABLE_CLASSES:
        return StorageUnavailable(text, state)
    return StorageError(text, state)


_decode = json.JSONDecoder().raw_decode


def _json(text: str | bytes) -> object:
    """What PostgreSQL wrote as JSON: UTF-8 without blanks, which ``json.loads`` spends half its time looking for."""
    return _decode(text if isinstance(text, str) else str(text, "utf-8"))[0]


@contextlib.contextmanager
def translating(doing: str) -> Iterator[None]:
    """Turns the driver's errors into the project's."""
    try:
        yield
    except psycopg.Error as error:
        raise translated(error, doing) from error


async def execute(connection: Connection, statement: LiteralString, values: Values | None = None) -> list[Row]:
    """Send one statement; its rows as plain tuples, whatever row factory the connection's owner has chosen."""
    async with AsyncCursor(connection, row_factory=tuple_row) as cursor:
        await cursor.execute(statement, values, prepare=False)
        return await cursor.fetchall() if cursor.description else []


class Database:
    """A small pool. Opened once; every method raises ``StorageUnavailable`` when the database does not answer."""

    def __init__(self, url: str, *, max_connections: int, on_connect: tuple[LiteralString, Values] | None) -> None:
        self.url = url
        self._on_connect = on_connect
        self._pool: AsyncConnectionPool[AsyncConnection[TupleRow]] = AsyncConnectionPool(
            url,
            min_size=1,
            max_size=max_connections,
            open=False,
            kwargs={"autocommit": True, "prepare_threshold": None},
            configure=self._configure,
            name="eventstore",
            timeout=30.0,
        )

    async def open(self) -> None:
        """Connect. Raises ConfigError for a URL that cannot be meant, StorageUnavailable without an answer in 10 s."""
        try:
            psycopg.conninfo.conninfo_to_dict(self.url)
        except psycopg.Error:
            raise ConfigError("url: not a PostgreSQL URL; write postgres://user:password@host:5432/database") from None
        # One connection by hand: the pool would keep the reason for a refusal to itself until its deadline.
        with translating("connect to the event store"):
            probe = await AsyncConnection.connect(self.url, autocommit=True, connect_timeout=10)
            await probe.close()
        await self._pool.open()

    async def close(self) -> None:
        """Close every connection."""
        await self._pool.close()

    @contextlib.asynccontextmanager
    async def connection(self, doing: str) -> AsyncIterator[AsyncConnection[TupleRow]]:
        """One connection of the pool; errors of the driver leave as the project's."""
        try:
            async with self._pool.connection() as connection:
                yield connection
        except PoolTimeout as error:
            raise StorageUnavailable(f"{doing}: no connection within {self._pool.timeout:g} s") from error
        except psycopg.Error as error:
            raise translated(error, doing) from error

    async def dedicated(self) -> AsyncConnection[TupleRow]:
        """A connection outside the pool, for the caller to close: for LISTEN, which needs one of its own."""
        with translating("connect to the event store"):
            return await AsyncConnection.connect(self.url, autocommit=True, prepare_threshold=None)

    async def run(self, doing: str, statement: LiteralString, values: Values | None = None) -> list[Row]:
        """One statement in a transaction of its own."""
        async with self.connection(doing) as connection:
            return await execute(connection, statement, values)

    async def _configure(self, connection: AsyncConnection[TupleRow]) -> None:
        set_json_loads(_json, connection)
        if self._on_connect is not None:
            await execute(connection, *self._on_connect)
