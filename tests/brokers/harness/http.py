"""A real HTTP server of the suite's own, which may be paused and restarted. By TLS: a probe sends no request, so the
handshake is what tells a server that hangs from one that answers.
"""

from __future__ import annotations

import uuid
from typing import Any
from urllib.parse import unquote

from relay.brokers.http.headers import KEY_HEADER, PREFIX
from relay.brokers.http.publisher import HttpPublisher
from tests.brokers.harness.base import Features, ServerHarness, StoredMessage
from tests.support.options import http_options
from tests.support.servers.identities import Identities
from tests.support.servers.webhooks import Post, WebhookServer


class HttpHarness(ServerHarness):
    """One endpoint for all types; the receiver takes bodies of up to a megabyte."""

    cuts = False  # it is TLS

    features = Features(hangs=True, stops=True, missing_destination="HTTP_404", too_large=2_000_000, big_batch=2_000)

    def __init__(self, server: WebhookServer, identities: Identities) -> None:
        super().__init__(server)
        self._server = server
        self._identities = identities

    def publisher(self, **options: Any) -> HttpPublisher:
        defaults = {"url": self.url, "tls_ca": str(self._identities.ca_file)}
        return HttpPublisher(http_options(**(defaults | options)))

    async def destination(self) -> str:
        return f"conformance.{uuid.uuid4().hex[:12]}"

    async def read(self, destination: str, count: int) -> list[StoredMessage]:
        posts = self._server.received(destination)
        assert len(posts) >= count
        return [_message(post) for post in posts[:count]]


def _message(post: Post) -> StoredMessage:
    """Values in which something is encoded have no ``%`` of their own, so decoding all is decoding those."""
    key = post.header(KEY_HEADER)
    headers = [
        (unquote(name.removeprefix(PREFIX)), unquote(value)) for name, value in post.headers if name.startswith(PREFIX)
    ]
    return StoredMessage(post.header("webhook-id") or "", None if key is None else unquote(key), post.body, headers)
