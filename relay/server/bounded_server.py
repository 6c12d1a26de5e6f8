"""A server of uvicorn that accepts its own connections: what the relay's endpoints and the console have in common.

Their number is bounded, and each request and each answer has a deadline (``relay.server.connections``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from types import FrameType

import uvicorn

from relay.core.errors import ConfigError
from relay.server.connections import ClientConnection, Connections, ServerLimits

logger = logging.getLogger(__name__)

_BACKLOG = 128
_TICK = 1.0  # seconds; the Date header counts whole seconds


class BoundedServer(uvicorn.Server):
    """Accepts its own connections, and wakes up once a second instead of ten times.

    ``config`` must have ``http=ClientConnection``; ``variable`` names the socket's address in the log.
    """

    def __init__(self, config: uvicorn.Config, listening: socket.socket, limits: ServerLimits, variable: str) -> None:
        super().__init__(config)
        self.up = asyncio.Event()
        self.open = Connections(limits, self._connection, variable)
        self._listening = listening
        self._ending = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def end(self) -> None:
        """Ask the server to end; requests under way may finish."""
        self.should_exit = True
        self._ending.set()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End at a signal, without waiting for the next second."""
        super().handle_exit(sig, frame)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._ending.set)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start without a socket of uvicorn's own."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets or [])
        self.up.set()

    async def main_loop(self) -> None:
        """Accept connections until asked to end; each second renew the Date header and drop late clients."""
        accepting = self._accept()
        try:
            while not await self.on_tick(0):
                self.open.drop_late()
                if accepting.done():  # a fault of this program must not close the port for the rest of the process
                    logger.error("accepting connections failed", exc_info=accepting.exception())
                    accepting = self._accept()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._ending.wait(), _TICK)
        finally:
            accepting.cancel()
            await asyncio.wait({accepting})
            self._listening.close()

    def _accept(self) -> asyncio.Task[None]:
        return asyncio.create_task(self.open.accept(self._listening), name="server-accept")

    def _connection(self) -> ClientConnection:
        return ClientConnection(self.config, self.server_state, self.lifespan.state)


def listen(variable: str, host: str, port: int) -> socket.socket:
    """A listening socket; an empty host takes IPv6 and IPv4 where the machine has both. Raises ConfigError."""
    try:
        listening = _bound(host, port)
    except OSError as error:
        shown = f"[{host}]" if ":" in host else host
        raise ConfigError(
            f"{variable}={shown}:{port} cannot be bound: {error.strerror or error}; "
            "choose another port, or stop the program that uses it"
        ) from error
    listening.setblocking(False)
    return listening


def _bound(host: str, port: int) -> socket.socket:
    if host:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    with contextlib.suppress(OSError):
        if socket.has_dualstack_ipv6():
            everywhere = ("", port)
            return socket.create_server(everywhere, family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=True)
    return socket.create_server(("", port), backlog=_BACKLOG)
