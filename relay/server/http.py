"""The HTTP server inside the relay's event loop.

``start`` returns once the port is open, or raises ConfigError naming SERVER_PORT. The server installs no signal
handlers, logs no requests, and ``stop`` ends within two seconds whatever its clients do.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field

import uvicorn

from relay.core.errors import ConfigError
from relay.core.status import StatusView
from relay.server.connections import ClientConnection, Connections, ServerLimits
from relay.server.routes import application

logger = logging.getLogger(__name__)

_GRACE_SECONDS = 1
_STOP_WITHIN = 2.0
_BACKLOG = 128
_TICK = 1.0  # seconds; the Date header counts whole seconds


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Where to listen: SERVER_PORT, taken apart; and what clients may take."""

    host: str
    """Empty: all interfaces, IPv6 and IPv4."""
    port: int
    """0: any free one."""
    limits: ServerLimits = field(default_factory=ServerLimits)


class _Uvicorn(uvicorn.Server):
    """Accepts its own connections, leaves signals to the relay, and wakes up once a second instead of ten times."""

    def __init__(self, config: uvicorn.Config, listening: socket.socket, limits: ServerLimits) -> None:
        super().__init__(config)
        self.up = asyncio.Event()
        self.open = Connections(limits, self._connection)
        self._listening = listening
        self._ending = asyncio.Event()

    def end(self) -> None:
        """Ask the server to end; requests under way may finish."""
        self.should_exit = True
        self._ending.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start without a socket of uvicorn's own."""
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
        return asyncio.create_task(self.open.accept(self._listening), name="relay-server-accept")

    def _connection(self) -> ClientConnection:
        return ClientConnection(self.config, self.server_state, self.lifespan.state)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


class StatusServer:
    """Serves one view. ``start`` once, ``stop`` any number of times."""

    def __init__(self, view: StatusView, options: ServerOptions) -> None:
        self._app = application(view)
        self._options = options
        self._server: _Uvicorn | None = None
        self._task: asyncio.Task[None] | None = None
        self._address: tuple[str, int] = (options.host, options.port)

    @property
    def address(self) -> tuple[str, int]:
        """The host and port of the listening socket; valid after ``start``."""
        return self._address

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._server.open) if self._server is not None else 0

    async def start(self) -> None:
        """Listen. Raises ConfigError when the address cannot be bound."""
        listening = _bind(self._options)
        listening.setblocking(False)
        self._address = listening.getsockname()[:2]
        config = uvicorn.Config(
            self._app,
            http=ClientConnection,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        self._server = _Uvicorn(config, listening, self._options.limits)
        self._task = asyncio.create_task(self._server.serve(), name="relay-server")
        up = asyncio.create_task(self._server.up.wait(), name="relay-server-up")
        await asyncio.wait({up, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            up.cancel()
            await self._task
            raise ConfigError(f"the HTTP server did not start on SERVER_PORT={_shown(self._options)}")
        logger.info("listening on %s port %d", *self._address, extra={"action": "listening"})

    async def stop(self) -> None:
        """Stop listening and end; requests under way get a second. Never raises."""
        if self._server is None or self._task is None:
            return
        self._server.end()
        _, late = await asyncio.wait({self._task}, timeout=_STOP_WITHIN)
        if late:
            self._server.force_exit = True
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=_STOP_WITHIN)


def _bind(options: ServerOptions) -> socket.socket:
    """A listening socket; ``:8080`` takes IPv6 and IPv4 where the machine has both."""
    try:
        if options.host:
            family, *_, address = socket.getaddrinfo(options.host, options.port, type=socket.SOCK_STREAM)[0]
            return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
        with contextlib.suppress(OSError):
            if socket.has_dualstack_ipv6():
                everywhere = ("", options.port)
                return socket.create_server(everywhere, family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=True)
        return socket.create_server(("", options.port), backlog=_BACKLOG)
    except OSError as error:
        raise ConfigError(
            f"SERVER_PORT={_shown(options)} cannot be bound: {error.strerror or error}; "
            "choose another port, or stop the program that uses it"
        ) from error


def _shown(options: ServerOptions) -> str:
    host = f"[{options.host}]" if ":" in options.host else options.host
    return f"{host}:{options.port}"
