"""A publisher of webhooks that is open, and what becomes of events that it is offered."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from relay.brokers.http.publisher import HttpPublisher
from relay.core.event import OutboxEvent
from relay.core.outcome import Outcome
from tests.brokers.harness.base import Collector
from tests.support.options import http_options


@asynccontextmanager
async def opened(url: str, **changes: object) -> AsyncIterator[HttpPublisher]:
    """A publisher that is open."""
    publisher = HttpPublisher(http_options(url, **changes))
    await publisher.open()
    try:
        yield publisher
    finally:
        await publisher.close()


async def outcomes(publisher: HttpPublisher, events: list[OutboxEvent]) -> list[Outcome]:
    """Offer them, and wait for what each became."""
    sink = Collector()
    await publisher.publish(events, sink)
    return await sink.outcomes(events)
