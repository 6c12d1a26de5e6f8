"""One connection to PostgreSQL that is used by one caller at a time, and never waits for ever.

A lane connects on demand and again after a loss. It keeps no session state, so it works behind PgBouncer in
transaction mode: no named prepared statement, no SET, no startup parameter beyond the usual ones.

A statement that gets no answer within the deadline, or whose task is cancelled, has its socket shut down. Asking the
server to cancel would not do: over a connection that swallows everything the question is never heard, and psycopg
waits for the answer. Whether such a statement took effect is unknown; the next use of the lane connects anew.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus

from relay.core.errors import StorageError, StorageUnavailable
from relay.outbox.decoding import ADAPTERS
from relay.postgres.errors import classify, wants_new_connections
from relay.postgres.url import ConnectionParameters

T = TypeVar("T")
Connection = psycopg.AsyncConnection[tuple[Any, ...]]
Work = Callable[[Connection], Awaitable[T]]


class Epoch:
    """Shared by all lanes: a failover seen by one of them makes the connections of all of them old."""

    def __init__(self) -> None:
        self.number = 0

    def advance(self) -> None:
        """Everything connected until now is to be connected anew."""
        self.number += 1


class Lane:
    """A connection of its own, used by one caller at a time."""

    def __init__(self, parameters: ConnectionParameters, deadline: float, epoch: Epoch) -> None:
        self._parameters = parameters
        self._deadline = deadline
        self._epoch = epoch
        self._connected_in = -1
        self._connection: Connection | None = None
        self._lock = asyncio.Lock()

    @property
    def busy(self) -> bool:
        """Whether somebody uses it now."""
        return self._lock.locked()

    async def run(self, doing: str, work: Work[T], deadline: float | None = None) -> T:
        """Await ``work`` with the connection. Raises the errors of the storage port only.

        ``deadline`` (seconds) replaces the lane's, for what must be quick. A transaction that ``work`` leaves
        open is given up together with the connection.
        """
        deadline = self._deadline if deadline is None else deadline
        async with self._lock:
            task = asyncio.ensure_future(self._attempt(work))
            try:
                done, _ = await asyncio.wait({task}, timeout=deadline)
            except asyncio.CancelledError:
                await self._cut(task)
                raise
            if not done:
                await self._cut(task)
                raise StorageUnavailable(f"{doing}: no answer within {deadline:g} s")
            try:
                return task.result()
            except psycopg.Error as error:
                if wants_new_connections(error):
                    self._epoch.advance()
                connected = self._connection is not None  # a loss is found out later, so it was not the connecting
                raise classify(error, doing if connected else "") from error
            except UnicodeError as error:
                raise StorageError(f"{doing}: text that is not UTF-8: {error}") from error
            finally:
                await self._drop_unless_idle()

    async def close(self) -> None:
        """Close the connection, cutting off what still runs; never raises."""
        if self._connection is not None:
            shut_down(self._connection)
        async with self._lock:
            await self._drop()

    async def _attempt(self, work: Work[T]) -> T:
        return await work(await self._ready())

    async def _ready(self) -> Connection:
        """The live connection, made now if there is none of this epoch."""
        if self._connection is not None and not self._connection.closed and self._connected_in == self._epoch.number:
            return self._connection
        await self._drop()
        epoch = self._epoch.number
        connection = await psycopg.AsyncConnection.connect(
            **self._parameters,  # type: ignore[arg-type]  # libpq's own parameters, by name
            autocommit=True,
            prepare_threshold=None,
            context=ADAPTERS,
        )
        self._connection, self._connected_in = connection, epoch
        return connection

    async def _cut(self, task: asyncio.Future[Any]) -> None:
        """End ``task`` at once, whatever it waits for."""
        connection, self._connection = self._connection, None  # first, so that nobody meets it half way
        self._epoch.advance()
        try:
            if connection is not None:
                shut_down(connection)
                await asyncio.wait({task}, timeout=1.0)
        finally:
            task.cancel()
        with suppress(BaseException):
            await task
        if connection is not None:
            with suppress(psycopg.Error, OSError):
                await connection.close()

    async def _drop_unless_idle(self) -> None:
        connection = self._connection
        if connection is not None and connection.info.transaction_status is not TransactionStatus.IDLE:
            await self._drop()

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error, OSError):
                await connection.close()


def shut_down(connection: psycopg.AsyncConnection[Any]) -> None:
    """Shut the connection's socket down, so that whatever waits for it fails now."""
    with suppress(psycopg.Error, OSError), socket.socket(fileno=os.dup(connection.pgconn.socket)) as peer:
        peer.shutdown(socket.SHUT_RDWR)
