"""Messages as Debezium's outbox event router writes them to Kafka (docs/guide/from-debezium.md).

The router's message has the aggregate's id as its key, the payload as its value, and the event's id in the header
``id``; columns that it is configured to place in headers follow. Here the key is ``partition_key``, and the headers are
those of the row. The relay's own header stays, because the inbox and Spark's reconciliation read it.

Kafka Connect writes the text of headers as it is (its default ``header.converter``), Debezium Server as JSON.
"""

from __future__ import annotations

import json
from typing import Final

from relay.core.event import OutboxEvent
from relay.core.formats.message import USER_PREFIX, FormattedMessage
from relay.core.headers import wire_headers

ID_HEADER: Final = "id"


_json_text = json.JSONEncoder(ensure_ascii=False).encode


def connect_message(event: OutboxEvent) -> FormattedMessage:
    """The message of an event as Kafka Connect writes it. A header ``id`` of the row is sent as ``X-User-id``."""
    others = [(USER_PREFIX + name if name == ID_HEADER else name, value) for name, value in wire_headers(event.headers)]
    return FormattedMessage(event.payload, [(ID_HEADER, event.event_id)], others)


def server_message(event: OutboxEvent) -> FormattedMessage:
    """The same as Debezium Server writes it: each header's value is a JSON string, in quotes."""
    payload, own, others = connect_message(event)
    return FormattedMessage(payload, *([(name, _json_text(value)) for name, value in part] for part in (own, others)))
