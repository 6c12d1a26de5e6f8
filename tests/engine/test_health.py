"""What the relay says of itself: database and broker, pings, readiness, the backlog."""

from __future__ import annotations

import asyncio
import logging

import pytest

from relay.core.errors import (
    RowRefused,
    SchemaError,
    StorageBusy,
    StorageError,
    StorageRefuses,
    StorageTimeout,
    StorageUnavailable,
)
from relay.core.status import Exposition
from relay.core.storage import READING_SHARE, Backlog
from relay.core.telemetry import RelayState
from relay.engine.health import RelayHealth
from relay.engine.status import RelayStatus
from tests.support.clock import Clock
from tests.support.doubles.faulty_storage import Fault
from tests.support.doubles.telemetry import MemoryTelemetry
from tests.support.doubles.virtual_relay import VirtualRelay
from tests.support.fixtures.engine import MakeEngine
from tests.support.virtual_time import virtual_sleep


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def health(clock: Clock) -> RelayHealth:
    health = RelayHealth(MemoryTelemetry(), clock)
    health.storage_worked("open")
    health.broker_worked()
    return health


def status(one: VirtualRelay) -> RelayStatus:
    return RelayStatus(one.relay, "relay", lambda accept: Exposition(accept.encode(), "text/plain"))


def test_storage_outweighs_broker(health: RelayHealth) -> None:
    states = [health.state]
    health.broker_failed("gone")
    states.append(health.state)
    health.storage_failed("claim", StorageUnavailable("away"))
    states.append(health.state)
    health.storage_worked("claim")
    health.broker_worked()
    states.append(health.state)
    assert states == [RelayState.ACTIVE, RelayState.PAUSED, RelayState.ERROR, RelayState.ACTIVE]


def test_each_change_is_reported_once(clock: Clock) -> None:
    telemetry = MemoryTelemetry()
    health = RelayHealth(telemetry, clock)
    health.storage_worked("open")
    for _ in range(3):
        health.broker_worked()
    assert telemetry.states == [
        (RelayState.ERROR, "not connected yet"),
        (RelayState.PAUSED, "not probed yet"),
        (RelayState.ACTIVE, ""),
    ]


