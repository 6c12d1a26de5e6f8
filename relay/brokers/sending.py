"""Whether bytes still leave this host: a server at the end of a slow link is not a silent one. Used by the sessions.

A timeout for a reply means that the server is silent. While the bytes that it must answer are still on their way, it
cannot answer, and resending them on a new connection would take as long again. So a session counts what it writes and
asks at each look of its timer; where the operating system does not say what it still holds, only the transport counts.
"""

from __future__ import annotations

import fcntl
import math
import termios
from asyncio import WriteTransport
from contextlib import suppress
from typing import Any


class SendProgress:
    """Follows the bytes of one connection. ``transport`` None means that nothing is known of them."""

    def __init__(self, transport: WriteTransport | None) -> None:
        self.written = 0
        """Bytes given to the transport so far; the owner of the connection adds them."""
        self.received = 0
        """How many of them the server's host had received at the last look."""
        self._transport = transport
        self._moved_at, self._moved_from = -math.inf, 0

    def look(self, now: float) -> None:
        """Look again, at this time of the caller's clock."""
        before = self.received
        if self.advanced():
            self._moved_at, self._moved_from = now, before

    def seen_leaving(self, end: int) -> float:
        """When the bytes up to ``end`` were last seen on their way; minus infinity where they were gone before.

        The last look at which bytes left counts, not only the last look: two may follow one another closer than the
        bytes of a slow link.
        """
        return self._moved_at if end > self._moved_from else -math.inf

    def advanced(self) -> bool:
        """Look again; whether more bytes were received since the last look."""
        if self._transport is None:
            return False
        before = self.received
        unreceived = unreceived_bytes(self._transport.get_extra_info("socket"))
        self.received = self.written - self._transport.get_write_buffer_size() - unreceived
        return self.received > before


def unreceived_bytes(socket: Any) -> int:  # noqa: ANN401 - uvloop's is of another class
    """Bytes in the operating system's send queue that the other host has not received; 0 where it does not say."""
    count = bytearray(4)
    with suppress(OSError, ValueError):  # closed meanwhile, or not a kind of socket that knows
        if socket is not None:
            fcntl.ioctl(socket.fileno(), termios.TIOCOUTQ, count)
    return int.from_bytes(count, "little")
