"""The publisher that discards every event and acknowledges it: for measuring the rest of the relay.

Each event is acknowledged before ``publish`` returns. It has no broker, so it is never unreachable.
"""

from __future__ import annotations

from collections.abc import Sequence

from relay.core.event import OutboxEvent
from relay.core.outcome import ACKNOWLEDGED, OutcomeSink
from relay.core.ports import SingleDestination


class NullPublisher(SingleDestination):
    """Acknowledges at once."""

    name = "null"
    keeps_runs = False

    async def open(self) -> None: ...

    async def publish(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> None:
        """Acknowledge every event in one group."""
        if events:
            sink([(event, ACKNOWLEDGED) for event in events])

    async def probe(self, timeout: float) -> None: ...

    async def abandon(self, reason: str) -> None:
        """Do nothing: no event is ever unanswered."""

    async def close(self) -> None: ...

    def twin(self) -> NullPublisher:
        """Return itself: it has no connection that could be cut."""
        return self
