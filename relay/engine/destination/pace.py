"""The rate of a destination: how many events it is offered a second, and what waits for that.

A token bucket, on a clock of the caller's. What one claim brings beyond the rate is kept, with its leases, and takes no
place of other destinations; the destination's types are left out of claims until less than a second's worth waits. It
takes its places when it is handed over, and waits on where there are none for it (``relay.engine.room``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Final, NamedTuple

from relay.core.destination import Waiting
from relay.core.event import OutboxEvent, size_of
from relay.core.outcome import OutcomeSink
from relay.core.places import Flow
from relay.core.proofs import HeldLeases

_BURST: Final = 0.1  # seconds whose events may go at once
_LEAST: Final = 2.0  # events; one alone would lose what a timer is late
_GROUPED: Final = 0.01  # seconds whose events go together: each one alone would cost a timer
_AHEAD: Final = 1.0  # seconds whose events are claimed ahead


class TokenBucket:
    """A bound on one destination of one relay, all of its connections together."""

    def __init__(self, rate: float, clock: Callable[[], float]) -> None:
        """``rate`` is events a second."""
        self.rate = rate
        self._clock = clock
        self._burst = max(_LEAST, rate * _BURST)
        self._tokens = self._burst
        self._at = clock()

    def take(self, wanted: int) -> int:
        """How many of so many events may go now; they count as gone."""
        self._fill()
        taken = min(wanted, int(self._tokens))
        self._tokens -= taken
        return taken

    @property
    def wait(self) -> float:
        """Seconds until it is worth asking again; 0 where an event may go now."""
        self._fill()
        return 0.0 if self._tokens >= 1 else max((1 - self._tokens) / self.rate, _GROUPED)

    def full_for(self, waiting: int) -> float:
        """Seconds for which nothing more is claimed, while so many events wait; 0 where more may be."""
        return max(0.0, (waiting - max(1.0, self.rate * _AHEAD) + 1) / self.rate)

    def _fill(self) -> None:
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * self.rate)
        self._at = now


class HandOver(NamedTuple):
    """Events that are to be handed over."""

    events: list[OutboxEvent]
    sink: OutcomeSink
    holding: HeldLeases | None


class WaitingOffers:
    """What one destination was offered and was not handed yet, oldest first; ``pace`` is its rate, where it has one."""

    def __init__(self, pace: TokenBucket | None) -> None:
        self.pace = pace
        self._offers: deque[HandOver] = deque()
        self._events = self._bytes = 0  # counted where there is a rate

    def __bool__(self) -> bool:
        return bool(self._offers)

    @property
    def pause(self) -> float:
        """Seconds until the rate lets something go; 0 where it does now."""
        return 0.0 if self.pace is None else self.pace.wait

    def add(self, offer: HandOver) -> None:
        """The last one."""
        self._offers.append(offer)
        self._count(offer.events, 1)

    def next(self, places: int) -> HandOver:
        """What the rate and so many places let go of the offer that comes next; the rest of that waits on."""
        offer = self._offers.popleft()
        events = offer.events
        now = len(events) if self.pace is None else self.pace.take(min(len(events), places))
        if now < len(events):
            self._offers.appendleft(offer._replace(events=events[now:]))
            offer = offer._replace(events=events[:now])
        self._count(offer.events, -1)
        return offer

    def take_all(self) -> Collection[HandOver]:
        """All of it; afterwards nothing waits."""
        taken, self._offers = self._offers, deque()
        self._events = self._bytes = 0
        return taken

    def of_rate(self, flows: Collection[Flow]) -> Waiting | None:
        """See ``WatchedDestination.waiting``."""
        if self.pace is None:
            return None
        return Waiting(self.pace.rate, self._events, self._bytes, self.pace.full_for(self._events), flows)

    def _count(self, events: Sequence[OutboxEvent], sign: int) -> None:
        if self.pace is not None:
            self._events += sign * len(events)
            self._bytes += sign * size_of(events)
