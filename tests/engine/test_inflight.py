"""The bounds on what is in flight, and which loop is woken by what."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from relay.core.event import EventId, Fence, OutboxEvent
from relay.core.outcome import ACKNOWLEDGED
from relay.engine.batch import Batch, Portion
from relay.engine.fences import Lease
from relay.engine.inflight import InFlight
from relay.engine.order import Order
from tests.support.doubles.telemetry import MemoryTelemetry
from tests.support.virtual_time import VirtualTimeLoop

FENCE = Fence(datetime(2030, 1, 1, tzinfo=UTC))


@pytest.fixture
def inflight() -> InFlight:
    return InFlight(MemoryTelemetry(), 100, 1000)


SIZE = 8
"""Bytes of each event: destination, payload and headers."""


def events(count: int, key: str | None = None) -> list[OutboxEvent]:
    return [OutboxEvent(EventId(str(number)), "t", key, b"12345", "{}", 0, 0.0) for number in range(count)]


def batch(count: int, *, in_order: bool = False, last_chance: bool = False) -> Batch:
    lease = Lease.of(FENCE, 0.0, 30.0)
    return Batch(
        lease,
        events(count, "k" if in_order else None),
        0.0,
        order=Order.SINGLES if in_order else Order.NONE,
        last_chance=last_chance,
    )


def acknowledge(inflight: InFlight, one: Batch, count: int) -> None:
    one.take_answers([(event, ACKNOWLEDGED) for event in list(one.offered.values())[:count]], 0.0)
    inflight.decided(one)


async def test_events_and_bytes_are_counted_from_the_claim_until_they_are_settled(inflight: InFlight) -> None:
    one = batch(4)
    inflight.add(one)
    assert inflight.room() == (96, 1000 - 4 * SIZE)
    acknowledge(inflight, one, 4)
    assert inflight.room() == (96, 1000)
    [portion], _ = inflight.take_settleable(0.0, settle_first=False)
    one.settled(portion)
    inflight.gone(one, 4)
    inflight.written(one)
    assert inflight.room() == (100, 1000)
    assert not inflight.batches


async def test_where_bytes_are_short_those_of_answered_events_do_not_wait_for_their_neighbours(
    inflight: InFlight,
) -> None:
    one = batch(70)
    inflight.add(one)
    acknowledge(inflight, one, 60)
    assert inflight.room() == (30, 1000 - 10 * SIZE)


async def test_what_waits_behind_its_key_counts_too(inflight: InFlight) -> None:
    inflight.add(batch(4, in_order=True))
    assert (inflight.events, inflight.unanswered) == (4, 4)


def test_the_settler_is_woken_at_once_by_the_last_answer_and_else_after_a_moment(inflight: InFlight) -> None:
    loop = VirtualTimeLoop()
    one = batch(4)
    inflight.add(one)
    loop.call(lambda: acknowledge(inflight, one, 2))
    assert not inflight.settleable.is_set()
    loop.pass_time(0.0049)
    assert not inflight.settleable.is_set()
    loop.pass_time(0.0002)
    assert inflight.settleable.is_set()
    inflight.take_settleable(0.0, settle_first=False)
    inflight.written(one)
    loop.call(lambda: acknowledge(inflight, one, 2))
    assert inflight.settleable.is_set()
    loop.end()


async def test_a_batch_that_is_written_to_is_left_out_and_comes_back(inflight: InFlight) -> None:
    one = batch(4)
    inflight.add(one)
    one.begin_writing()  # a renewal
    acknowledge(inflight, one, 4)
    assert inflight.take_settleable(0.0, settle_first=False) == ([], [])
    assert not inflight.settleable.is_set()
    inflight.written(one)
    assert inflight.settleable.is_set()
    [portion], _ = inflight.take_settleable(0.0, settle_first=False)
    assert len(portion) == 4


async def test_verdicts_give_way_to_a_renewal_that_is_overdue(inflight: InFlight) -> None:
    one = batch(4)
    inflight.add(one)
    acknowledge(inflight, one, 1)
    [portion], _ = inflight.take_settleable(0.0, settle_first=False)
    one.set_aside(Portion(one, portion.settlement, refusals=1), 1.0)
    inflight.written(one)
    assert inflight.refused == 1
    acknowledge(inflight, one, 1)
    assert inflight.take_settleable(15.0, settle_first=False) == ([], [])
    assert not one.writing
    [fresh], [again] = inflight.take_settleable(15.0, settle_first=True)
    assert (fresh.settlement.delivered, again.settlement.delivered) == ([EventId("1")], [EventId("0")])


async def test_followers_are_handed_out_once(inflight: InFlight) -> None:
    one = batch(3, in_order=True)
    inflight.add(one)
    acknowledge(inflight, one, 1)
    assert inflight.following.is_set()
    assert {each: [event.event_id for event in follow] for each, follow in inflight.take_followers().items()} == {
        one: ["1"]
    }
    assert not inflight.following.is_set()
    assert inflight.take_followers() == {}


async def test_lost_events_make_room_and_a_batch_without_any_is_forgotten(inflight: InFlight) -> None:
    one = batch(4)
    inflight.add(one)
    inflight.changed.clear()
    inflight.forfeit(one, list(one.offered))
    assert inflight.room() == (100, 1000)
    assert inflight.changed.is_set()
    assert not inflight.batches


async def test_releasing_wakes_the_settler(inflight: InFlight) -> None:
    one = batch(4)
    inflight.add(one)
    inflight.release(one)
    assert inflight.settleable.is_set()
    [portion], _ = inflight.take_settleable(0.0, settle_first=False)
    assert len(portion.settlement.released) == 4


async def test_one_on_its_last_attempt_makes_claims_careful(inflight: InFlight) -> None:
    inflight.add(batch(1))
    assert not inflight.careful(0.0)
    inflight.add(batch(1, last_chance=True))
    assert inflight.careful(0.0)