def test_a_failure_is_logged_once_and_again_after_ten_seconds(
    health: RelayHealth, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for second in range(21):
        clock.now = float(second)
        health.storage_failed("ping", StorageUnavailable("away"))
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * 3


@pytest.mark.parametrize(
    "error", [StorageRefuses("disk full", "53100"), RowRefused("no", "23514"), SchemaError("no", "42501")]
)
def test_a_ping_does_not_call_a_database_well_that_refuses_claims(
    health: RelayHealth, clock: Clock, error: StorageError
) -> None:
    health.storage_failed("claim", error)
    health.storage_worked("ping")
    assert health.storage_error
    clock.now = 60.1
    health.storage_worked("ping")
    assert not health.storage_error
    health.storage_failed("claim", error)
    health.storage_worked("claim")
    assert not health.storage_error


@pytest.mark.parametrize(
    ("error", "refuses"), [(SchemaError("no table", "42P01"), True), (StorageUnavailable(""), False)]
)
def test_a_database_that_answers_is_not_called_unreachable(
    health: RelayHealth, error: StorageError, refuses: bool
) -> None:
    health.storage_failed("open", error)
    assert health.storage_refuses is refuses


@pytest.mark.parametrize("op", ["claim", "settle", "renew"])
def test_what_is_rolled_back_three_times_in_a_row_is_an_error_until_it_works(
    health: RelayHealth, caplog: pytest.LogCaptureFixture, op: str
) -> None:
    error = StorageBusy(f"{op}: canceling statement due to statement timeout (SQLSTATE 57014)", "57014")
    for _ in range(2):
        health.storage_failed(op, error)
    assert not health.storage_error
    health.storage_worked(op)
    for _ in range(3):
        assert not health.storage_error
        health.storage_failed(op, error)
        health.storage_worked("ping")
    assert health.state is RelayState.ERROR
    assert health.storage_error == f"3 statements in a row failed: {error}"
    assert [record.message for record in caplog.records if record.levelno == logging.ERROR] == [
        f"the database cannot be used: {health.storage_error}"
    ]
    assert health.may_reap  # it answers, so nothing is owed
    health.storage_worked(op)
    assert not health.storage_error


@pytest.mark.parametrize("error", [StorageTimeout("no answer within 15 s"), StorageUnavailable("connection lost")])
def test_what_fails_three_times_in_a_row_beside_pings_that_work_is_an_error_until_it_works(
    health: RelayHealth, error: StorageError
) -> None:
    states = []
    for _ in range(3):
        health.storage_failed("claim", error)
        answers = [health.storage_answers]
        health.storage_worked("ping")
        states.append(health.state)
    answers.append(health.storage_answers)
    health.storage_worked("claim")
    assert [*states, health.state] == [RelayState.ACTIVE, RelayState.ACTIVE, RelayState.ERROR, RelayState.ACTIVE]
    assert answers == [False, True]


def test_an_outage_is_over_with_the_first_answer(health: RelayHealth) -> None:
    for _ in range(5):
        health.storage_failed("claim", StorageUnavailable("connection refused"))
        health.storage_failed("ping", StorageUnavailable("connection refused"))
    health.storage_worked("ping")
    assert not health.storage_error


def test_claims_that_time_out_are_an_error_until_one_works(engine: MakeEngine) -> None:
    one = engine()
    one.run(1.0)
    one.fail("claim", *[Fault.SILENT] * 100)
    one.insert(3)
    one.run(60.0)
    states = set()
    for _ in range(60):
        one.run(0.5)
        states.add(one.relay.health.state)
    assert states == {RelayState.ERROR}
    one.storage.faults.clear()
    one.until(lambda: one.delivered() == 3)
    one.until(lambda: one.relay.health.state is RelayState.ACTIVE, 1.0)


def test_reaping_waits_until_outcomes_are_written_and_leases_renewed(health: RelayHealth) -> None:
    may = [health.may_reap]
    health.storage_failed("ping", StorageUnavailable("away"))
    health.storage_worked("ping")
    may.append(health.may_reap)
    health.settle_owed = False
    may.append(health.may_reap)
    health.renewal_owed = False
    may.append(health.may_reap)
    assert may == [True, False, False, True]


def test_the_database_is_pinged_at_the_interval_and_often_while_it_is_away(engine: MakeEngine) -> None:
    one = engine(health_check_interval=5.0, sample_interval=1000.0, poll_interval=1000.0)
    one.run(1.0)
    one.fail("ping", *[Fault.AWAY] * 5)
    one.run(10.0)
    assert one.storage.failed["ping"] == 5
    assert one.relay.health.state is RelayState.ACTIVE
    assert RelayState.ERROR in [state for state, _ in one.telemetry.states[-3:]]


def test_readiness_says_what_is_away_and_why(engine: MakeEngine) -> None:
    one = engine()
    view = status(one)
    assert not view.readiness().ready
    one.run(1.0)
    assert view.readiness().ready
    one.broker.down("connection refused")
    one.fail("ping", *[Fault.AWAY] * 100)
    one.fail("stats", *[Fault.AWAY] * 100)
    one.fail("claim", *[Fault.AWAY] * 100)
    one.run(10.0)
    readiness = view.readiness()
    assert (readiness.storage_problem, readiness.broker_problem) == ("going down", "connection refused")


def test_a_dead_loop_is_unhealthy(engine: MakeEngine) -> None:
    one = engine()
    one.run(1.0)
    assert not status(one).health().problem
    one.relay._loops["settle"].cancel()
    one.do(lambda: None)
    assert status(one).health().problem == "the settle loop has ended"
    one.loop.run_until_complete(asyncio.wait({one.task}))
    assert "settle loop ended" in str(one.task.exception())
    one.task = one.loop.create_task(asyncio.sleep(0))


def test_stats_show_the_backlog_and_what_is_in_flight(engine: MakeEngine) -> None:
    one = engine()
    one.broker.hold()
    one.insert(5)
    one.insert(3, due_in=1000.0)
    view = status(one)
    assert one.loop.run_until_complete(view.stats()) is None
    one.run(2.0)
    stats = one.loop.run_until_complete(view.stats())
    assert stats is not None
    assert (stats.backlog.pending_new, stats.in_flight, stats.state) == (3, 5, RelayState.ACTIVE)
    assert stats.sample_age < 0.01  # read again, where that is cheap
    assert view.metrics("text").body == b"text"


def test_a_backlog_that_is_slow_to_read_is_read_rarely_and_not_on_demand(engine: MakeEngine) -> None:
    one = engine(sample_interval=2.5)
    backlog = one.storage.backlog
    reads: list[float] = []

    async def slow() -> object:
        reads.append(one.loop.time())
        await virtual_sleep(1.0)
        return await backlog()

    one.storage.backlog = slow  # type: ignore[method-assign, assignment]
    one.run(60.0)
    assert 2 <= len(reads) <= 3
    count = len(reads)
    stats = one.loop.run_until_complete(status(one).stats())
    assert stats is not None
    assert stats.sample_age > 0.1
    assert len(reads) == count


@pytest.mark.parametrize(("fault", "error"), [(Fault.BUSY, False), (Fault.AWAY, True)])
def test_a_backlog_that_cannot_be_read_is_the_databases_state_unless_it_was_busy(
    engine: MakeEngine, fault: Fault, error: bool
) -> None:
    one = engine(poll_interval=1000.0, health_check_interval=1000.0)
    one.run(1.0)
    one.fail("stats", fault)
    states = len(one.telemetry.states)
    one.run(3.0)
    assert one.telemetry.ops["stats", False] == 1
    # What was reported, for another statement that works may have taken it back by now.
    assert (RelayState.ERROR in [state for state, _ in one.telemetry.states[states:]]) is error


def test_a_count_that_passes_its_deadline_is_tried_again_later_and_the_lag_stays_fresh(engine: MakeEngine) -> None:
    one = engine(sample_interval=2.5)
    one.run(1.0)
    states, tries = len(one.telemetry.states), 0

    async def slow() -> Backlog:
        nonlocal tries
        tries += 1
        await virtual_sleep(15.0)
        error = StorageTimeout("reading the backlog: no answer within 15 s")
        error.server_answers = True
        raise error

    one.storage.backlog = slow  # type: ignore[method-assign]
    lags = one.telemetry.counts["oldest_due_age"]
    one.run(14.0 / READING_SHARE)
    assert tries == 1
    assert one.telemetry.counts["oldest_due_age"] - lags > 200  # each 2.5 s
    one.run(2.0 / READING_SHARE)
    assert tries == 2
    assert one.telemetry.states[states:] == []


def test_the_oldest_delivery_is_read_once_a_minute_and_no_fault_of_it_is_the_relays_state(engine: MakeEngine) -> None:
    one = engine(sample_interval=2.5)
    one.insert(1)
    one.run(150.0)
    ages = one.telemetry.oldest_delivered_ages
    assert ages[0] == 0.0
    assert [round(age / 10) for age in ages[1:]] == [6, 12]
    states = len(one.telemetry.states)
    one.fail("upkeep", Fault.BUSY, Fault.AWAY, Fault.SILENT)
    one.run(200.0 + 15.0 / READING_SHARE)  # 15 s without an answer: ten minutes until the next one
    assert one.storage.failed["upkeep"] == 3
    assert one.telemetry.states[states:] == []
    assert one.telemetry.oldest_delivered_ages[-1] > 200.0 + 15.0 / READING_SHARE


def test_readers_of_the_backlog_share_one_statement(engine: MakeEngine) -> None:
    one = engine(sample_interval=1000.0)
    one.run(1.0)
    backlog = one.storage.backlog
    reads: list[float] = []

    async def counted() -> Backlog:
        reads.append(one.loop.time())
        await virtual_sleep(0.02)
        return await backlog()

    async def read(times: int) -> None:
        await asyncio.gather(*(status(one).stats() for _ in range(times)))

    one.storage.backlog = counted  # type: ignore[method-assign]
    one.loop.run_until_complete(read(300))
    assert len(reads) == 1


def test_a_reader_of_the_backlog_sees_what_was_inserted_before(engine: MakeEngine) -> None:
    one = engine(sample_interval=1000.0)
    one.run(1.0)
    backlog = one.storage.backlog

    async def slow() -> Backlog:
        counts = await backlog()
        await virtual_sleep(0.02)
        return counts

    async def read() -> int:
        early = asyncio.ensure_future(status(one).stats())
        await virtual_sleep(0.01)  # the statement of ``early`` is under way, and has counted
        one.insert(1, due_in=1000.0)
        stats = await status(one).stats()
        await early
        return stats.backlog.pending_new if stats else -1

    one.storage.backlog = slow  # type: ignore[method-assign]
    assert one.loop.run_until_complete(read()) == 1
