"""A tap of the proxy that knows Kafka's requests and their answers, and does something at one of them."""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from enum import IntEnum
from pathlib import Path
from typing import Final, NamedTuple

from tests.support.servers.tcp_proxy import TcpProxy

_HOLDER: Final = re.compile(rb"/([\w.-]+)/\d")  # in a transactional id: <prefix>/<RELAY_ID>/<n>
_NEAR: Final = 300  # bytes of a request in which its transactional id stands


class Kind(IntEnum):
    """Kafka's numbers of the requests that a relay sends."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    FIND_COORDINATOR = 10
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    END_TXN = 26
    DESCRIBE_CONFIGS = 32


class Moment(NamedTuple):
    """When a request is about to reach the broker, or its answer the client."""

    kind: Kind
    answered: bool


Act = Callable[[int], bool]
"""Gets the port of the client, and says whether it is the awaited one: a finder's requests name the dead relay's id."""


class _Awaited(NamedTuple):
    moment: Moment
    act: Act
    holders: Container[str] | None
    cut: bool
    met: threading.Event


class KafkaRequests:
    """Set as ``TcpProxy.tap``, whose thread calls it."""

    def __init__(self, proxy: TcpProxy) -> None:
        self._ports = proxy.client_ports
        self.kinds: set[int] = set()
        """Of all requests so far."""
        self._awaited: _Awaited | None = None
        self._unparsed: defaultdict[tuple[int, bool], bytearray] = defaultdict(bytearray)
        self._asked: dict[tuple[int, bytes], tuple[int, str]] = {}
        """Kind and holder, by connection and number of the request."""

    def at(
        self, moment: Moment, act: Act, holders: Container[str] | None = None, *, cut: bool = False
    ) -> threading.Event:
        """Call ``act`` at such moments until it says yes, for transactional ids of these relays where some are named.

        The event is set then; with ``cut`` the connection is reset, and what was to pass is lost.
        """
        awaited = self._awaited = _Awaited(moment, act, holders, cut, threading.Event())
        return awaited.met

    def forget(self) -> None:
        """Wait for no moment any more."""
        self._awaited = None

    def request(self, link: int, data: bytes) -> None:
        """See ``Tap``."""
        for frame in self._frames(link, data, replies=False):
            kind, number = int.from_bytes(frame[:2]), frame[4:8]
            match = _HOLDER.search(frame, 0, _NEAR)
            holder = match[1].decode() if match else ""
            self.kinds.add(kind)
            self._asked[link, number] = kind, holder
            self._meet(link, kind, holder, answered=False)

    def reply(self, link: int, data: bytes) -> bytes:
        """See ``Tap``."""
        for frame in self._frames(link, data, replies=True):
            asked = self._asked.pop((link, frame[:4]), None)
            if asked is not None:
                self._meet(link, *asked, answered=True)
        return data

    def _frames(self, link: int, data: bytes, *, replies: bool) -> Iterator[bytes]:
        """What has arrived whole, without its length."""
        unparsed = self._unparsed[link, replies]
        unparsed += data
        while len(unparsed) >= 4 and len(unparsed) >= (end := 4 + int.from_bytes(unparsed[:4])):
            frame = bytes(unparsed[4:end])
            del unparsed[:end]
            yield frame

    def _meet(self, link: int, kind: int, holder: str, *, answered: bool) -> None:
        awaited = self._awaited
        if awaited is None or awaited.moment != (kind, answered):
            return
        if awaited.holders is not None and holder not in awaited.holders:
            return
        if not awaited.act(self._ports[link]):
            return
        self._awaited = None
        awaited.met.set()
        if awaited.cut:
            raise ConnectionResetError


def has_port(pid: int, port: int) -> bool:
    """Whether the process has a TCP socket with this port of its own; false for one that has ended."""
    with suppress(OSError):
        sockets = {str(one.readlink()) for one in Path(f"/proc/{pid}/fd").iterdir() if one.is_symlink()}
        lines = Path(f"/proc/{pid}/net/tcp").read_text(encoding="ascii").splitlines()[1:]
        rows = (line.split() for line in lines)
        return any(row[1].endswith(f":{port:04X}") and f"socket:[{row[9]}]" in sockets for row in rows)
    return False
