"""The time of a Kafka message: the relay's now, or the event's own (KAFKA_TIMESTAMP)."""

from __future__ import annotations

from enum import Enum
from typing import Final

from relay.core.event import OutboxEvent

REFUSED_TIME: Final = "INVALID_TIMESTAMP"
"""The broker's code for a time outside of the topic's ``message.timestamp.before.max.ms`` and ``after.max.ms``."""
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
