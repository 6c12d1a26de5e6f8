"""Verdicts are written together, outlive a lost database, and one refused row costs the others nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from relay.core.errors import StorageBusy, StorageError, StorageTimeout
from relay.core.event import Status
from relay.core.outcome import ACKNOWLEDGED, Outcome, Permanent, Transient
from relay.core.storage import Settled, Settlement
from relay.core.telemetry import RelayState
from tests.support.doubles.faulty_storage import Fault
from tests.support.doubles.memory_storage import MemoryRow
from tests.support.doubles.virtual_relay import VirtualRelay
from tests.support.fixtures.engine import MakeEngine
from tests.support.virtual_time import virtual_sleep


def check(_before: MemoryRow, after: MemoryRow) -> str | None:
    """CHECK (NOT (status = 'DELIVERED' AND event_type = 'bad'))."""
    return 'check constraint "no_bad"' if after.status is Status.DELIVERED and after.event_type == "bad" else None


def settles(one: VirtualRelay) -> int:
    """Statements that wrote DELIVERED, or were refused."""
    return one.telemetry.ops["mark_delivered", True] + one.telemetry.ops["mark_delivered", False]


def test_a_batch_is_written_in_one_statement(engine: MakeEngine) -> None:
    one = engine()
    one.insert(100)
    one.run()
    assert one.counts() == {"DELIVERED": 100}
    assert settles(one) == 1
    assert one.telemetry.counts["delivered"] == 100


def test_every_kind_of_verdict_is_written(engine: MakeEngine) -> None:
    outcomes: dict[str, Outcome] = {"good": ACKNOWLEDGED, "later": Transient("T", ""), "never": Permanent("P", "")}
    one = engine()
    one.broker.answer_with(lambda event: outcomes[event.event_type])
    for event_type in outcomes:
        one.insert(5, event_type)
    one.run()
    assert one.counts() == {"DELIVERED": 5, "PENDING": 5, "DEAD": 5}
    assert one.telemetry.counts["failed"] == 10


@pytest.mark.parametrize(
    ("fault", "seconds"), [(Fault.BUSY, 2.0), (Fault.AWAY, 3.0), (Fault.LOST_REPLY, 3.0), (Fault.SILENT_AND_DONE, 20.0)]
)
def test_verdicts_outlive_a_failed_statement(engine: MakeEngine, fault: Fault, seconds: float) -> None:
    one = engine()
    one.fail("settle", fault, fault)
    one.insert(50)
    one.run(2 * seconds)
    assert one.counts() == {"DELIVERED": 50}
    assert len(one.broker.offered) == 50
    assert one.telemetry.counts["leases_lost"] == 0  # a statement whose reply was lost was carried out, not fenced off
    assert one.telemetry.counts["delivered"] == 50
    assert one.relay.inflight.events == 0


def test_a_lost_connection_does_not_make_settles_smaller(engine: MakeEngine) -> None:
    one = engine(batch_size=100)
    one.fail("settle", Fault.AWAY, Fault.AWAY, Fault.AWAY)
    one.insert(100)
    one.until(lambda: one.counts() == {"DELIVERED": 100}, 30.0)
    assert settles(one) == 3 + 1


def test_a_verdict_that_comes_after_the_lease_was_reaped_changes_nothing(engine: MakeEngine) -> None:
    one = engine()
    one.broker.hold()
    [event_id] = one.insert()
    one.until(lambda: one.broker.held)
    row = one.row(event_id)
    row.status, row.locked_by, row.locked_at, row.attempts = Status.PENDING, None, None, 1
    one.table.rows[event_id].available_at = one.table.now.replace(year=2031)
    one.do(one.broker.answer)
    one.run()
    assert (row.status, row.attempts) == (Status.PENDING, 1)
    assert one.telemetry.counts["leases_lost"] == 1
    assert one.telemetry.counts["delivered"] == 0
    assert one.relay.inflight.events == 0


def test_an_expired_lease_is_left_to_the_reaper_and_not_released(engine: MakeEngine) -> None:
    one = engine(lease_timeout=8.0, shutdown_timeout=60.0)
    one.broker.hold()
    one.insert(3)
    one.until(lambda: len(one.broker.held) == 3)
    one.fail("renew", *[Fault.SILENT] * 2)
    one.fail("settle", *[Fault.SILENT] * 2)
    one.until(lambda: one.broker.abandons, 40)
    one.run(40.0)
    assert one.telemetry.counts["released"] == 0
    assert {row.attempts for row in one.table.rows.values()} == {1}
    assert one.telemetry.counts["reaped"] == 3


def test_one_refused_row_among_a_thousand_delays_no_other(engine: MakeEngine, caplog: pytest.LogCaptureFixture) -> None:
    one = engine(batch_size=1000, max_in_flight=8000)
    one.table.trigger = check
    one.insert(700)
    [bad] = one.insert(1, "bad")
    one.insert(299)
    one.until(lambda: one.delivered() == 999, 0.5)
    assert settles(one) < 30
    assert one.relay.health.state is RelayState.ACTIVE
    one.insert(10)
    one.until(lambda: one.delivered() == 1009, 0.7)
    assert one.row(bad).status is Status.DELIVERING
    [line] = [record for record in caplog.records if record.action == "settle_refused"]  # type: ignore[attr-defined]
    assert bad in line.getMessage()
    assert 'violates check constraint "no_bad"' in line.getMessage()
    assert "Correct the row" in line.getMessage()


def test_many_refused_rows_neither_starve_good_ones_nor_slow_down_later_settles(engine: MakeEngine) -> None:
    one = engine(batch_size=1000, max_in_flight=8000, poll_interval=0.05)
    one.table.trigger = check
    for _ in range(200):
        one.insert(1, "bad")
        one.insert(1)
    one.until(lambda: one.delivered() == 200, 3.0)
    worst = 0.0
    for number in range(1, 20):
        one.insert(10)
        worst = max(worst, one.until(lambda number=number: one.delivered() == 200 + 10 * number, 5.0))  # type: ignore[misc]
        one.run(0.2)
    assert worst < 0.2  # the poll, and one round of what is tried again
    assert one.relay.health.state is RelayState.ACTIVE
    assert one.relay.inflight.events == 200


def test_a_refused_row_is_tried_again_after_pauses_and_written_once_it_may(engine: MakeEngine) -> None:
    one = engine()
    one.table.trigger = check
    [bad] = one.insert(1, "bad")
    one.run(1.0)
    tries = settles(one)
    assert tries == 1
    one.run(5.0)
    assert settles(one) == 3  # after one second, and two more
    one.table.trigger = None
    one.run(5.0)
    assert one.row(bad).status is Status.DELIVERED
    assert len(one.broker.offered) == 1
    assert one.relay.inflight.events == 0


def test_a_row_that_stays_refused_is_left_to_its_lease(engine: MakeEngine, caplog: pytest.LogCaptureFixture) -> None:
    one = engine(lease_timeout=30.0)
    one.table.trigger = check
    [bad] = one.insert(1, "bad")
    one.run(1.0)
    one.until(lambda: one.relay.inflight.events == 0, 30)
    assert one.row(bad).status is Status.DELIVERING
    assert [record.action for record in caplog.records] == ["settle_refused", "settle_given_up"]  # type: ignore[attr-defined]
    while one.row(bad).status is Status.DELIVERING:  # until its lease ends, which is when it is taken back
        assert f"settle event {bad}" in one.relay.refused_rows.degraded()["refused_rows"]
        one.run(1.0)
    assert one.row(bad).attempts == 1


def test_a_row_that_is_no_longer_refused_is_named_no_more(engine: MakeEngine) -> None:
    one = engine(lease_timeout=30.0)
    one.table.trigger = check
    [bad] = one.insert(1, "bad")
    one.run(1.0)
    one.until(lambda: one.relay.inflight.events == 0, 30)
    one.table.trigger = None
    one.until(lambda: one.row(bad).status is Status.DELIVERED, 120)
    one.run(15.0)
    assert one.relay.refused_rows.degraded() == {}


def test_refused_rows_of_many_batches_are_distinguished(engine: MakeEngine) -> None:
    one = engine(batch_size=1)
    one.broker.hold()
    one.table.trigger = check
    for _ in range(20):
        one.insert(9)
        one.insert(1, "bad")
    one.until(lambda: len(one.broker.held) == 200, 30)
    one.do(one.broker.answer)
    one.until(lambda: one.relay.inflight.events == 20, 1.0)
    assert one.delivered() == 180
    assert one.relay.health.state is RelayState.ACTIVE


def test_leases_are_renewed_while_rows_wait_set_aside(engine: MakeEngine) -> None:
    one = engine(batch_size=1000, max_in_flight=8000, lease_timeout=6.0)
    one.table.trigger = check
    one.insert(300, "bad")
    one.broker.answer_with(lambda event: ACKNOWLEDGED if event.event_type == "bad" else None)
    one.insert(1)
    one.run(12.0)
    assert one.telemetry.counts["leases_lost"] == 0
    assert not one.broker.abandons
    assert {row.attempts for row in one.table.rows.values()} == {0}


def test_a_database_that_goes_away_during_the_search_for_refused_rows_loses_no_verdict(engine: MakeEngine) -> None:
    one = engine()
    one.table.trigger = check
    one.insert(49)
    one.insert(2, "bad")
    one.insert(49)
    one.until(lambda: settles(one) == 2, 5)
    one.fail("settle", Fault.LOST_REPLY, Fault.AWAY)
    one.until(lambda: one.delivered() == 98, 5)
    one.table.trigger = None
    one.until(lambda: one.counts() == {"DELIVERED": 100}, 10)
    assert one.telemetry.counts["leases_lost"] == 0
    assert len(one.broker.offered) == 100


def test_a_stop_does_not_wait_for_refused_rows(engine: MakeEngine) -> None:
    one = engine(shutdown_timeout=8.0)
    one.table.trigger = check
    one.insert(10)
    one.insert(1, "bad")
    one.run(0.5)
    one.do(one.relay.stop)
    assert one.until(one.task.done, 8.0) < 1.0
    assert one.counts() == {"DELIVERED": 10, "DELIVERING": 1}


def canceled_at_deadline() -> StorageTimeout:
    error = StorageTimeout("settling: no answer within 15 s")
    error.server_answers = True
    return error


@pytest.mark.parametrize(
    "failure",
    [lambda: StorageBusy("canceling statement due to statement timeout", "57014"), canceled_at_deadline],
    ids=["statement timeout", "deadline"],
)
def test_settles_that_are_rolled_back_become_smaller_until_one_gets_through(
    engine: MakeEngine, caplog: pytest.LogCaptureFixture, failure: Callable[[], StorageError]
) -> None:
    one = engine()
    settle = one.storage.settle
    rows: list[int] = []

    async def settle_few(settlements: Sequence[Settlement]) -> list[Settled]:
        rows.append(sum(map(len, settlements)))
        if rows[-1] > 10:
            await virtual_sleep(0.01)
            raise failure()
        return await settle(settlements)

    one.storage.settle = settle_few  # type: ignore[method-assign]
    one.insert(100)
    one.until(lambda: one.counts() == {"DELIVERED": 100}, 30.0)
    assert max(rows) >= 50
    assert "the database cannot be used" in caplog.text
    assert one.relay.inflight.events == 0
    assert len(one.broker.messages) == 100


def test_settles_that_are_always_rolled_back_are_reported(engine: MakeEngine) -> None:
    one = engine()
    one.run(1.0)
    one.fail("settle", *[Fault.BUSY] * 1000)
    one.insert(20)
    one.run(20.0)
    assert one.relay.health.state is RelayState.ERROR
    assert "lost a race" in one.relay.health.storage_error
    one.storage.faults.clear()
    one.until(lambda: one.counts() == {"DELIVERED": 20}, 10.0)
    assert len(one.broker.messages) == 20
    one.until(lambda: one.relay.health.state is RelayState.ACTIVE, 5.0)


def test_a_row_that_is_always_busy_holds_up_no_other(engine: MakeEngine) -> None:
    one = engine()
    [locked, *others] = one.insert(50)
    settle = one.storage.settle

    async def settle_but_one(settlements: Sequence[Settlement]) -> list[Settled]:
        if any(locked in settlement.event_ids() for settlement in settlements):
            await virtual_sleep(0.05)
            raise StorageBusy("canceling statement due to lock timeout", "55P03")
        return await settle(settlements)

    one.storage.settle = settle_but_one  # type: ignore[method-assign]
    one.until(lambda: one.delivered() == len(others), 10.0)
    one.storage.settle = settle  # type: ignore[method-assign]
    one.until(lambda: one.delivered() == 50, 5.0)


def test_an_event_whose_last_try_blames_the_database_is_counted_once(engine: MakeEngine) -> None:
    """Of those that are refused, with none that goes through, it is the twentieth just then."""
    one = engine(batch_size=50, max_in_flight=400, lease_timeout=600.0)
    one.table.trigger = lambda _, after: "no" if after.status is Status.DELIVERED else None
    one.insert(1)
    one.run(8.0)
    one.insert(19)
    for _ in range(60):
        one.run(1.0)
        assert one.relay.inflight.events == sum(len(batch) for batch in one.relay.inflight.batches)
