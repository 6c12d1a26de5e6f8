"""nats-py's client with what it lacks: TLS that is demanded and not only accepted, and a way to abort its connection.

The only use of private parts of the library; ``tests/brokers/nats`` holds them to real servers.
"""

from __future__ import annotations

import asyncio

from nats.aio.client import Client
from nats.errors import Error as NatsError


class NatsClient(Client):
    """A client of one connection."""

    def _connect_command(self) -> bytes:
        """The login, which the library would also send in the clear, to a server that does not ask for TLS."""
        if "tls" in self.options and not self._server_info.get("tls_required"):
            raise NatsError("PUBLISHER_URL demands TLS (tls:// or tls_…), the server does not: no login was sent")
        command: bytes = super()._connect_command()
        return command

    def cut(self) -> None:
        """Abort the connection and drop everything buffered for it: the library cannot close without flushing."""
        writer = getattr(self._transport, "_io_writer", None)
        if writer is not None:
            writer.transport.abort()
        if self._reading_task is not None:  # it fails where the library flushes to a lost connection: nothing new
            self._reading_task.add_done_callback(_take_exception)


def _take_exception(task: asyncio.Task[None]) -> None:
    """So that asyncio does not report it."""
    if not task.cancelled():
        task.exception()
