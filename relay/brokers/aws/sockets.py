"""The sockets of one client: how much of what was written has arrived, and an end that sends nothing more.

A request's timeout means that the service is silent. While bytes of it are still on their way over a slow link, the
service cannot answer. The client's library hides its connections, but takes the sockets from here.
"""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from typing import Final, NamedTuple
from weakref import WeakSet

from relay.brokers.sending import unreceived_bytes

_ACKED_AT: Final = 120  # byte of struct tcp_info at which tcpi_bytes_acked stands
_INFO_BYTES: Final = 128
_NO_LINGER: Final = struct.pack("ii", 1, 0)


class Progress(NamedTuple):
    """What was sent at one moment."""

    waiting: int
    """Bytes that the other host has not received yet."""
    received: int
    """Bytes that it has."""


class Sockets:
    """Makes sockets and remembers those that are open."""

    def __init__(self) -> None:
        self._open: WeakSet[socket.socket] = WeakSet()

    def make(
        self, address: tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, object]
    ) -> socket.socket:
        """A socket for an address as getaddrinfo returns it."""
        made = socket.socket(address[0], address[1], address[2])
        self._open.add(made)
        return made

    def progress(self) -> Progress:
        """Look at all sockets. Nothing waits, and nothing was received, where the operating system does not say."""
        waiting = received = 0
        for one in list(self._open):
            waiting += unreceived_bytes(one)
            with suppress(OSError, struct.error):  # closed meanwhile, or another operating system
                info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
                received += struct.unpack_from("=Q", info, _ACKED_AT)[0]
        return Progress(waiting, received)

    def cut(self) -> None:
        """Reset every connection: what is buffered is not sent, as an orderly close would."""
        for one in list(self._open):
            with suppress(OSError):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
                one.shutdown(socket.SHUT_RDWR)
