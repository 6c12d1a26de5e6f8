"""Where events may go: the patterns of ALLOWED_EVENT_TYPES, and names that steer a broker.

An event's type names its destination, so every application that inserts events chooses one. A type that no pattern
matches is refused before anything is sent. Some names make a broker do more than store a message: it answers them, or
keeps its own state there. Those are refused after routing, unless a pattern that matches them begins as they do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from relay.core.outcome import Permanent
from relay.core.patterns import matches

NOT_ALLOWED: Final = "NOT_ALLOWED"


def refused_type(event_type: str, patterns: Sequence[str]) -> Permanent | None:
    """Why no event of this type is sent; None where a pattern matches it."""
    if matches(event_type, patterns):
        return None
    return Permanent(NOT_ALLOWED, f"no pattern of ALLOWED_EVENT_TYPES matches {event_type[:200]!r}")


def refused_name(name: str, steering: Sequence[str], patterns: Sequence[str]) -> Permanent | None:
    """Why nothing is sent to a destination whose name begins as one of ``steering``; None for every other one."""
    beginning = next((one for one in steering if f"{name}.".startswith(one)), None)
    if beginning is None:
        return None
    if matches(name, (pattern for pattern in patterns if pattern.startswith(beginning.rstrip(".")))):
        return None
    reason = (
        f"{name[:200]!r} steers the broker; a pattern of ALLOWED_EVENT_TYPES that begins with {beginning} allows it"
    )
    return Permanent(NOT_ALLOWED, reason)
