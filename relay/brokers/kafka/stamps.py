"""The time of a Kafka message: the relay's now, or the event's own (KAFKA_TIMESTAMP)."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

from relay.core.clock import steady_seconds
from relay.core.event import EventId, OutboxEvent

REFUSED_TIME: Final = "INVALID_TIMESTAMP"
"""The broker's code for a time outside of the topic's ``message.timestamp.before.max.ms`` and ``after.max.ms``."""
_REMEMBERED: Final = 60.0  # seconds; then the topic may have other limits
_ALIKE: Final = 0.9  # of a distance that was refused: each event in turn would be a little nearer to the present
_MOST_REPLACED: Final = 10_000  # events
_LATEST: Final = 253_402_300_800  # seconds since 1970: the year 10000, beyond what clients read as a date


class Stamp(Enum):
    """What the messages of a session are stamped with; the first two are the values of KAFKA_TIMESTAMP."""

    NOW = "now"
    CREATED_AT = "created_at"
    """The time of the event; now, where no message can have that."""
    NOW_INSTEAD = "now instead"
    """Now, since the broker has refused the time of the event."""


def event_time(event: OutboxEvent, stamp: Stamp = Stamp.CREATED_AT) -> int | None:
    """``created_at`` in milliseconds since 1970; None where the message gets another time, or can have no such one."""
    if (
        stamp is not Stamp.CREATED_AT or not 0.001 <= event.created_at < _LATEST
    ):  # librdkafka takes 0 for the host's now
        return None
    return round(event.created_at * 1_000_000) // 1000


class _Refused(NamedTuple):
    distance: float
    until: float


class RefusedTimes:
    """How far from the present times were that topics have refused in the last minute.

    An event that is as far, or nine tenths of it, is sent with now at once: to have it refused costs its neighbours a
    batch, or all of a transaction.
    """

    def __init__(self, clock: Callable[[], float] = steady_seconds) -> None:
        self._clock = clock
        self._nearest: dict[tuple[str, bool], _Refused] = {}
        """By topic, and whether it is ahead of the present; only topics that exist refuse a time."""
        self._replaced: dict[EventId, None] = {}

    def own_time(self, event: OutboxEvent, now: float, stamp: Stamp = Stamp.CREATED_AT) -> int | None:
        """As ``event_time``, but None also where the topic refuses it."""
        at = event_time(event, stamp)
        if at is None or event.event_id in self._replaced or (self._nearest and self._refuses(event, now)):
            return None
        return at

    def replace(self, event: OutboxEvent) -> None:
        """This event is sent with now."""
        if len(self._replaced) >= _MOST_REPLACED:
            self._replaced.clear()
        self._replaced[event.event_id] = None

    def refused(self, event: OutboxEvent, now: float) -> None:
        """The topic has refused this event's time, at ``now``."""
        if not self._refuses(event, now):
            ahead = event.created_at - now
            self._nearest[event.event_type, ahead > 0] = _Refused(abs(ahead), self._clock() + _REMEMBERED)

    def _refuses(self, event: OutboxEvent, now: float) -> bool:
        ahead = event.created_at - now
        nearest = self._nearest.get((event.event_type, ahead > 0))
        return nearest is not None and abs(ahead) >= nearest.distance * _ALIKE and self._clock() < nearest.until
