"""nats-py's client with what it lacks: TLS that is required and not only accepted, a way to abort its connection, and
a direct path for many small messages.

The library hands its StreamWriter one object a message and passes each answer through a queue, at two to three times
the processor time that the same protocol needs (benchmarks/lab/README.md). So connecting, TLS, login, ping and errors
are the library's, and two things are not: ``send`` writes many commands to the socket at once, and
``take_acknowledgements`` receives runs of positive acknowledgements (``relay.brokers.nats.acknowledgements``).

This is the only module that uses private parts of the library. ``tests/brokers/nats`` holds them to the library's
behaviour; ``make lowest`` runs these tests on the lowest version that pyproject.toml allows. With a version that lacks
the private parts, the relay uses the public methods alone and logs one warning: then ``direct`` is False.
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
from relay.brokers.sending import SendProgress

logger = logging.getLogger(__name__)

_PARSER_PARTS = (("state", int), ("needed", int), ("buf", bytearray))
_SOCKET_PARTS = ("write", "is_closing", "get_write_buffer_size", "get_extra_info")


class NatsClient(Client):
    """A client of one connection."""

    def __init__(self) -> None:
        super().__init__()
        parser: Any = getattr(self, "_ps", None)
        self._filter: AcknowledgementFilter | None = None
        if all(isinstance(getattr(parser, name, None), kind) for name, kind in _PARSER_PARTS):
            self._filter = self._ps = AcknowledgementFilter(parser)  # type: ignore[assignment]  # it takes its place
        self._socket: Any = None
        self.sending = SendProgress(None)
        """Of the direct path; elsewhere it sees nothing."""
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
            self.sending = SendProgress(socket)
            self._filter.start(prefix, take)
            self.direct = True

    def send(self, commands: bytes) -> None:
        """Write whole commands to the socket now; needs ``direct``, and a connection that is not ``is_lost``.

        They may overtake commands that the library still buffers. That is harmless: those are PING, PONG and, before
        the first event, SUB.
        """
        self.sending.written += len(commands)
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
    """Log once a process that the direct path is not available."""
    logger.warning(
        "nats-py %s has another %s than the relay supports: messages go through its public methods, which take two to "
        "three times the processor time. Install a version that docs/design/dependencies.md names.",
        version("nats-py"),
        part,
        extra={"action": "nats_slow_path"},
    )
