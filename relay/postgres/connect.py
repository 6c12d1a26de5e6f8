"""Connect to PostgreSQL: every connection of the project is made here, from ``relay.postgres.url``'s parameters.

All are in autocommit mode and prepare nothing on the server, so that PgBouncer may stand in between; but for those that
``relay.postgres.prepared`` has looked at.

A ``DeadlineConnection`` never waits without end. A statement that makes no progress within its deadline, or whose task
is cancelled, is cancelled on the server first, over a connection of its own and for a second at most; then its socket
is cut. Cutting alone is not enough: a backend that waits for a lock does not notice it, and commits once it has the
lock. Cancelling alone is not enough either: over a network that swallows everything the server never hears of it.

Progress is a reply, or a part of one: a statement whose result still arrives, over a slow link, may have been committed
already, so giving it up would leave a claim behind that no relay knows of.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from struct import Struct
from typing import Any, Final, TypeAlias, TypeVar

import psycopg
from psycopg import IsolationLevel
from psycopg.adapt import AdaptersMap
from psycopg.pq import TransactionStatus

from relay.core.durations import in_words
from relay.core.errors import StorageError, StorageTimeout, StorageUnavailable
from relay.core.tasks import ended
from relay.postgres.codec import FENCES
from relay.postgres.errors import classify, may_connect_later, wants_new_connections
from relay.postgres.read_ahead import EagerConnection
from relay.postgres.sql import statement
from relay.postgres.url import ConnectionParameters, LiveParameters

T = TypeVar("T")
Connection: TypeAlias = psycopg.AsyncConnection[tuple[Any, ...]]
SyncConnection: TypeAlias = psycopg.Connection[tuple[Any, ...]]
Work = Callable[[Connection], Awaitable[T]]

LONGEST_CANCEL: Final = 1.0
"""Seconds that the server is given to take a cancellation."""
_SOON: Final = 0.05  # seconds; most statements have ended by then, and what they have received was not asked for
_LONGEST_END: Final = 1.0  # seconds until a task notices that its socket was cut
_TCP_INFO: Final[int | None] = getattr(socket, "TCP_INFO", None)
_BYTES_RECEIVED: Final = Struct("=128xQ")  # tcpi_bytes_received of Linux's struct tcp_info
READ_COMMITTED: Final = "read committed"
"""The isolation level of all transactions."""
_FAREWELL: Final = 5.0  # seconds that the end of a server's process is waited for


async def connect_async(parameters: ConnectionParameters, adapters: AdaptersMap | None = None) -> Connection:
    """A new connection for asyncio, with the secret as it is now. Raises psycopg.Error."""
    with _with_secret(parameters):
        present = await parameters.present_off_loop() if isinstance(parameters, LiveParameters) else parameters
        return await EagerConnection.connect(
            **present,  # type: ignore[arg-type]  # libpq's own parameters, by name
            autocommit=True,
            prepare_threshold=None,
            context=adapters,
        )


def connect(parameters: ConnectionParameters, adapters: AdaptersMap | None = None) -> SyncConnection:
    """A new connection for synchronous code, with the secret as it is now. Raises psycopg.Error."""
    with _with_secret(parameters):
        present = parameters.present() if isinstance(parameters, LiveParameters) else parameters
        return psycopg.Connection.connect(
            **present,  # type: ignore[arg-type]  # libpq's own parameters, by name
            autocommit=True,
            prepare_threshold=None,
            context=adapters,
        )


@contextmanager
def _with_secret(parameters: ConnectionParameters) -> Iterator[None]:
    """A refused login asks for another password next time; a command that gives none is an error of the driver's."""
    try:
        yield
    except StorageUnavailable as error:
        raise psycopg.OperationalError(str(error)) from None
    except psycopg.OperationalError as error:
        # Poolers and services have words of their own for a login that they refuse: "The access token has expired".
        if isinstance(parameters, LiveParameters) and not may_connect_later(error):
            parameters.refused()
        raise


async def read_committed(connection: Connection) -> None:
    """Make READ COMMITTED the level of its transactions, where the database's default is another one."""
    cursor = await connection.execute(statement("session:default_isolation"))
    if await cursor.fetchone() != (READ_COMMITTED,):
        await connection.set_isolation_level(IsolationLevel.READ_COMMITTED)


