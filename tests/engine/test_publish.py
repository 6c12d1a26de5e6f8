"""Offering and abandoning exclude each other, and nothing is offered whose lease has run out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from relay.core.event import OutboxEvent, Status
from relay.core.outcome import ACKNOWLEDGED, OutcomeSink, Unreachable
from relay.outbox.outbox_options import KeyOrder
from tests.support.doubles.faulty_storage import Fault
from tests.support.doubles.memory_publisher import MemoryPublisher
from tests.support.fixtures.engine import MakeEngine


class Exclusive(MemoryPublisher):
    """Fails the test when two calls overlap that must not."""

    busy = ""

    async def publish(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> None:
        assert not self.busy, f"publish during {self.busy}"
        self.busy = "publish"
        try:
            await super().publish(events, sink)
        finally:
            self.busy = ""

    async def abandon(self, reason: str) -> None:
        assert not self.busy, f"abandon during {self.busy}"
        self.busy = "abandon"
        try:
            await super().abandon(reason)
        finally:
            self.busy = ""


def test_a_batch_whose_lease_ran_out_before_its_turn_is_not_offered(engine: MakeEngine) -> None:
    one = engine(MemoryPublisher(capacity=10), batch_size=10, lease_timeout=20.0)
    one.broker.hold()
    one.insert(10)
    one.until(lambda: len(one.broker.held) == 10)
    one.insert(20)  # the next batch waits in publish for room, the one after for its turn
    one.until(lambda: one.relay.inflight.events == 30)
    offered = len(one.broker.offered)
    one.fail("renew", *[Fault.BUSY] * 1000)
    one.run(19.0)
    one.storage.gone = True  # from here on nothing is renewed or settled
    one.until(lambda: one.broker.abandons, 10)
    one.run(5.0)
    assert len(one.broker.offered) == offered


def test_a_follower_whose_lease_ran_out_is_not_offered(engine: MakeEngine) -> None:
    one = engine(key_order=KeyOrder.SKIP, lease_timeout=20.0)
    one.broker.hold()
    one.insert(3, partition_key="a")
    one.until(lambda: one.broker.held)
    batch = next(iter(one.relay.inflight.batches))
    one.do(
        lambda: batch.renewal_failed(batch.leases()[0][0], [], 1000.0, refused=False)
    )  # as if no renewal came in time
    one.run(21.0 - one.loop.time())
    assert one.broker.held
    one.do(one.broker.answer)
    one.run(0.5)
    assert len(one.broker.offered) == 1
    assert one.telemetry.counts["leases_lost"] >= 1


def test_an_offer_that_waits_for_room_is_called_off_when_the_broker_is_given_up(engine: MakeEngine) -> None:
    one = engine(Exclusive(capacity=5), probe_timeout=1.0, health_check_interval=2.0)
    one.broker.hold()
    one.insert(100)
    one.until(lambda: len(one.broker.held) == 5)
    one.broker.hang()
    one.run(10.0)
    assert one.counts() == {"PENDING": 100}
    assert {row.attempts for row in one.table.rows.values()} == {0}
    assert len(one.broker.offered) == 5
    one.broker.answer_with(lambda _: ACKNOWLEDGED)
    one.do(one.broker.up)
    one.run(10.0)
    assert one.counts() == {"DELIVERED": 100}


def test_nothing_is_released_before_the_client_has_forgotten_it(engine: MakeEngine) -> None:
    class Slow(MemoryPublisher):
        async def abandon(self, reason: str) -> None:
            released.append([row.status for row in one.table.rows.values()].count(Status.PENDING))
            await super().abandon(reason)

    released: list[int] = []
    one = engine(Slow())
    one.broker.hold()
    one.insert(10)
    one.until(lambda: len(one.broker.held) == 10)
    one.broker.down("reset")
    first = one.broker.held[0].event_id
    one.do(lambda: one.broker.answer(Unreachable("reset"), first))
    one.run(1.0)
    assert released[0] <= 1  # the one that the publisher itself called unreachable
    assert one.counts() == {"PENDING": 10}


def test_a_publisher_that_raises_costs_what_it_had_not_taken_an_attempt(engine: MakeEngine) -> None:
    class Raising(Exclusive):
        async def publish(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> None:
            await super().publish(events[:2], sink)
            raise RuntimeError("a bug")

    one = engine(Raising())
    one.insert(5)
    one.run()
    assert one.counts() == {"DELIVERED": 2, "PENDING": 3}
    failed = [row for row in one.table.rows.values() if row.status is Status.PENDING]
    assert {(row.attempts, row.last_error) for row in failed} == {(1, "RuntimeError: a bug")}


@pytest.mark.parametrize("capacity", [None, 3])
def test_events_are_offered_once_and_oldest_first(engine: MakeEngine, capacity: int | None) -> None:
    one = engine(Exclusive(capacity=capacity))
    ids = one.insert(300)
    one.run()
    assert [event.event_id for event in one.broker.offered] == ids
