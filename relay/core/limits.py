"""What no broker gets: an event with too long a type, or too many or too large headers. It is DEAD at once.

So is one that ALLOWED_EVENT_TYPES does not allow (``relay.core.allowed``).

Such an event is found right after its claim, before anything works on it: a loop over 200,000 headers holds up every
other event. A claim cuts both texts just behind their limits (``sql/outbox/claim.sql``), so that they stay too long.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from relay.core.event import OutboxEvent
from relay.core.headers import has_more_headers
from relay.core.outcome import Permanent

MOST_TYPE_BYTES: Final = 4096
MOST_HEADER_BYTES: Final = 1024 * 1024
"""Of the text of the ``headers`` column."""
MOST_HEADERS: Final = 10_000
TOO_LARGE: Final = "TOO_LARGE"

_SHORT_TYPE: Final = MOST_TYPE_BYTES // 4  # characters, of up to four bytes each
_FEW_HEADERS: Final = 7 * MOST_HEADERS  # characters: each header has a name of its own, a value, and five signs


class RefusedEvent(OutboxEvent):
    """An event that no broker gets, without its headers; alone in its run, because of its ``last_code``."""

    refusal = Permanent(TOO_LARGE, "")


def may_exceed(events: Sequence[OutboxEvent]) -> list[int]:
    """At which places the events are that ``limited`` has to look at."""
    return [
        place
        for place, event in enumerate(events)
        if len(event.headers) > _FEW_HEADERS or len(event.event_type) > _SHORT_TYPE
    ]


def limited(event: OutboxEvent) -> OutboxEvent:
    """The event, or as a ``RefusedEvent``."""
    reason = _excess(event)
    return refused(event, Permanent(TOO_LARGE, reason)) if reason else event


def refused(event: OutboxEvent, refusal: Permanent) -> RefusedEvent:
    """The event as one that no broker gets."""
    it = RefusedEvent._make(event._replace(headers="{}", last_code=refusal.code))
    it.refusal = refusal
    return it


def _excess(event: OutboxEvent) -> str:
    if len(event.event_type.encode(errors="replace")) > MOST_TYPE_BYTES:
        return f"its event_type has more than {MOST_TYPE_BYTES:,} bytes"
    if len(event.headers.encode(errors="replace")) > MOST_HEADER_BYTES:
        return f"its headers have more than {MOST_HEADER_BYTES:,} bytes"
    if has_more_headers(event.headers, MOST_HEADERS):
        return f"it has more than {MOST_HEADERS:,} headers"
    return ""