def close_and_wait(connection: SyncConnection) -> None:
    """Close it and return when the server has let go of it, so that the next connection does not add to it."""
    if connection.closed:
        return
    with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as peer:
        peer.settimeout(_FAREWELL)
        connection.close()
        while peer.recv(4096):
            pass
    connection.close()


class Generation:
    """Shared by all connections of an adapter: a failover that one of them sees makes all of them outdated."""

    def __init__(self) -> None:
        self.number = 0

    def advance(self) -> None:
        """Replace everything that is connected now before it is used again."""
        self.number += 1


class DeadlineConnection:
    """A connection with a deadline for each use; one caller at a time uses it.

    It connects on demand and again after a loss. It keeps no session state, so it works behind PgBouncer in transaction
    mode: no named prepared statement, no SET, no startup parameter beyond the usual ones, but for what ``on_connect``
    adds.

    ``on_connect`` is awaited with each new connection before any work is. Where it sets an isolation level, ``work``
    runs in a transaction that names its level: two more round trips. ``recover`` is awaited with an error of ``work``;
    it says whether that changed nothing and is worth another try, over a new connection.
    """

    def __init__(
        self,
        parameters: ConnectionParameters,
        deadline: float,
        generation: Generation,
        *,
        adapters: AdaptersMap | None = FENCES,
        schema_hint: str = "",
        on_connect: Work[None] = read_committed,
        recover: Callable[[Connection, psycopg.Error], Awaitable[bool]] | None = None,
    ) -> None:
        """``deadline`` is in seconds; ``schema_hint`` says in a SchemaError what to do about it.

        ``adapters`` None means psycopg's own.
        """
        self._parameters = parameters
        self._adapters = adapters
        self._schema_hint = schema_hint
        self._on_connect = on_connect
        self._recover = recover
        self._deadline = deadline
        self._generation = generation
        self._connected_in = -1
        self._connection: Connection | None = None
        self._closing = False
        self._lock = asyncio.Lock()

    @property
    def busy(self) -> bool:
        """Whether a caller uses it now."""
        return self._lock.locked()

    @property
    def connected(self) -> bool:
        """Whether a connection is open."""
        return self._connection is not None and not self._connection.closed

    async def run(self, doing: str, work: Work[T], deadline: float | None = None) -> T:
        """Await ``work`` with the connection. Raises the errors of the storage port only.

        ``deadline`` (seconds) replaces the connection's, for what must be quick. It begins again while a reply arrives.
        Up to two seconds more go by until an overdue statement is cancelled and its socket cut; whether it took effect
        is unknown. A transaction that ``work`` leaves open is given up together with the connection.
        """
        deadline = self._deadline if deadline is None else deadline
        async with self._lock:
            self._closing = False
            task = asyncio.ensure_future(self._attempt(work))
            try:
                in_time = await self._progressed(task, deadline)
            except asyncio.CancelledError:
                await self._abandon(task)
                raise
            if not in_time:
                overdue = StorageTimeout(f"{doing}: no answer within {in_words(deadline)}")
                overdue.server_answers = await self._abandon(task)
                raise overdue
            try:
                return task.result()
            except psycopg.Error as error:
                if self._closing:  # the server calls it a cancelled statement, which would be worth another try
                    raise StorageUnavailable(f"{doing}: the connection was closed meanwhile") from error
                if wants_new_connections(error):
                    self._generation.advance()
                connected = self._connection is not None  # None: it failed to connect; a lost one is dropped below
                raise classify(error, doing if connected else "", schema_hint=self._schema_hint) from error
            except UnicodeError as error:
                raise StorageError(f"{doing}: text that is not UTF-8: {error}") from error
            finally:
                await self._drop_unless_idle()

    async def close(self) -> None:
        """Close the connection, after cancelling and cutting off what still runs; never raises."""
        connection = self._connection
        if connection is not None:
            try:
                if self.busy:
                    self._closing = True
                    await _cancel(connection)
            finally:  # also when the caller has no patience left
                shut_down(connection)
        async with self._lock:
            await self._drop()

    async def _progressed(self, task: asyncio.Future[T], deadline: float) -> bool:
        """Wait for ``task`` as long as each ``deadline`` brings some of its reply; False when one brings nothing."""
        if await ended(task, min(deadline, _SOON)):
            return True
        received = self._received()
        while not await ended(task, deadline):
            before, received = received, self._received()
            if received is None or received == before:
                return False
        return True

    def _received(self) -> tuple[int, int] | None:
        """Which connection it is, and the bytes it has received; None without one, or if the system has no figure."""
        connection = self._connection
        if connection is None or connection.closed or _TCP_INFO is None:
            return None
        with suppress(psycopg.Error, OSError), socket.socket(fileno=os.dup(connection.fileno())) as peer:
            info = peer.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _BYTES_RECEIVED.size)
            return id(connection), *_BYTES_RECEIVED.unpack(info.ljust(_BYTES_RECEIVED.size, b"\0"))
        return None

    async def _attempt(self, work: Work[T]) -> T:
        try:
            return await self._do(work)
        except psycopg.Error as error:
            connection = self._connection
            if connection is None or self._recover is None or not await self._recover(connection, error):
                raise
        await self._drop()
        return await self._do(work)

    async def _do(self, work: Work[T]) -> T:
        connection = await self._ready()
        if connection.isolation_level is None:
            return await work(connection)
        async with connection.transaction():
            return await work(connection)

    async def _ready(self) -> Connection:
        """The live connection, made now if there is none of this generation."""
        connection = self._connection
        if connection is not None and not connection.closed and self._connected_in == self._generation.number:
            return connection
        await self._drop()
        generation = self._generation.number
        connection = await connect_async(self._parameters, self._adapters)
        self._connection, self._connected_in = connection, -1  # so that it is cut off while it is made ready, too
        await self._on_connect(connection)
        self._connected_in = generation
        return connection

    async def _abandon(self, task: asyncio.Future[Any]) -> bool:
        """End ``task``, whatever it waits for: cancel its statement on the server, then cut the socket.

        Returns whether the server took the cancellation.
        """
        connection, self._connection = self._connection, None  # first, so that no other task meets it half closed
        self._generation.advance()
        answers = False
        try:
            if connection is not None:
                try:
                    answers = await _cancel(connection)
                finally:  # a second cancellation of the caller does not keep the socket open
                    shut_down(connection)
                await asyncio.wait({task}, timeout=_LONGEST_END)
        finally:
            task.cancel()
            if connection is not None:  # after the task, which may wait for its socket, and whatever cancels the caller
                task.add_done_callback(lambda _: connection.pgconn.finish())
        with suppress(BaseException):
            await task
        return answers

    async def _drop_unless_idle(self) -> None:
        connection = self._connection
        if connection is not None and connection.pgconn.transaction_status != TransactionStatus.IDLE:
            await self._drop()

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error, OSError):
                await connection.close()


async def _cancel(connection: Connection) -> bool:
    """Ask the server to cancel what the connection runs, within ``LONGEST_CANCEL``; never raises psycopg's errors.

    Returns whether the server took the request.

    Not ``wait_for``: with a libpq before 17 the request is made in a thread, which nothing can interrupt.
    """
    request = asyncio.ensure_future(connection.cancel_safe(timeout=LONGEST_CANCEL))
    try:
        await asyncio.wait({request}, timeout=LONGEST_CANCEL)
    finally:
        if not request.done():
            request.cancel()
        request.add_done_callback(_forget)
    return request.done() and not request.cancelled() and request.exception() is None


def _forget(request: asyncio.Future[None]) -> None:
    """Take the outcome of a request, so that asyncio does not report it as lost."""
    if not request.cancelled():
        request.exception()


def shut_down(connection: psycopg.AsyncConnection[Any]) -> None:
    """Shut the connection's socket down, so that whatever waits for it fails now."""
    with suppress(psycopg.Error, OSError), socket.socket(fileno=os.dup(connection.pgconn.socket)) as peer:
        peer.shutdown(socket.SHUT_RDWR)
