"""Calls that share a transaction: those that come while every producer is busy; used by ``transactions``.

A transaction costs the coordinator's answers whatever is in it, so while a backlog lasts the next one takes what waits.
Each claim keeps its own lease, its own proof and its own outcomes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from relay.core.event import EventId, OutboxEvent
from relay.core.outcome import Outcome, OutcomeSink, Resolution
from relay.core.proofs import Begun, HeldLeases

_T = TypeVar("_T")

_MOST_EVENTS: Final = 1000
_BACKLOG: Final = 50  # events: fewer are those that come in while nothing waits, and begin at once
_MOST_BYTES: Final = 8_000_000  # of payload; what is large enough gains nothing, and its transaction would last


@dataclass(eq=False, slots=True)
class _Call:
    sink: OutcomeSink
    holding: HeldLeases


class Together:
    """``HeldLeases``, and a sink, for the events of one call or more."""

    def __init__(self) -> None:
        self.events: list[OutboxEvent] = []
        self._calls: dict[EventId, _Call] = {}
        self._only: _Call | None = None
        """That of all events, as long as there is one."""
        self._bytes = 0

    def takes(self, events: Sequence[OutboxEvent]) -> bool:
        """Whether these may join; an event that was claimed again waits until its former claim has ended."""
        return (
            len(self.events) + len(events) <= _MOST_EVENTS
            and self._bytes + _bytes_of(events) <= _MOST_BYTES
            and not any(event.event_id in self._calls for event in events)
        )

    @property
    def grows(self) -> bool:
        """Whether more is worth a wait: one of a hundred events costs the broker nearly what one of a thousand does."""
        return _BACKLOG <= len(self.events) < _MOST_EVENTS

    def add(self, events: Sequence[OutboxEvent], sink: OutcomeSink, holding: HeldLeases) -> None:
        """One call more."""
        call = _Call(sink, holding)
        self._only = None if self.events else call
        self.events += events
        self._bytes += _bytes_of(events)
        self._calls |= dict.fromkeys((event.event_id for event in events), call)

    def resolve_all(self, outcome: Outcome) -> None:
        """The same for every event: none of them has begun."""
        self.sink([(event, outcome) for event in self.events])

    def sink(self, resolutions: Sequence[Resolution]) -> None:
        """Tell each call what became of its events."""
        for call, its in self._by_call(resolutions, lambda resolution: resolution[0].event_id):
            call.sink(its)

    async def begin(
        self,
        events: Sequence[OutboxEvent],
        since: float,
        seconds: float,
        is_held: Callable[[OutboxEvent], bool] = lambda _: True,
    ) -> list[Begun]:
        """See ``HeldLeases``."""
        asked = self._by_call(events, lambda event: event.event_id)
        return [one for call, its in asked for one in await call.holding.begin(its, since, seconds, is_held)]

    def end(self, event_ids: Iterable[EventId]) -> None:
        """See ``HeldLeases``."""
        for call, its in self._by_call(event_ids, lambda event_id: event_id):
            call.holding.end(its)

    def _by_call(self, things: Iterable[_T], id_of: Callable[[_T], EventId]) -> Iterable[tuple[_Call, list[_T]]]:
        if self._only is not None:
            return [(self._only, list(things))]
        parts: dict[_Call, list[_T]] = defaultdict(list)
        for thing in things:
            parts[self._calls[id_of(thing)]].append(thing)
        return parts.items()


def _bytes_of(events: Sequence[OutboxEvent]) -> int:
    return sum(len(event.payload) for event in events)
