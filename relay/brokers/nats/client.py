"""nats-py's client with what it lacks: TLS that is demanded and not only accepted, a way to abort its connection, and
a direct way for many small messages.

The library hands its StreamWriter one object a message and passes each answer through a queue: 32 to 66 us of
processor time a message, where the same protocol takes 8 to 13 (docs/performance.md). So connecting, TLS, login, ping
and errors are the library's, and two things are not: ``send`` writes commands to the socket at once, many at a time,
and ``take_acknowledgements`` receives runs of positive acknowledgements (``relay.brokers.nats.acknowledgements``).

This is the only use of private parts of the library; ``tests/brokers/nats`` holds them to the library's behaviour,
``make lowest`` on the lowest version that pyproject.toml allows. A version without them is used by its public methods
alone, more slowly, and one warning says so: then ``direct`` is False.
"""

from __future__ import annotations

import asyncio
import logging
from functools import cache
from importlib.metadata import version
from typing import Any

from nats.aio.client import Client
from nats.errors import Error as NatsError

from relay.brokers.nats.acknowledgements import AcknowledgementFilter, Take

logger = logging.getLogger(__name__)

_PARSER_PARTS = (("state", int), ("needed", int), ("buf", bytearray))
_SOCKET_PARTS = ("write", "is_closing", "get_write_buffer_size")


class NatsClient(Client):
    """A client of one connection."""

    def __init__(self) -> None:
        super().__init__()
        parser: Any = getattr(self, "_ps", None)
        self._filter: AcknowledgementFilter | None = None
        if all(isinstance(getattr(parser, name, None), kind) for name, kind in _PARSER_PARTS):
            self._filter = self._ps = AcknowledgementFilter(parser)  # type: ignore[assignment]  # it takes its place
        self._socket: Any = None
        self.direct = False
        """Whether ``send`` and ``take_acknowledgements`` work; known once ``take_acknowledgements`` was called."""

    def take_acknowledgements(self, prefix: str, take: Take) -> None:
        """Pass to ``take`` what acknowledges messages whose reply subject is ``prefix`` and a number.

        Called once, on a new connection. What is not taken comes by a subscription, as it does without this.
        """
        socket = getattr(getattr(self._transport, "_io_writer", None), "transport", None)
        if self._filter is None:
            _warn("parser")
        elif not all(hasattr(socket, name) for name in _SOCKET_PARTS):
            _warn("socket")
        else:
            self._socket = socket
            self._filter.start(prefix, take)
            self.direct = True

    def send(self, commands: bytes) -> None:
        """Write whole commands to the socket now. Needs ``direct``, and does nothing once the connection ``is_lost``.

        It may overtake commands that the library still buffers, which matters to none of those that it sends.
        """
        self._socket.write(commands)

    @property
    def unsent(self) -> int:
        """Bytes that wait for the socket to take them."""
        waiting: int = 0 if self._socket is None else self._socket.get_write_buffer_size()
        return waiting + self.pending_data_size

    @property
    def is_lost(self) -> bool:
        """Whether nothing can be sent any more; the library may find out later."""
        return self.is_closed or (self._socket is not None and self._socket.is_closing())

    def cut(self) -> None:
        """Abort the connection and drop everything buffered for it: the library cannot close without flushing."""
        writer = getattr(self._transport, "_io_writer", None)
        if writer is not None:
            writer.transport.abort()
        if self._reading_task is not None:  # it fails where the library flushes to a lost connection: nothing new
            self._reading_task.add_done_callback(_take_exception)

    def _connect_command(self) -> bytes:
        """The login, which the library would also send in the clear, to a server that does not ask for TLS."""
        if "tls" in self.options and not self._server_info.get("tls_required"):
            raise NatsError("PUBLISHER_URL demands TLS (tls:// or tls_…), the server does not: no login was sent")
        command: bytes = super()._connect_command()
        return command


def _take_exception(task: asyncio.Task[None]) -> None:
    """So that asyncio does not report it."""
    if not task.cancelled():
        task.exception()


@cache
def _warn(part: str) -> None:
    """Log once a process that the direct way is closed."""
    logger.warning(
        "nats-py %s has no %s as the relay knows it: messages go through its public methods, at several times the "
        "processor time each; use a version that docs/dependencies.md names",
        version("nats-py"),
        part,
        extra={"action": "nats_slow_path"},
    )
