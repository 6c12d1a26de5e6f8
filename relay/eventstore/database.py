"""Connections of the store's own, and the errors of failed statements.

No statement waits without end: one that brings no part of an answer for its deadline is cancelled on the server, and
its connection is cut and replaced. What has none waits for other transactions, or for a file, as long as it takes; it
says so where it is called, and ends when the host is gone, by TCP's own timeouts.

Two kinds of statements are prepared on the server, where no pooler stands between: an append, which calls a function,
and those that name their tenants as constants (``relay.eventstore.partitions``). PostgreSQL would finally plan any
other for all tenants' partitions at once.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Callable, Mapping
from typing import Any, Final, LiteralString, TypeAlias, TypeVar

import psycopg
from psycopg import AsyncConnection, AsyncCursor
from psycopg.adapt import AdaptersMap
from psycopg.rows import TupleRow, tuple_row
from psycopg.types.json import set_json_loads

from openoutbox.failure import StatementFailure
from relay.core.backoff import RetryPolicy
from relay.core.errors import StorageError, StorageUnavailable
from relay.postgres import errors
from relay.postgres.codec import decode_json
from relay.postgres.connect import Work, connect_async
from relay.postgres.deadline_pool import DeadlinePool
from relay.postgres.sql import statement
from relay.postgres.url import connection_parameters

T = TypeVar("T")
Connection: TypeAlias = AsyncConnection[Any]
Row: TypeAlias = TupleRow
Values: TypeAlias = Mapping[str, object]

DEADLINE: Final = 30.0
"""Seconds without any part of an answer, after which a statement is cancelled, with StorageTimeout."""
NO_DEADLINE: Final = math.inf

_log = logging.getLogger(__name__)
_NAME: Final = "openoutbox-eventstore"
_OUTAGE: Final = RetryPolicy(max_attempts=1, base_delay=0.1, max_delay=5.0, jitter=0.25)
"""Seconds between the attempts of a subscription whose database does not answer, without end."""
_OWN_SESSION: Final = statement("eventstore/read:own_session")
_LONGEST_WAIT: Final = 30.0  # seconds for a connection that other callers use
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


async def execute(
    connection: Connection, statement: LiteralString, values: Values | None = None, *, often: bool = False
) -> list[Row]:
    """Send one statement; its rows as plain tuples, whatever row factory the connection's owner has chosen.

    One that is sent ``often`` is prepared, where the connection prepares any.
    """
    async with AsyncCursor(connection, row_factory=tuple_row) as cursor:
        await cursor.execute(statement, values, prepare=None if often else False)
        return await cursor.fetchall() if cursor.description else []


async def wait_out(error: StorageError, subscription: str, failures: int) -> None:
    """Wait before a subscription tries again, longer after each failure in a row. Lost connections are replaced."""
    delay = _OUTAGE.delay(failures, random.random())
    _log.warning("subscription %s: %s; it tries again in %.1f s", subscription, error, delay)
    await asyncio.sleep(delay)


class Database:
    """Up to ``max_connections``, made when they are needed and replaced when they are lost.

    Every method raises ``StorageUnavailable`` when the database does not answer, and after ``close``.
    """

    def __init__(
        self,
        url: str,
        *,
        max_connections: int,
        on_connect: tuple[LiteralString, Values] | None,
        decode: Callable[[str | bytes], object] = decode_json,
    ) -> None:
        """Connects to nothing yet. Raises ConfigError for an invalid URL."""
        self._url = url
        self._on_connect = on_connect
        self._parameters = connection_parameters(url, _NAME, source="url")
        adapters = AdaptersMap(psycopg.adapters)
        set_json_loads(decode, adapters)
        self._pool = DeadlinePool(
            self._parameters,
            size=max_connections,
            deadline=DEADLINE,
            longest_wait=_LONGEST_WAIT,
            adapters=adapters,
            schema_hint=_MIGRATE,
            on_connect=self._make_ready,
        )
        self._is_closed = False

    async def open(self) -> None:
        """Connect once, for the reason of a refusal. Raises StorageUnavailable without an answer in 10 s."""
        await self._pool.run("connect to the event store", _nothing)

    async def close(self) -> None:
        """Close every connection, after cancelling what still runs."""
        self._is_closed = True
        await self._pool.close()

    def apart(self, max_connections: int) -> Database:
        """Other connections to the same database, for the event loop of another thread."""
        return Database(self._url, max_connections=max_connections, on_connect=self._on_connect)

    async def dedicated(self) -> AsyncConnection[TupleRow]:
        """A connection outside the pool, for the caller to close: for LISTEN, which needs one of its own."""
        try:
            return await connect_async(self._parameters)
        except psycopg.Error as error:
            raise translated(error, "connect to the event store") from error

    async def run(self, doing: str, work: Work[T], deadline: float | None = None) -> T:
        """Await ``work`` with a connection, in no transaction; the driver's errors are raised as the project's.

        ``deadline`` None means ``DEADLINE``.
        """
        if self._is_closed:  # by a subscription that is closed later, say
            raise StorageUnavailable(f"{doing}: the event store was closed")
        return await self._pool.run(doing, work, deadline)

    async def transaction(self, doing: str, work: Work[T], deadline: float | None = None) -> T:
        """As ``run``, in a transaction."""

        async def committed(connection: Connection) -> T:
            async with connection.transaction():
                return await work(connection)

        return await self.run(doing, committed, deadline)

    async def rows(
        self, doing: str, statement: LiteralString, values: Values | None = None, deadline: float | None = None
    ) -> list[Row]:
        """The rows of one statement, in a transaction of its own."""
        return await self.run(doing, lambda connection: execute(connection, statement, values), deadline)

    async def _make_ready(self, connection: Connection) -> None:
        """Isolation levels stay the database's own. What is sent often is prepared, where nothing stands between."""
        [(own_session,)] = await execute(connection, _OWN_SESSION, {"pid": connection.info.backend_pid})
        if own_session:
            connection.prepare_threshold = 2
        if self._on_connect is not None:
            await execute(connection, *self._on_connect)


async def _nothing(_connection: Connection) -> None:
    pass
