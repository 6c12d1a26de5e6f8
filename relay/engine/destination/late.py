"""Whether one of several destinations is late with its answers, and which events wait for it then.

The last places in flight are for other flows (``relay.engine.inflight``): what goes to this destination, also if it
goes elsewhere besides, keeps its place until this one has answered. It is late while an event has waited for half a
second, and none that was handed over after that one was acknowledged in half a second: where one topic hangs and
others do not, the engine counts by flow.

It stays late when the time of that event is over: else what was handed over since would count as new, and what is
claimed in the next half second would take the last places.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from relay.core.event import OutboxEvent
from relay.core.places import Flow
from relay.engine.batch import LATE

_MOST_FLOWS = 1000


class Lateness:
    """Times are those of one clock, in seconds."""

    def __init__(self, flow_of: Callable[[OutboxEvent], Flow] | None = None) -> None:
        """``flow_of``: None where the type of an event says it."""
        self._flow_of = flow_of
        self._flows: dict[Flow, None] = {}
        """Of the rows that were offered, the first ones forgotten first."""
        self._prompt_at = float("-inf")
        """When the last event that was acknowledged in time was handed over."""
        self._late_at = float("-inf")
        """When the last event that had no outcome in time was handed over."""

    def offer(self, events: Iterable[OutboxEvent]) -> None:
        """These go to the destination."""
        if self._flow_of is None:
            self._flows.update((event.announced_type, None) for event in events)
        else:
            self._flows.update((flow, None) for flow in map(self._flow_of, events))
        while len(self._flows) > _MOST_FLOWS:
            del self._flows[next(iter(self._flows))]

    @property
    def known(self) -> Collection[Flow]:
        """The types of all that was offered."""
        return self._flows

    def answer(self, handed_over_at: float, now: float, *, acknowledged: bool) -> None:
        """An event has its outcome."""
        if now - handed_over_at >= LATE:
            self._late_at = max(self._late_at, handed_over_at)
        elif acknowledged:
            self._prompt_at = max(self._prompt_at, handed_over_at)

    def flows(self, after: float, oldest_at: float, now: float) -> Collection[Flow]:
        """The flows that wait; empty while it is not late. ``oldest_at``: when what waits longest was handed over."""
        waits = now - oldest_at >= after and self._prompt_at <= oldest_at
        return self._flows if waits or self._prompt_at < self._late_at else ()
