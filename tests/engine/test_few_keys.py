"""Order per key with few keys: what a batch held is claimed as soon as the batch is settled."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from relay.core.event import Status
from relay.core.outcome import ACKNOWLEDGED, Transient
from relay.outbox.outbox_options import KeyOrder
from tests.support.doubles.memory_publisher import MemoryPublisher
from tests.support.doubles.virtual_relay import VirtualRelay
from tests.support.fixtures.engine import MakeEngine

ROUND_TRIP = 2.0


@pytest.fixture
def virtual() -> Iterator[VirtualRelay]:
    broker = MemoryPublisher()
    broker.round_trip = ROUND_TRIP
    relay = VirtualRelay(broker, key_order=KeyOrder.SKIP, batch_size=1, poll_interval=1.5)
    yield relay
    relay.end()


def test_the_next_event_of_a_key_is_claimed_once_the_one_before_is_settled(virtual: VirtualRelay) -> None:
    virtual.insert(4, partition_key="a")
    assert virtual.until(lambda: virtual.delivered() == 4) < 4 * ROUND_TRIP + 0.2


def test_nothing_wakes_the_claim_loop_where_nothing_waits(virtual: VirtualRelay) -> None:
    virtual.insert(1, partition_key="a")
    virtual.until(lambda: virtual.delivered() == 1)
    claims = virtual.telemetry.ops["claim", True]
    virtual.run(3.0)
    assert virtual.telemetry.ops["claim", True] - claims <= 3


@pytest.fixture
def runs() -> Iterator[VirtualRelay]:
    broker = MemoryPublisher(keeps_runs=True)
    broker.hold()
    relay = VirtualRelay(broker, key_order=KeyOrder.SKIP)
    yield relay
    relay.end()


def test_a_run_is_with_the_broker_together(runs: VirtualRelay) -> None:
    first = runs.insert(3, partition_key="a")
    second = runs.insert(2, "elsewhere", partition_key="a")
    runs.until(lambda: len(runs.broker.held) == 3)
    assert [event.event_id for event in runs.broker.held] == first
    runs.do(runs.broker.answer)
    runs.until(lambda: len(runs.broker.held) == 2)
    assert [event.event_id for event in runs.broker.held] == second
    runs.do(runs.broker.answer)
    runs.until(lambda: runs.counts() == {"DELIVERED": 5})


def test_what_is_behind_a_failed_event_of_a_run_is_released_without_an_attempt(runs: VirtualRelay) -> None:
    ids = runs.insert(5, partition_key="a")
    runs.broker.answer_with(lambda event: Transient("NOPE", "") if event.event_id == ids[2] else ACKNOWLEDGED)
    runs.until(lambda: runs.counts() == {"DELIVERED": 2, "PENDING": 3})
    assert [runs.row(one).attempts for one in ids] == [0, 0, 1, 0, 0]
    runs.broker.answer_with(lambda _: ACKNOWLEDGED)
    runs.until(lambda: runs.counts() == {"DELIVERED": 5}, 100)
    assert [event.event_id for event in runs.broker.messages] == ids


def test_a_connection_that_is_cut_suspects_the_first_event_of_a_run_alone(runs: VirtualRelay) -> None:
    ids = runs.insert(5, partition_key="a")
    runs.broker.answer_with(lambda _: ACKNOWLEDGED)
    runs.broker.cuts(lambda event: event.event_id == ids[2])
    runs.until(lambda: runs.row(ids[2]).attempts == 1)
    assert [runs.row(one).attempts for one in ids] == [0, 0, 1, 0, 0]
    runs.broker.cuts(None)
    runs.until(lambda: runs.counts() == {"DELIVERED": 5}, 100)
    assert list(dict.fromkeys(event.event_id for event in runs.broker.messages)) == ids


def test_what_is_behind_a_lost_event_of_a_run_is_not_handed_over(engine: MakeEngine) -> None:
    one = engine(MemoryPublisher(capacity=1, keeps_runs=True), key_order=KeyOrder.SKIP)
    one.broker.hold()
    one.insert(2, partition_key="first")
    one.until(lambda: one.broker.held)
    ids = one.insert(3, partition_key="a")
    one.until(lambda: one.relay.inflight.events == 5)
    batch = list(one.relay.inflight.batches)[-1]
    assert list(batch.offered) == ids
    one.do(lambda: one.relay.inflight.forfeit(batch, ids[1:2]))  # its row goes on being held by another one
    one.broker.answer_with(lambda _: ACKNOWLEDGED)
    one.do(one.broker.answer)
    one.run(5.0)
    assert [event.event_id for event in one.broker.messages[2:]] == ids[:1]
    assert one.row(ids[2]).status is Status.PENDING
