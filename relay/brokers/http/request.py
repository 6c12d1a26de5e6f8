"""The POST of an event, with the headers of Standard Webhooks. Used by ``relay.brokers.http.host``."""

from __future__ import annotations

from typing import Final, NamedTuple

from relay.brokers.http.endpoints import Endpoint
from relay.brokers.http.headers import message_headers
from relay.brokers.http.options import HttpOptions
from relay.core.event import OutboxEvent
from relay.core.formats.cloudevents import CONTENT_TYPE
from relay.core.headers import Header
from relay.version import __version__

_AGENT: Final = f"openoutbox-relay/{__version__}"


class HttpRequest(NamedTuple):
    """One POST."""

    authority: str
    target: str
    headers: list[Header]
    body: bytes


def request_of(event: OutboxEvent, endpoint: Endpoint, options: HttpOptions) -> HttpRequest:
    """The POST of an event, signed now: receivers refuse an old timestamp."""
    timestamp = int(options.now())
    message = None if options.message_format is None else options.message_format(event)
    body, content_type = event.payload, options.content_type
    if message is not None:
        body, content_type = message.payload, dict(message.own).get(CONTENT_TYPE, content_type)
    headers = [
        ("User-Agent", _AGENT),
        ("Content-Type", content_type),
        ("webhook-id", str(event.event_id)),
        ("webhook-timestamp", str(timestamp)),
    ]
    if endpoint.signer:
        headers.append(("webhook-signature", endpoint.signer.signatures(event.event_id, timestamp, body)))
    if endpoint.authorization is not None:
        headers.append(("Authorization", endpoint.authorization))
    headers += message_headers(event, message)
    return HttpRequest(endpoint.origin.authority, endpoint.target, headers, body)
