"""While a backlog lasts several claims make one round trip; for no more than there is room, and one after an error."""

from __future__ import annotations

from typing import Any

from relay.core.event import Claim, Status
from relay.core.outcome import ACKNOWLEDGED
from relay.core.telemetry import RelayState
from relay.outbox.options import KeyOrder
from tests.engine.conftest import StartRelay
from tests.support.doubles.faulty_storage import Fault
from tests.support.doubles.memory_storage import MemoryRow
from tests.support.doubles.virtual_relay import VirtualRelay
from tests.support.fixtures.engine import MakeEngine
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.waiting import eventually

_REFUSE = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not this one'; END $$;
CREATE TRIGGER refuse BEFORE UPDATE ON openoutbox_events FOR EACH ROW
WHEN (NEW.status = 'DELIVERING' AND NEW.event_type = 'bad') EXECUTE FUNCTION refuse()
"""


def refuse_bad(_before: MemoryRow, after: MemoryRow) -> str | None:
    return "trigger" if after.status is Status.DELIVERING and after.event_type == "bad" else None


def watched(one: VirtualRelay) -> list[tuple[int, int]]:
    """Of each round trip: most events of one claim, and how many claims."""
    trips: list[tuple[int, int]] = []
    claim = one.storage.claim

    async def note(limit: int, *arguments: Any, times: int = 1, **more: Any) -> Claim:
        trips.append((limit, times))
        return await claim(limit, *arguments, times=times, **more)

    one.storage.claim = note  # type: ignore[method-assign]
    return trips


def test_full_claims_widen_the_round_trip_and_others_narrow_it(engine: MakeEngine) -> None:
    one = engine(batch_size=10, max_in_flight=8000)
    trips = watched(one)
    one.insert(325)
    one.until(lambda: one.delivered() == 325)
    assert trips[:6] == [(10, 1), (10, 2), (10, 4), (10, 8), (10, 8), (10, 8)]
    one.run(0.1)
    seen = len(trips)
    one.insert(5)
    one.until(lambda: one.delivered() == 330)
    assert {times for _, times in trips[seen:]} == {1}


def test_a_large_batch_needs_no_other_beside_it(engine: MakeEngine) -> None:
    one = engine(batch_size=1000, max_in_flight=8000)
    trips = watched(one)
    one.insert(6000)
    one.until(lambda: one.delivered() == 6000)
    assert {times for _, times in trips} == {1}


def test_no_more_is_claimed_than_there_is_room_for(engine: MakeEngine) -> None:
    one = engine(batch_size=100, max_in_flight=800)
    trips = watched(one)
    one.broker.hold()
    one.insert(5000)
    one.run(0.1)
    assert trips[:3] == [(100, 1), (100, 2), (100, 3)]
    answered = [event.event_id for event in one.broker.held[:250]]
    one.do(lambda: one.broker.answer(ACKNOWLEDGED, *answered))
    one.run(0.1)
    assert trips[3] == (83, 3)
    assert one.telemetry.most_in_flight == 600


def test_after_an_error_one_claim_goes_alone(engine: MakeEngine) -> None:
    one = engine(batch_size=10, max_in_flight=8000)
    trips = watched(one)
    one.insert(2000)
    one.until(lambda: (10, 8) in trips)
    one.fail("claim", Fault.BUSY)
    seen = len(trips)
    one.until(lambda: one.delivered() == 2000)
    after = trips[seen:]
    failed = after.index((10, 8))
    assert after[failed + 1][1] == 1


def test_a_refused_row_in_a_later_claim_costs_the_others_nothing(engine: MakeEngine) -> None:
    one = engine(batch_size=10, max_in_flight=8000)
    trips = watched(one)
    one.table.trigger = refuse_bad
    one.insert(35)
    [bad] = one.insert(1, "bad")
    one.insert(300)
    one.until(lambda: one.delivered() == 335, 5.0)
    assert one.row(bad).status is Status.PENDING
    assert one.telemetry.counts["claim refused"] == 1
    assert one.relay.health.state is RelayState.ACTIVE
    assert max(times for _, times in trips) == 8


def test_in_order_per_key_claims_go_one_by_one(engine: MakeEngine) -> None:
    one = engine(batch_size=10, max_in_flight=8000, key_order=KeyOrder.SKIP)
    trips = watched(one)
    for number in range(300):
        one.insert(1, partition_key=f"key-{number}")
    one.until(lambda: one.delivered() == 300)
    assert {times for _, times in trips} == {1}


async def test_a_row_that_a_later_claim_is_refused_for_holds_up_no_other(outbox: Outbox, start: StartRelay) -> None:
    outbox.fill("good", 145)
    [bad] = outbox.insert([Row("bad")])
    outbox.fill("good", 355)
    outbox.database.run(_REFUSE)
    running = await start(batch_size=20, max_in_flight=800)
    await eventually(lambda: outbox.counts() == {"DELIVERED": 500, "PENDING": 1})
    assert bad in running.relay.refused_rows.degraded()["refused_rows"]
    assert running.relay.health.state is RelayState.ACTIVE
    outbox.check_invariants()
