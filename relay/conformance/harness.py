"""The harness: a broker as the suite steers it, and the collector that stands in for the engine's sink.

The author of a destination writes a ``Harness`` for a real server. Nothing here knows a broker.
"""

from __future__ import annotations

import asyncio
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from relay.brokers.null import NullPublisher
from relay.conformance.waiting import patience
from relay.core.event import EventId, OutboxEvent
from relay.core.outcome import Outcome, Resolution
from relay.core.ports import Publisher

TROUBLES: Final = ("hangs", "slow", "blocks", "refuses", "cuts", "no DNS")
"""What a destination may be in for good, and no other may notice."""


@dataclass(frozen=True, slots=True)
class Features:
    """What a publisher can be held to."""

    reads_back: bool = True
    """What arrived can be read again."""
    receipts: bool = False
    """Acknowledgements can carry where the message is."""
    hangs: bool = False
    """The test can let the broker take connections and answer nothing."""
    stops: bool = False
    """The broker can be stopped and started again."""
    missing_destination: str | None = None
    """The code of a destination that does not exist; None when any destination does."""
    invalid_names: tuple[str, ...] = ()
    """Destinations this broker can never accept."""
    too_large: int | None = None
    """A payload of that many bytes is permanently refused."""
    big_batch: int = 5_000
    """How many events a big batch has; a client or an emulator takes fewer in the same time."""
    at_once: bool = False
    """It answers without waiting for anything, so that a big batch leaves the event loop no turn."""
    runs: bool = False
    """With the option ``in_order`` the publisher keeps runs."""
    parts: bool = False
    """Each destination can fail on its own, and so has a name of its own (``Publisher.destination_of``)."""


class StoredMessage(NamedTuple):
    """What the broker has, in words that fit all brokers."""

    event_id: str
    key: str | None
    payload: bytes
    headers: list[tuple[str, str]]
    """The user's headers as they travelled, ours left out."""


class Harness(ABC):
    """One broker."""

    features: Features

    @abstractmethod
    def publisher(self, **options: Any) -> Publisher:
        """A publisher for this broker, not yet open; ``options`` override fields of its options."""

    @abstractmethod
    async def destination(self) -> str:
        """A new destination that exists, of one partition where the broker has partitions."""

    async def read(self, destination: str, count: int) -> list[StoredMessage]:
        """The first ``count`` messages of a destination, in order."""
        raise NotImplementedError

    def hang(self) -> None:
        """Let the broker answer nothing."""
        raise NotImplementedError

    def resume(self) -> None:
        """Let it answer again."""
        raise NotImplementedError

    def stop(self) -> None:
        """Take the broker away: connections are refused."""
        raise NotImplementedError

    def start(self) -> None:
        """Bring it back, with what it had."""
        raise NotImplementedError

    @property
    def troubles(self) -> Sequence[str]:
        """Those of ``TROUBLES`` that ``trouble`` can make."""
        return ["hangs"] * self.features.hangs + ["refuses"] * self.features.stops

    @contextmanager
    def trouble(self, trouble: str) -> Iterator[tuple[Publisher, Publisher]]:
        """A publisher whose broker is in trouble until the end, and another one beside it that is not."""
        begin, end = {"hangs": (self.hang, self.resume), "refuses": (self.stop, self.start)}[trouble]
        begin()
        try:
            yield self.publisher(), NullPublisher()
        finally:
            end()

    @property
    def part_troubles(self) -> Sequence[str]:
        """Those of ``TROUBLES`` that ``part_trouble`` can make; for a publisher with several things that can fail."""
        return []

    @contextmanager
    def part_trouble(self, _trouble: str, _destination: str) -> Iterator[Publisher]:
        """A publisher of which this destination is in trouble until the end, and the next that was made is not."""
        yield self.publisher()

    cuts = False
    """Whether ``cutting`` cuts."""

    @contextmanager
    def cutting(self, _mark: bytes) -> Iterator[Publisher]:
        """A publisher whose connection is cut by each event with these bytes in its payload."""
        yield self.publisher()

    def close(self) -> None:  # noqa: B027  # most brokers belong to the whole run and stay
        """Leave no process and no destination behind."""


class Collector:
    """A sink that counts every resolution of every event."""

    def __init__(self) -> None:
        self.resolutions: list[Resolution] = []
        self._changed = asyncio.Event()

    def __call__(self, group: Sequence[Resolution]) -> None:
        """Take outcomes, as the engine's sink does."""
        assert group, "a sink is not called for nothing"
        self.resolutions.extend(group)
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition holds, looked at after every resolution."""
        async with asyncio.timeout(patience()):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def outcomes(self, events: Sequence[OutboxEvent]) -> list[Outcome]:
        """The outcome of each event, once all of them have one; fails if any has two."""
        await self.until(lambda: len(self.resolutions) >= len(events))
        counts = Counter(id(event) for event, _ in self.resolutions)
        assert set(counts.values()) <= {1}, "an event was resolved twice"
        assert counts.keys() == {id(event) for event in events}
        by_event = {id(event): outcome for event, outcome in self.resolutions}
        return [by_event[id(event)] for event in events]


def make_event(
    destination: str,
    payload: bytes = b"payload",
    *,
    key: str | None = None,
    headers: str = "{}",
    event_id: str | None = None,
) -> OutboxEvent:
    """An event as a claim would return it."""
    return OutboxEvent(EventId(event_id or str(uuid.uuid4())), destination, key, payload, headers, 0, 0.0)
