"""The headers of a Kafka message (docs/reference/messages.md#headers): the event's id first, then the user's headers.

A user's header named ``X-Event-ID`` (in any case) is sent as ``X-User-`` and its own name, so that a consumer finds
exactly one event id. Kafka carries every other name and value unchanged.
"""

from __future__ import annotations

from relay.core.event import OutboxEvent
from relay.core.formats.message import USER_PREFIX, FormattedMessage
from relay.core.headers import wire_headers

EVENT_ID_HEADER = "X-Event-ID"


KafkaHeaders = list[tuple[str, str | bytes | None]]
"""As confluent-kafka takes them."""


def message_headers(event: OutboxEvent) -> KafkaHeaders:
    """Return names and values in the order in which they are sent."""
    headers: KafkaHeaders = [(EVENT_ID_HEADER, event.event_id)]
    if event.headers != "{}":
        ours = EVENT_ID_HEADER.lower()
        headers += [
            # The lengths first: cheaper than lowering every name.
            (USER_PREFIX + name, value) if len(name) == len(ours) and name.lower() == ours else (name, value)
            for name, value in wire_headers(event.headers)
        ]
    return headers


def formatted_headers(event: OutboxEvent, message: FormattedMessage) -> KafkaHeaders:
    """The same for a message that a format made."""
    ours = EVENT_ID_HEADER.lower()
    others = [(USER_PREFIX + name if name.lower() == ours else name, value) for name, value in message.others]
    return [(EVENT_ID_HEADER, event.event_id), *message.own, *others]
