"""Copies for a destination that leaves proofs: what it has let go of is never begun, what is begun is not let go of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import UTC, datetime

import pytest

from relay.core.event import EventId, Fence, OutboxEvent
from relay.core.outcome import ACKNOWLEDGED, Outcome, OutcomeSink, Unreachable
from relay.core.proofs import Begun, HeldLeases, LeasedRow, Proofs, Proven
from relay.engine.destination.destination import Times
from relay.engine.destination.member import Member
from tests.brokers.harness.base import Collector, make_event
from tests.support.doubles.memory_publisher import MemoryPublisher
from tests.support.waiting import eventually

FENCE = Fence(datetime(2030, 1, 1, tzinfo=UTC))


class Leases:
    """All are good, once a test lets them begin."""

    def __init__(self) -> None:
        self.may_begin = asyncio.Event()
        self.pinned: set[EventId] = set()

    async def begin(
        self,
        events: Sequence[OutboxEvent],
        since: float,
        seconds: float,
        is_held: Callable[[OutboxEvent], bool] = lambda _: True,
    ) -> list[Begun]:
        await self.may_begin.wait()
        held = list(filter(is_held, events))
        self.pinned.update(event.event_id for event in held)
        return [Begun(FENCE, since + seconds, held)] if held else []

    def end(self, event_ids: Iterable[EventId]) -> None:
        self.pinned.difference_update(event_ids)


class Transacted(MemoryPublisher, Proofs):
    """A publisher whose transactions end when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.commits = asyncio.Event()
        self.committed: list[OutboxEvent] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def publish_held(self, events: Sequence[OutboxEvent], sink: OutcomeSink, holding: HeldLeases) -> None:
        async def carry() -> None:
            begun = await holding.begin(events, 0.0, 1.0)
            await self.commits.wait()
            held = [event for one in begun for event in one.events]
            self.committed += held
            sink([(event, ACKNOWLEDGED) for event in held])

        self.tasks.append(asyncio.get_running_loop().create_task(carry()))

    async def former_ended(self) -> bool:
        return True

    def beside(self, relays: Sequence[str] | None) -> None: ...

    async def keeps_proofs(self) -> bool:
        return True

    async def end_holder(self, holder: str) -> None: ...

    async def proven(self, rows: Sequence[LeasedRow]) -> Proven:
        return {}


class Scene:
    """A destination that was offered one event."""

    def __init__(self) -> None:
        self.publisher = Transacted()
        self.leases = Leases()
        self.member = Member("bus", self.publisher, Times(retry_interval=1.0), lambda: True)
        self.event = make_event("orders")
        self.sink = Collector()

    async def offer(self) -> None:
        self.member.offer([self.event], self.sink, self.leases)
        await eventually(lambda: self.publisher.tasks, what="the event to be handed over")

    async def outcome(self) -> Outcome:
        [outcome] = await self.sink.outcomes([self.event])
        return outcome


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    one = Scene()
    await one.member.open()
    yield one
    await one.member.close()


async def test_a_copy_that_was_let_go_is_in_no_transaction_that_begins_later(scene: Scene) -> None:
    await scene.offer()
    await scene.member.abandon("the gate closed")
    assert await scene.outcome() == Unreachable("the gate closed")
    scene.leases.may_begin.set()
    scene.publisher.commits.set()
    await asyncio.gather(*scene.publisher.tasks)
    assert (scene.publisher.committed, scene.leases.pinned) == ([], set())


async def test_a_copy_in_a_transaction_has_the_outcome_of_that(scene: Scene) -> None:
    scene.leases.may_begin.set()
    await scene.offer()
    await eventually(lambda: scene.leases.pinned, what="the transaction to begin")
    await scene.member.abandon("the gate closed")
    assert not scene.sink.resolutions
    scene.publisher.commits.set()
    assert await scene.outcome() is ACKNOWLEDGED
