"""The server's connections: a bound on their number, and a deadline for each request and each answer.

Connections are accepted here, one at a time, so that their number never exceeds the bound: asyncio's server accepts all
that wait before it runs anything else. At the bound a new connection takes the place of the one that has waited for
its client longest; one whose request is being answered goes last. So a probe is answered whatever other clients do, and
the descriptors that the database and the broker need stay free.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import resource
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

logger = logging.getLogger(__name__)

_MOST = 128
_SHARE = 4  # connections may take one descriptor in so many
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_ACCEPT_AGAIN = 0.2  # seconds until the next attempt while the system has no descriptor or memory left
_REMIND_SECONDS = 10.0


def connection_limit() -> int:
    """Return how many connections the server may hold: a quarter of the process's descriptors, 128 at most."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft == resource.RLIM_INFINITY else max(1, min(_MOST, soft // _SHARE))


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What clients may take of the server."""

    connections: int = field(default_factory=connection_limit)
    """Connections open at any time."""
    request_seconds: float = 5.0
    """From the start of a connection, or the end of an answer on it, to the end of the next request's headers."""
    answer_seconds: float = 60.0
    """From the end of a request's headers until the client has taken the whole answer."""


class ClientConnection(H11Protocol):
    """One connection, and since when it has been waiting for its client or answering it.

    A connection waits while no request is being answered: the next byte of a request's headers changes nothing.
    """

    since: float
    """When it began to wait or to answer, as ``time.monotonic`` counts."""

    ended = False
    """Whether the connection is lost; it may be before the server has seen it open."""

    _busy = False
    _on_end: Callable[[ClientConnection], None]

    def start(self, on_end: Callable[[ClientConnection], None]) -> None:
        """Begin to wait for the first request; ``on_end`` is called when the connection has ended."""
        self._on_end = on_end
        self._enter(busy=False)

    @property
    def answering(self) -> bool:
        """Whether a request is being answered, or the client has not yet taken the whole answer."""
        return self._busy or self.transport.get_write_buffer_size() > 0

    def data_received(self, data: bytes) -> None:
        """Read what arrived; the headers of a request may now be complete."""
        super().data_received(data)
        if not self._busy and _under_way(self.cycle):
            self._enter(busy=True)

    def on_response_complete(self) -> None:
        """Wait for the next request, unless it has arrived already."""
        self._enter(busy=False)
        super().on_response_complete()
        if _under_way(self.cycle):
            self._enter(busy=True)

    def connection_lost(self, exc: Exception | None) -> None:
        """Give up the place."""
        self.ended = True
        self._on_end(self)
        super().connection_lost(exc)

    def _enter(self, *, busy: bool) -> None:
        self._busy = busy
        self.since = time.monotonic()


def _under_way(cycle: RequestResponseCycle | None) -> bool:
    return cycle is not None and not cycle.response_complete


class Connections:
    """All connections of one server. ``accept`` runs until it is cancelled; ``drop_late`` is called now and then."""

    def __init__(self, limits: ServerLimits, new_connection: Callable[[], ClientConnection], variable: str) -> None:
        """``variable`` names the address in the log."""
        self._limits = limits
        self._variable = variable
        self._new_connection = new_connection
        self._open: set[ClientConnection] = set()
        self._reminded_at = float("-inf")

    def __len__(self) -> int:
        return len(self._open)

    async def accept(self, listening: socket.socket) -> None:
        """Accept connections without end."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(listening)
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    await self._free_one(error)
                continue  # any other error is the client's: it has gone
            while len(self._open) >= self._limits.connections:
                self._drop_longest()
            await self._enter(client)

    def drop_late(self) -> None:
        """Close the connections whose request or answer has passed its deadline."""
        now = time.monotonic()
        for connection in list(self._open):
            limit = self._limits.answer_seconds if connection.answering else self._limits.request_seconds
            if now - connection.since > limit:
                self._drop(connection)

    async def _enter(self, client: socket.socket) -> None:
        try:
            connection = self._new_connection()
            connection.start(self._open.discard)
            await asyncio.get_running_loop().connect_accepted_socket(lambda: connection, client)
        except BaseException as error:
            client.close()
            if isinstance(error, OSError):  # the client has gone
                return
            raise
        # ``drop_late`` may run during that await, so only a connection with a transport is listed; and it may be lost
        # by now, when nothing would take it off the list again.
        if not connection.ended:
            self._open.add(connection)

    def _drop_longest(self) -> None:
        self._drop(min(self._open, key=lambda connection: (connection.answering, connection.since)))

    def _drop(self, connection: ClientConnection) -> None:
        # Its place is free now, its descriptor one turn of the event loop later: before the next accept.
        self._open.discard(connection)
        connection.transport.abort()

    async def _free_one(self, error: OSError) -> None:
        """Free a descriptor, and wait until it may be used."""
        if self._open:
            self._drop_longest()
        now = time.monotonic()
        if now - self._reminded_at >= _REMIND_SECONDS:
            self._reminded_at = now
            logger.warning(
                "%s: no connection can be accepted: %s. Raise the limit of open files (ulimit -n)",
                self._variable,
                error.strerror or error,
                extra={"action": "accept_failed"},
            )
        await asyncio.sleep(_ACCEPT_AGAIN)
