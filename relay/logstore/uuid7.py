"""Time-ordered ids (UUID version 7): made for attempts, and read for the time they hold."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta
from uuid import UUID

from relay.logstore.times import from_ms, to_ms

_NEAR = timedelta(days=1)


def uuid7(time: datetime) -> str:
    """A new UUIDv7 of an instant at or after 1970, with 74 random bits."""
    number = to_ms(time) << 80 | 0x7 << 76 | secrets.randbits(12) << 64 | 0b10 << 62 | secrets.randbits(62)
    return str(UUID(int=number))


def time_near(text: str) -> tuple[datetime, datetime] | None:
    """A window of two days around the time that a UUIDv7 holds; None for any other id."""
    try:
        value = UUID(text)
    except ValueError:
        return None
    if value.version != 7:
        return None
    try:
        time = from_ms(value.int >> 80)
        return time - _NEAR, time + _NEAR
    except OverflowError:
        return None
