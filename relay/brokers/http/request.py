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
    own = f"webhook-id: {event.event_id}\r\nwebhook-timestamp: {timestamp}\r\n"
    if endpoint.signer:
        own += f"webhook-signature: {endpoint.signer.signatures(event.event_id, timestamp, body)}\r\n"
    others = lines_of([("Content-Type", content_type), *message_headers(event, message)])
    return HttpRequest(b"%s%s%sContent-Length: %d\r\n\r\n" % (endpoint.head, own.encode(), others, len(body)), body)
