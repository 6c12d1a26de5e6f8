"""Events in transactions, with leases that are good."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from relay.brokers.kafka.transactions import KafkaTransactions
from relay.core.clock import steady_seconds
from relay.core.event import EventId, Fence, OutboxEvent
from relay.core.outcome import Outcome, Resolution
from relay.core.proofs import Begun
from tests.support.waiting import eventually

FENCE = Fence(datetime(2030, 1, 1, 12, 30, 15, 123457, tzinfo=UTC))


class Leases:
    """All leases are good, but for those of events in ``short``."""

    def __init__(self, fence: Fence = FENCE) -> None:
        self.fence = fence
        self.short: set[EventId] = set()
        self.begun: list[list[EventId]] = []
        self.ended: set[EventId] = set()
        self.may_begin = asyncio.Event()
        self.may_begin.set()

    async def begin(
        self,
        events: Sequence[OutboxEvent],
        since: float,
        seconds: float,
        is_held: Callable[[OutboxEvent], bool] = lambda _: True,
    ) -> list[Begun]:
        await self.may_begin.wait()
        assert since <= steady_seconds()
        held = [event for event in events if event.event_id not in self.short and is_held(event)]
        self.begun.append([event.event_id for event in held])
        return [Begun(self.fence, steady_seconds() + seconds, held)] if held else []

    def end(self, event_ids: Iterable[EventId]) -> None:
        self.ended.update(event_ids)


class Sending:
    """A publisher that is ready, and what came of what it was handed."""

    def __init__(self, publisher: KafkaTransactions) -> None:
        self.publisher = publisher
        self.leases = Leases()
        self.outcomes: dict[EventId, Outcome] = {}

    def take(self, resolutions: Sequence[Resolution]) -> None:
        for one, outcome in resolutions:
            assert one.event_id not in self.outcomes
            self.outcomes[one.event_id] = outcome

    async def send(self, events: Sequence[OutboxEvent]) -> list[Outcome]:
        await self.publisher.publish_held(events, self.take, self.leases)
        await eventually(lambda: len(self.outcomes) == len(events), what="every outcome")
        return [self.outcomes[one.event_id] for one in events]
