"""Rows that another session has locked: their outcomes wait, nothing else does (docs/design/guarantees.md#failures)."""

from __future__ import annotations

import logging
import time

import pytest

from relay.core.outcome import ACKNOWLEDGED
from relay.core.telemetry import RelayState
from tests.engine.conftest import StartRelay
from tests.support.doubles.memory_publisher import MemoryPublisher
from tests.support.doubles.virtual_relay import VirtualRelay
from tests.support.fixtures.engine import MakeEngine
from tests.support.fixtures.measured import Measured
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.waiting import eventually


def lock(one: VirtualRelay, *places: int) -> list[str]:
    """Let another session lock the events at these places, in the order of insertion."""
    ids = list(one.table.rows)
    one.table.locked = {ids[place] for place in places}
    return [ids[place] for place in places]


def holding(engine: MakeEngine, count: int, **options: object) -> VirtualRelay:
    """A relay whose broker has not answered for that many events."""
    one = engine(**options)
    one.broker.hold()
    one.insert(count)
    one.until(lambda: len(one.broker.held) == count)
    return one


def answer(one: VirtualRelay) -> None:
    """Acknowledge what is held, and everything later."""
    one.broker.answer_with(lambda _: ACKNOWLEDGED)
    one.do(one.broker.up)


def test_the_others_are_settled_at_once(engine: MakeEngine) -> None:
    one = holding(engine, 100)
    lock(one, 3, 50)
    answer(one)
    assert one.until(lambda: one.delivered() == 98) < 0.1
    assert one.relay.health.state is RelayState.ACTIVE
    one.table.locked.clear()
    assert one.until(lambda: one.delivered() == 100) < 0.3
    assert one.telemetry.counts["leases_lost"] == 0
    assert one.telemetry.counts["delivered"] == 100
    assert one.relay.inflight.events == 0


def test_a_long_lock_costs_few_statements_and_ends_within_a_second(
    engine: MakeEngine, caplog: pytest.LogCaptureFixture
) -> None:
    one = holding(engine, 100, lease_timeout=6.0)
    [locked, _] = lock(one, 3, 50)
    answer(one)
    one.run(60.0)
    assert one.telemetry.ops["mark_delivered", True] < 80
    [line, *_] = [record for record in caplog.records if getattr(record, "action", "") == "settle_locked"]
    assert (line.levelno, "2 events in all" in line.getMessage()) == (logging.ERROR, True)
    one.table.locked.clear()
    assert one.until(lambda: one.delivered() == 100) < 1.1
    assert one.telemetry.counts["reaped"] == 0  # its lease ran out long ago, and yet the outcome comes first
    assert one.row(locked).attempts == 0  # type: ignore[arg-type]


def test_renewals_wait_for_no_locked_row(engine: MakeEngine) -> None:
    one = holding(engine, 100, lease_timeout=6.0)
    [locked] = lock(one, 3)
    one.run(30.0)
    oldest = min(row.locked_at for row in one.table.rows.values() if row.event_id != locked and row.locked_at)
    assert (one.table.now - oldest).total_seconds() < 3.0
    one.table.locked.clear()
    answer(one)
    one.run(2.0)
    assert one.counts() == {"DELIVERED": 100}
    assert len(one.broker.offered) == 100


def test_locked_rows_take_no_place_in_flight(engine: MakeEngine) -> None:
    one = holding(engine, 20, batch_size=10, max_in_flight=26)  # a quarter of the places is for other destinations
    lock(one, *range(20))
    answer(one)
    one.insert(100, "later")
    one.until(lambda: one.delivered("later") == 100, 5.0)
    one.table.locked.clear()
    one.until(lambda: one.delivered() == 20, 2.0)
    assert len(one.broker.offered) == 120


async def test_a_row_that_a_session_locks_costs_the_others_nothing(
    outbox: Outbox, start: StartRelay, measured: Measured
) -> None:
    [bad, *good] = outbox.insert([Row("t")] * 40)
    broker = MemoryPublisher()
    broker.hold()
    running = await start(broker, lease_timeout=2.0)
    await eventually(lambda: len(broker.held) == 40)
    with outbox.database.connect(autocommit=False) as other:
        other.execute("SELECT FROM openoutbox_events WHERE event_id = %s FOR UPDATE", [bad])
        await start(MemoryPublisher(), "other", lease_timeout=2.0)  # it would reap what is not renewed or settled
        since = time.monotonic()
        await eventually(lambda: time.monotonic() - since > 3.0, 30)  # past the lease of the claim
        began = time.monotonic()
        broker.answer_with(lambda _: ACKNOWLEDGED)
        broker.up()
        await eventually(lambda: outbox.counts().get("DELIVERED") == 39)
        settled = time.monotonic() - began
        outbox.insert([Row("t")] * 20)
        await eventually(lambda: outbox.counts() == {"DELIVERED": 59, "DELIVERING": 1})
        assert running.relay.health.state is RelayState.ACTIVE
    began = time.monotonic()
    # Whichever comes first after the unlock: the verdict, or the other relay's reaper, since the lease has run out.
    await eventually(lambda: outbox.counts() in ({"DELIVERED": 60}, {"DELIVERED": 59, "PENDING": 1}))
    measured(others_settled_after=f"{settled:.2f} s", settled_after_the_unlock=f"{time.monotonic() - began:.2f} s")
    assert {outbox.row(one)["attempts"] for one in good} == {0}
    assert len(broker.offered) <= 60
    outbox.check_invariants()
