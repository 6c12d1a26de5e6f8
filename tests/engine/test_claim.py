"""Claims follow one another as long as there is something, room, and a broker; a claim under way is never lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from relay.core.backoff import RetryPolicy
from relay.core.errors import StorageBusy
from relay.core.event import Claim, EventId, Status
from relay.core.outcome import ACKNOWLEDGED
from relay.core.telemetry import RelayState
from relay.outbox.outbox_options import KeyOrder
from tests.support.doubles.faulty_storage import Fault
from tests.support.doubles.memory_publisher import MemoryPublisher
from tests.support.doubles.memory_storage import MemoryRow
from tests.support.fixtures.engine import MakeEngine
from tests.support.virtual_time import virtual_sleep


class Bell:
    """Wake-ups rung by the test."""

    def __init__(self) -> None:
        self.ring: Callable[[], None] = lambda: None
        self.problem = ""

    async def listen(self, wake: Callable[[], None]) -> None:
        self.ring = wake
        await asyncio.Event().wait()


def refuse_claims(_before: MemoryRow, after: MemoryRow) -> str | None:
    return "trigger" if after.status is Status.DELIVERING and after.event_type == "bad" else None


def test_a_backlog_is_claimed_without_pauses(engine: MakeEngine) -> None:
    one = engine(poll_interval=5.0)
    one.run(0.1)
    one.insert(2000)
    one.until(lambda: len(one.broker.offered) >= 100, 6.0)
    assert one.until(lambda: one.counts() == {"DELIVERED": 2000}, 5.0) < 0.5
    assert len(one.broker.offered) == 2000


def test_empty_claims_become_rarer_up_to_the_poll_interval(engine: MakeEngine) -> None:
    one = engine(poll_interval=0.5)
    one.run(10.0)
    before = one.telemetry.ops["claim", True]
    one.run(10.0)
    assert 20 <= one.telemetry.ops["claim", True] - before <= 23


def test_a_wake_up_ends_the_wait_even_one_that_comes_during_a_claim(engine: MakeEngine) -> None:
    bell = Bell()
    one = engine(wake_ups=bell, poll_interval=300.0)
    one.run(550.0)  # about 50 s into a wait of 270 s or more
    one.insert()
    one.run(100.0)
    assert one.delivered() == 0
    one.do(bell.ring)
    one.run(0.001)  # the claim is under way
    one.insert()
    one.do(bell.ring)
    one.run(0.1)
    assert one.delivered() == 2


def test_nothing_is_claimed_while_the_broker_is_away(engine: MakeEngine) -> None:
    one = engine()
    one.broker.down("connection refused")
    one.insert(10)
    one.run(20.0)
    assert one.telemetry.ops["claim", True] == 0
    assert one.relay.health.state is RelayState.PAUSED
    one.do(one.broker.up)
    one.run(6.0)
    assert one.counts() == {"DELIVERED": 10}


def test_in_flight_is_bounded_in_events(engine: MakeEngine) -> None:
    one = engine(batch_size=20, max_in_flight=50)
    one.broker.hold()
    one.insert(200)
    one.run()
    assert len(one.broker.held) == 38  # a quarter of the places is for other destinations
    while one.broker.held:
        one.do(lambda: one.broker.answer(ACKNOWLEDGED, one.broker.held[0].event_id))
        one.run(0.02)
        assert one.relay.inflight.events <= 38
    one.run()
    assert one.telemetry.most_in_flight == 38


def test_in_flight_is_bounded_in_bytes_and_a_larger_row_goes_alone(engine: MakeEngine) -> None:
    one = engine(batch_bytes=1000)
    one.broker.hold()
    one.insert(10, payload=b"x" * 300)
    one.insert(1, payload=b"y" * 5000)
    most = 0
    for _ in range(20):
        one.run(1.0)
        most = max(most, len(one.broker.held))
        one.do(one.broker.answer)
    one.run(1.0)
    assert one.counts() == {"DELIVERED": 11}
    assert most <= 4


def test_an_event_without_an_answer_holds_its_own_bytes_only(engine: MakeEngine) -> None:
    one = engine(batch_bytes=1000)
    one.broker.answer_with(lambda event: None if event.event_type == "mute" else ACKNOWLEDGED)
    one.insert(1, "mute", payload=b"x" * 10)
    one.insert(3, payload=b"x" * 300)
    one.run(1.0)
    one.insert(20, payload=b"x" * 300)
    one.until(lambda: one.delivered() == 23, 5.0)


def test_an_event_on_its_last_attempt_travels_alone(engine: MakeEngine) -> None:
    one = engine()
    one.broker.hold()
    one.insert(3, "before")
    one.until(lambda: len(one.broker.held) == 3)
    [suspect] = one.insert(1, "suspect", attempts=2)
    one.row(suspect).last_error = "LEASE_EXPIRED: of a relay that is gone"
    one.until(lambda: one.row(suspect).status is Status.DELIVERING)
    one.insert(3, "after")
    one.run(0.3)
    assert {event.event_type for event in one.broker.held} == {"before"}
    one.do(one.broker.answer)
    one.run(0.5)
    assert [event.event_type for event in one.broker.held] == ["suspect"]
    one.do(one.broker.answer)
    one.run(0.5)
    assert [event.event_type for event in one.broker.held] == ["after"] * 3


def test_what_was_claimed_while_the_gate_closed_is_released_unoffered(engine: MakeEngine) -> None:
    one = engine(batch_size=1)
    one.broker.answer_with(lambda _: None)
    one.run()
    one.insert(30)
    one.until(lambda: one.relay.inflight.events > 3)
    one.broker.down("reset")
    one.broker.answer_with(lambda _: None)
    one.run(11.0)
    assert one.counts() == {"PENDING": 30}
    assert {row.attempts for row in one.table.rows.values()} == {0}


def test_a_claim_that_comes_back_after_the_gate_closed_is_released_unoffered(engine: MakeEngine) -> None:
    one = engine(health_check_interval=1.0, probe_timeout=0.5)
    claim = one.storage.claim

    async def claim_late(*arguments: Any, **named: Any) -> Claim:
        claimed = await claim(*arguments, **named)
        if claimed.events:
            await virtual_sleep(5.0)
        return claimed

    one.storage.claim = claim_late  # type: ignore[method-assign]
    one.run()
    one.insert(3)
    one.until(lambda: one.counts() == {"DELIVERING": 3})
    one.broker.down("reset")
    one.run(10.0)
    assert one.broker.offered == []
    assert one.counts() == {"PENDING": 3}
    assert {row.attempts for row in one.table.rows.values()} == {0}


@pytest.mark.parametrize("fault", [Fault.BUSY, Fault.AWAY])
def test_a_failed_claim_is_repeated(engine: MakeEngine, fault: Fault) -> None:
    one = engine()
    one.fail("claim", fault, fault)
    one.insert(10)
    one.run(5.0)
    assert one.counts() == {"DELIVERED": 10}
    states = [state for state, _ in one.telemetry.states]
    first_active = states.index(RelayState.ACTIVE) if RelayState.ACTIVE in states else len(states)
    assert (RelayState.ERROR in states[first_active:]) is (fault is Fault.AWAY)


def test_a_row_that_refuses_to_be_claimed_holds_up_no_other(
    engine: MakeEngine, caplog: pytest.LogCaptureFixture
) -> None:
    one = engine()
    one.insert(70)
    [bad, _] = one.insert(2, "bad")
    one.insert(10)
    one.table.trigger = refuse_claims
    one.until(lambda: one.delivered() == 80, 2.0)
    assert one.relay.health.state is RelayState.ACTIVE
    [line, *_] = [record for record in caplog.records if getattr(record, "action", "") == "claim_refused"]
    assert (line.levelno, bad in line.getMessage()) == (logging.ERROR, True)
    claims = one.telemetry.ops["claim", False]
    one.run(600.0)
    assert one.telemetry.ops["claim", False] - claims < 150  # ever longer pauses
    one.table.trigger = None
    one.until(lambda: one.delivered("bad") == 2, 301.0)


def test_a_table_that_refuses_every_claim_is_not_called_well(engine: MakeEngine) -> None:
    one = engine()
    one.insert(2000, "bad")
    one.table.trigger = refuse_claims
    one.until(lambda: one.relay.health.state is RelayState.ERROR, 5.0)
    one.run(3.0)
    assert one.relay.health.state is RelayState.ERROR  # pings do not call it well
    one.table.trigger = None
    one.until(lambda: one.delivered("bad") == 2000, 60.0)
    one.until(lambda: one.relay.health.state is RelayState.ACTIVE)


def test_in_order_what_follows_a_row_that_refuses_to_be_claimed_waits_and_other_keys_do_not(engine: MakeEngine) -> None:
    one = engine(key_order=KeyOrder.SKIP)
    one.insert(1, "bad", partition_key="a")
    one.insert(5, "behind", partition_key="a")
    one.insert(5, partition_key="b")
    one.table.trigger = refuse_claims
    one.until(lambda: one.delivered() == 5, 2.0)
    one.run(60.0)
    assert one.delivered("behind") == 0
    one.table.trigger = None
    one.until(lambda: one.delivered("behind") == 5, 301.0)
    assert [event.event_type for event in one.broker.offered if event.partition_key == "a"] == ["bad"] + ["behind"] * 5


def test_events_whose_payload_could_not_be_read_are_released_and_cost_no_attempt(engine: MakeEngine) -> None:
    one = engine()
    claim = one.storage.claim
    left = [3, 10]  # how many payloads each claim fails to read

    async def partial(*arguments: object, **named: object) -> Claim:
        fence, events, *_ = await claim(*arguments)  # type: ignore[arg-type]
        count = len(events) - left.pop() if events and left else len(events)
        return Claim(fence, events[:count], [event.event_id for event in events[count:]])

    one.storage.claim = partial  # type: ignore[method-assign]
    one.insert(10)
    one.until(lambda: one.delivered() == 10 and not one.relay.inflight.events, 5.0)
    assert {row.attempts for row in one.table.rows.values()} == {0}
    assert one.telemetry.counts["released"] == 13
    assert len(one.broker.offered) == 10


def test_in_order_the_next_of_a_key_follows_its_acknowledgement(engine: MakeEngine) -> None:
    one = engine(key_order=KeyOrder.SKIP)
    one.broker.hold()
    for number in range(4):
        for key in "ab":
            one.insert(partition_key=key, payload=str(number).encode())
    one.run()
    for number in range(4):
        assert [(event.partition_key, event.payload) for event in one.broker.held] == [
            ("a", b"%d" % number),
            ("b", b"%d" % number),
        ]
        one.do(one.broker.answer)
        one.run()
    assert one.counts() == {"DELIVERED": 8}


def test_in_order_followers_stay_unoffered_while_the_gate_is_closed(engine: MakeEngine) -> None:
    one = engine(key_order=KeyOrder.SKIP)
    one.broker.hold()
    one.insert(4, partition_key="a")
    one.run()
    one.broker.down("reset")

    def last_answer_then_reset() -> None:
        one.broker.answer()
        one.relay.decider.unreachable_reason = "reset"
        one.relay.inflight.attention.set()

    one.do(last_answer_then_reset)
    one.run(3.0)
    assert one.counts() == {"DELIVERED": 1, "PENDING": 3}
    assert {row.attempts for row in one.table.rows.values()} == {0}


def test_an_event_on_its_last_attempt_for_another_reason_holds_up_no_other(engine: MakeEngine) -> None:
    one = engine(retry=RetryPolicy(max_attempts=3, base_delay=60.0, max_delay=600.0, jitter=0.0))
    one.broker.answer_with(lambda event: None if event.event_type == "slow" else ACKNOWLEDGED)
    one.insert(1, "slow", attempts=2)
    one.run(1.0)
    worst = 0.0
    for _ in range(50):
        one.insert(1)
        before = one.delivered()
        worst = max(worst, one.until(lambda: one.delivered() > before, 10.0))  # noqa: B023 - called at once
    assert worst < 0.6


def test_claims_that_are_rolled_back_become_smaller_until_one_gets_through(engine: MakeEngine) -> None:
    one = engine(batch_size=100)
    claim = one.storage.claim
    limits: list[int] = []

    async def claim_few(
        limit: int, max_bytes: int, excluded: Sequence[EventId] = (), without: Sequence[str] = (), **_: object
    ) -> Claim:
        limits.append(limit)
        if limit > 10:
            await virtual_sleep(0.01)
            raise StorageBusy("canceling statement due to statement timeout", "57014")
        return await claim(limit, max_bytes, excluded, without)

    one.storage.claim = claim_few  # type: ignore[method-assign]
    one.insert(200)
    one.until(lambda: one.counts() == {"DELIVERED": 200}, 30.0)
    assert limits[:5] == [100, 50, 25, 12, 6]
    one.storage.claim = claim  # type: ignore[method-assign]
    one.insert(300)
    one.until(lambda: one.counts() == {"DELIVERED": 500}, 3.0)


def test_a_lost_connection_does_not_make_claims_smaller(engine: MakeEngine) -> None:
    one = engine(batch_size=100)
    claim = one.storage.claim
    limits: list[int] = []

    async def record(
        limit: int, max_bytes: int, excluded: Sequence[EventId] = (), without: Sequence[str] = (), **control: bool
    ) -> Claim:
        limits.append(limit)
        return await claim(limit, max_bytes, excluded, without, **control)

    one.storage.claim = record  # type: ignore[method-assign]
    one.fail("claim", *[Fault.AWAY] * 5)
    one.insert(200)
    one.until(lambda: one.counts() == {"DELIVERED": 200}, 30.0)
    assert set(limits) == {100}


def test_claims_that_are_always_rolled_back_are_reported(engine: MakeEngine) -> None:
    one = engine()
    one.run(1.0)
    one.fail("claim", *[Fault.BUSY] * 1000)
    one.run(20.0)
    assert one.relay.health.state is RelayState.ERROR
    assert "lost a race" in one.relay.health.storage_error
    one.storage.faults.clear()
    one.until(lambda: one.relay.health.state is RelayState.ACTIVE, 5.0)


@pytest.mark.parametrize("field", ["payload", "headers", "partition_key"])
def test_whatever_is_large_counts_against_the_bound_in_bytes(engine: MakeEngine, field: str) -> None:
    one = engine(batch_bytes=1_000_000)
    one.broker.hold()
    large: Any = b"x" * 300_000 if field == "payload" else "x" * 300_000
    one.insert(10, **{field: large})
    most = 0
    for _ in range(10):
        one.run(1.0)
        most = max(most, len(one.broker.held))
        one.do(one.broker.answer)
    assert most <= 4
    assert one.counts() == {"DELIVERED": 10}


def test_a_relay_that_slept_offers_nothing_whose_lease_ran_out(engine: MakeEngine) -> None:
    one = engine(MemoryPublisher(capacity=5), lease_timeout=30.0, max_in_flight=20, batch_size=5)
    one.broker.hold()
    events = one.insert(15)
    one.until(lambda: one.relay.inflight.events == 15)
    one.suspend(31.0)
    for _ in range(2):  # the second time makes room for the third batch
        one.do(one.broker.answer)
        one.run(0.1)
    # The second batch was being handed over; the third waited for its turn.
    assert [event.event_id for event in one.broker.offered] == events[:10]


@pytest.mark.parametrize("slow", [["slow"], [f"slow-{number}" for number in range(20)]], ids=["one", "twenty"])
def test_destinations_that_do_not_answer_leave_places_to_the_others(engine: MakeEngine, slow: list[str]) -> None:
    one = engine(batch_size=10, max_in_flight=80)
    one.broker.answer_with(lambda event: None if event.event_type in slow else ACKNOWLEDGED)
    for number in range(1000):
        one.insert(1, slow[number % len(slow)])
    one.run(5.0)
    assert len(one.broker.held) == (60 if len(slow) == 1 else 70), "half of the last quarter stays free"
    worst = 0.0
    for number in range(50):
        one.insert(3)
        worst = max(worst, one.until(lambda: one.delivered() == 3 * number + 3, 10.0))  # noqa: B023 - called at once
    assert worst < 0.6
