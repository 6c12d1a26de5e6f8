"""The HTTP server inside the relay's event loop.

``start`` returns once the port is open, or raises ConfigError naming SERVER_PORT. The server installs no signal
handlers, logs no requests, and ``stop`` ends within two seconds whatever its clients do.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

import uvicorn

from relay.core.errors import ConfigError
from relay.core.status import StatusView
from relay.server.bounded_server import BoundedServer, listen
from relay.server.connections import ClientConnection, ServerLimits
from relay.server.routes import application

logger = logging.getLogger(__name__)

_GRACE_SECONDS = 1
_STOP_WITHIN = 2.0


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Where to listen: SERVER_PORT, taken apart; and what clients may take."""

    host: str
    """Empty: all interfaces, IPv6 and IPv4."""
    port: int
    """0: any free one."""
    limits: ServerLimits = field(default_factory=ServerLimits)


class _QuietServer(BoundedServer):
    """Leaves signals to the relay."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


class StatusServer:
    """Serves one view. ``start`` once, ``stop`` any number of times."""

    def __init__(self, view: StatusView, options: ServerOptions) -> None:
        self._app = application(view)
        self._options = options
        self._server: _QuietServer | None = None
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
        listening = listen("SERVER_PORT", self._options.host, self._options.port)
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
        self._server = _QuietServer(config, listening, self._options.limits, "SERVER_PORT")
        self._task = asyncio.create_task(self._server.serve(), name="relay-server")
        up = asyncio.create_task(self._server.up.wait(), name="relay-server-up")
        await asyncio.wait({up, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            up.cancel()
            await self._task
            raise ConfigError(f"the HTTP server did not start on SERVER_PORT={self._options.port}")
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
