"""Connections of the store's own, and the errors of failed statements.

Statements are not prepared on the server, but for those that name their tenants as constants
(``relay.eventstore.partitions``): PostgreSQL would finally plan any other for all tenants' partitions at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final, LiteralString, TypeAlias

import psycopg
from psycopg import AsyncConnection, AsyncCursor
from psycopg.rows import TupleRow, tuple_row
from psycopg.types.json import set_json_loads
from psycopg_pool import PoolTimeout

from openoutbox.failure import StatementFailure
from relay.core.errors import StorageError, StorageUnavailable
from relay.postgres import errors
from relay.postgres.codec import decode_json
from relay.postgres.connect import connect_async, make_pool
from relay.postgres.url import connection_parameters

Connection: TypeAlias = AsyncConnection[Any]
Row: TypeAlias = TupleRow
Values: TypeAlias = Mapping[str, object]

CONFLICT_STATE: Final = "ES001"
"""What ``event_append`` raises when the stream has another version."""
POSITION_STATE: Final = "ES002"
"""What the feed's trigger raises for a position that the store did not assign, ``event_append``'s probe among them."""
ID_STATE: Final = "ES003"
"""What ``event_append_once`` raises for an id that stands for another event."""

_NAME: Final = "openoutbox-eventstore"
_MIGRATE: Final = "run relay-cli store migrate as the owner of the schema, and relay-cli store grant for this user"


def translated(error: psycopg.Error, doing: str) -> StorageError:
    """The project's error for a driver's; ``doing`` names the attempted action."""
    return errors.classify(error, doing, schema_hint=_MIGRATE)


def translated_failure(failure: StatementFailure, doing: str) -> StorageError:
    """As ``translated``, for a failure on a caller's connection of any library."""
    message = failure.message if failure.sqlstate is None else f"{failure.message} (SQLSTATE {failure.sqlstate})"
    return errors.classify_failure(
        failure.sqlstate, message, doing, connection_lost=failure.connection_lost, schema_hint=_MIGRATE
    )


async def execute(connection: Connection, statement: LiteralString, values: Values | None = None) -> list[Row]:
    """Send one statement; its rows as plain tuples, whatever row factory the connection's owner has chosen."""
    async with AsyncCursor(connection, row_factory=tuple_row) as cursor:
        await cursor.execute(statement, values, prepare=False)
        return await cursor.fetchall() if cursor.description else []


class Database:
    """A small pool. Opened once; every method raises ``StorageUnavailable`` when the database does not answer."""

    def __init__(
        self,
        url: str,
        *,
        max_connections: int,
        on_connect: tuple[LiteralString, Values] | None,
        decode: Callable[[str | bytes], object] = decode_json,
    ) -> None:
        """Connects to nothing yet. Raises ConfigError for an invalid URL."""
        self._on_connect = on_connect
        self._decode = decode
        self._parameters = connection_parameters(url, _NAME, source="url")
        self._pool = make_pool(
            self._parameters, name="eventstore", size=max_connections, timeout=30.0, configure=self._configure
        )

    async def open(self) -> None:
        """Connect. Raises StorageUnavailable without an answer in 10 s."""
        # One connection first: the pool would not report the reason for a refusal before its deadline.
        probe = await self.dedicated()
        await probe.close()
        await self._pool.open()

    async def close(self) -> None:
        """Close every connection."""
        await self._pool.close()

    async def recover(self) -> None:
        """Replace the connections that were lost. Raises StorageUnavailable while the database does not answer."""
        probe = await self.dedicated()  # the pool itself tries ever less often while the database is down
        await probe.close()
        await self._pool.check()

    @contextlib.asynccontextmanager
    async def connection(self, doing: str) -> AsyncIterator[AsyncConnection[TupleRow]]:
        """One connection of the pool; the driver's errors are raised as the project's."""
        try:
            async with self._pool.connection() as connection:
                yield connection
        except PoolTimeout as error:
            raise StorageUnavailable(f"{doing}: no connection within {self._pool.timeout:g} s") from error
        except psycopg.Error as error:
            raise translated(error, doing) from error

    async def dedicated(self) -> AsyncConnection[TupleRow]:
        """A connection outside the pool, for the caller to close: for LISTEN, which needs one of its own."""
        try:
            return await connect_async(self._parameters)
        except psycopg.Error as error:
            raise translated(error, "connect to the event store") from error

    async def run(self, doing: str, statement: LiteralString, values: Values | None = None) -> list[Row]:
        """One statement in a transaction of its own."""
        async with self.connection(doing) as connection:
            return await execute(connection, statement, values)

    async def _configure(self, connection: AsyncConnection[TupleRow]) -> None:
        set_json_loads(self._decode, connection)
        if self._on_connect is not None:
            await execute(connection, *self._on_connect)
