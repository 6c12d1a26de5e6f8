"""Whether one of several destinations is late with its answers, and which event types wait for it then.

The last places in flight are for other types (``relay.engine.inflight``): what goes to this destination, also if it
goes elsewhere besides, keeps its place until this one has answered. It is late while an event has waited for half a
second, and none that was handed over after that one was acknowledged in half a second: where one topic hangs and
others do not, the engine counts by type.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from relay.core.event import OutboxEvent
from relay.engine.batch import LATE

_MOST_TYPES = 1000


class Lateness:
    """Times are those of one clock, in seconds."""

    def __init__(self) -> None:
        self._types: dict[str, None] = {}
        """Of the rows that were offered, the first ones forgotten first."""
        self._prompt_at = float("-inf")
        """When the last event that was acknowledged in time was handed over."""

    def offer(self, events: Iterable[OutboxEvent]) -> None:
        """These go to the destination."""
        self._types.update((event.announced_type, None) for event in events)
        while len(self._types) > _MOST_TYPES:
            del self._types[next(iter(self._types))]

    @property
    def known(self) -> Collection[str]:
        """The types of all that was offered."""
        return self._types

    def acknowledge(self, handed_over_at: float, now: float) -> None:
        """The destination has acknowledged an event."""
        if now - handed_over_at < LATE:
            self._prompt_at = max(self._prompt_at, handed_over_at)

    def types(self, oldest_at: float, now: float) -> Collection[str]:
        """The types that wait; empty while it is not late. ``oldest_at``: when what waits longest was handed over."""
        return self._types if now - oldest_at >= LATE and self._prompt_at <= oldest_at else ()
