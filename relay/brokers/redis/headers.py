"""The fields of a Redis stream entry (docs/reference/messages.md): the event's columns, its headers as ``h:<name>``.

The prefix keeps a user's header apart from the fields ``id``, ``payload`` and ``partition_key``, whatever its name.
Redis strings hold any bytes, so nothing is encoded.
"""

from __future__ import annotations

from relay.core.event import OutboxEvent
from relay.core.formats.message import FormattedMessage
from relay.core.headers import wire_headers

HEADER_PREFIX = "h:"


def entry_fields(event: OutboxEvent, message: FormattedMessage | None = None) -> list[str | bytes]:
    """Return names and values in turn, as XADD takes them; no ``partition_key`` field for an event without a key.

    Of ``message``, where a format made one: what it sets are fields without a prefix.
    """
    fields: list[str | bytes] = ["id", event.event_id, "payload", event.payload if message is None else message.payload]
    if event.partition_key is not None:
        fields += ("partition_key", event.partition_key)
    if message is not None:
        for name, value in message.own:
            fields += (name, value)
    if event.headers != "{}":
        for name, value in wire_headers(event.headers) if message is None else message.others:
            fields += (HEADER_PREFIX + name, value)
    return fields
