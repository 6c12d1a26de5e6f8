"""A tap of the proxy that knows Kafka's requests and their answers, and does something at one of them."""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Callable, Container, Iterator
from enum import IntEnum
from typing import Final, NamedTuple

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


Act = Callable[[str], None]
"""Gets the RELAY_ID in the transactional id; empty where the request has none. Raises ConnectionResetError to cut."""


class _Awaited(NamedTuple):
    moment: Moment
    holders: Container[str] | None
    act: Act
    met: threading.Event


class KafkaRequests:
    """Set as ``TcpProxy.tap``, whose thread calls it."""

    def __init__(self) -> None:
        self.kinds: set[int] = set()
        """Of all requests so far."""
        self._awaited: _Awaited | None = None
        self._unparsed: defaultdict[tuple[int, bool], bytearray] = defaultdict(bytearray)
        self._asked: dict[tuple[int, bytes], tuple[int, str]] = {}
        """Kind and holder, by connection and number of the request."""

    def at(self, moment: Moment, act: Act, holders: Container[str] | None = None) -> threading.Event:
        """Call ``act`` at the next such moment, of these holders where some are named; the event is set then."""
        awaited = self._awaited = _Awaited(moment, holders, act, threading.Event())
        return awaited.met

    def request(self, link: int, data: bytes) -> None:
        """See ``Tap``."""
        for frame in self._frames(link, data, replies=False):
            kind, number = int.from_bytes(frame[:2]), frame[4:8]
            match = _HOLDER.search(frame, 0, _NEAR)
            holder = match[1].decode() if match else ""
            self.kinds.add(kind)
            self._asked[link, number] = kind, holder
            self._meet(kind, holder, answered=False)

    def reply(self, link: int, data: bytes) -> bytes:
        """See ``Tap``."""
        for frame in self._frames(link, data, replies=True):
            asked = self._asked.pop((link, frame[:4]), None)
            if asked is not None:
                self._meet(*asked, answered=True)
        return data

    def _frames(self, link: int, data: bytes, *, replies: bool) -> Iterator[bytes]:
        """What has arrived whole, without its length."""
        unparsed = self._unparsed[link, replies]
        unparsed += data
        while len(unparsed) >= 4 and len(unparsed) >= (end := 4 + int.from_bytes(unparsed[:4])):
            frame = bytes(unparsed[4:end])
            del unparsed[:end]
            yield frame

    def _meet(self, kind: int, holder: str, *, answered: bool) -> None:
        awaited = self._awaited
        if awaited is None or awaited.moment != (kind, answered):
            return
        if awaited.holders is not None and holder not in awaited.holders:
            return
        self._awaited = None
        awaited.met.set()
        awaited.act(holder)
