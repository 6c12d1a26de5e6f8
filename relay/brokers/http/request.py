"""The POST of an event, with the headers of Standard Webhooks. Used by ``relay.brokers.http.host``."""

from __future__ import annotations

from typing import NamedTuple

from relay.brokers.http.endpoints import Endpoint
from relay.brokers.http.headers import lines_of, message_headers
from relay.brokers.http.options import HttpOptions
from relay.core.event import OutboxEvent
from relay.core.formats.cloudevents import CONTENT_TYPE


class HttpRequest(NamedTuple):
    """One POST."""

    head: bytes
    body: bytes


def request_of(event: OutboxEvent, endpoint: Endpoint, options: HttpOptions) -> HttpRequest:
    """The POST of an event, signed now: receivers refuse an old timestamp. Raises UnsendableHeader."""
    timestamp = int(options.now())
    message = None if options.message_format is None else options.message_format(event)
    body, content_type = event.payload, options.content_type
    if message is not None:
        body, content_type = message.payload, dict(message.own).get(CONTENT_TYPE, content_type)
    headers = [
        ("Content-Type", content_type),
        ("webhook-id", str(event.event_id)),
        ("webhook-timestamp", str(timestamp)),
    ]
    if endpoint.signer:
        headers.append(("webhook-signature", endpoint.signer.signatures(event.event_id, timestamp, body)))
    headers += message_headers(event, message)
    headers.append(("Content-Length", str(len(body))))
    return HttpRequest(b"%s%s\r\n" % (endpoint.head, lines_of(headers)), body)
