"""Events to an HTTP endpoint: one signed POST each, acknowledged by a status from 200 to 299.

A probe connects, with the TLS handshake, and sends no request: a request would be an event that never happened. Each
endpoint of HTTP_ENDPOINTS_FILE has a publisher of its own (``relay.app.destinations``).

``publish`` takes every event at once and never waits: what is in flight is bounded by MAX_IN_FLIGHT and BATCH_BYTES.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from relay.brokers.http.endpoints import read_endpoint
from relay.brokers.http.host import Host
from relay.brokers.http.options import HttpOptions, client_tls
from relay.core.event import OutboxEvent
from relay.core.outcome import OutcomeSink
from relay.core.ports import SingleDestination

_SLICE: Final = 100  # events taken before other work of the event loop gets its turn


class HttpPublisher(SingleDestination):
    """See the module's text."""

    name = "http"
    keeps_runs = False

    def __init__(self, options: HttpOptions) -> None:
        self._options = options
        self._host: Host

    @property
    def blocked(self) -> str:
        """As its host has been; empty before it is opened."""
        return self._host.blocked if hasattr(self, "_host") else ""

    async def open(self) -> None:
        """Read URL, secrets and certificates. Raises ConfigError; does not connect."""
        await asyncio.to_thread(client_tls, self._options)
        self._host = Host(read_endpoint(self._options), self._options)

    async def publish(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> None:
        """Take every event."""
        for start in range(0, len(events), _SLICE):
            if start:
                await asyncio.sleep(0)
            for event in events[start : start + _SLICE]:
                self._host.add((event, sink))
            self._host.pump()

    async def probe(self, timeout: float) -> None:
        """Connect. Raises BrokerUnreachable."""
        await self._host.check(timeout)

    def take_back(self, reason: str) -> None:
        """Give back what waits for a connection."""
        self._host.take_back(reason)

    async def abandon(self, reason: str) -> None:
        await self._host.abandon(reason)

    async def close(self) -> None:
        await self.abandon("the publisher was closed")

    def twin(self) -> HttpPublisher:
        return HttpPublisher(self._options)
