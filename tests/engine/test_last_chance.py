"""An event that may have killed relays travels alone, and waits for nothing that may never end."""

from __future__ import annotations

import pytest

from relay.core.event import Status
from relay.core.outcome import ACKNOWLEDGED
from tests.engine.test_locked_rows import answer, holding
from tests.support.doubles.faulty_storage import Fault
from tests.support.doubles.memory_storage import MemoryRow
from tests.support.doubles.virtual_relay import VirtualRelay
from tests.support.fixtures.engine import MakeEngine


def refuse_bad(_before: MemoryRow, after: MemoryRow) -> str | None:
    """CHECK (NOT (status = 'DELIVERED' AND event_type = 'bad'))."""
    return 'check constraint "no_bad"' if after.status is Status.DELIVERED and after.event_type == "bad" else None


def insert_last_chance(one: VirtualRelay, event_type: str = "good") -> None:
    [event_id] = one.insert(event_type=event_type, attempts=one.options.retry.max_attempts - 1)
    one.row(event_id).last_error = "LEASE_EXPIRED: of a relay that is gone"


@pytest.mark.parametrize("wrong", ["locked", "refused"])
def test_a_row_that_cannot_be_settled_does_not_hold_it_up(engine: MakeEngine, wrong: str) -> None:
    one = holding(engine, 1, lease_timeout=6.0)
    [row] = one.table.rows.values()
    if wrong == "locked":
        one.table.locked.add(row.event_id)
    else:
        row.event_type = "bad"
        one.table.trigger = refuse_bad
    answer(one)
    insert_last_chance(one)
    one.insert(3)
    assert one.until(lambda: one.delivered() == 4) < 5.0


def test_nothing_waits_for_it_when_its_own_row_cannot_be_settled(engine: MakeEngine) -> None:
    one = engine(lease_timeout=6.0)
    one.table.trigger = refuse_bad
    insert_last_chance(one, "bad")
    one.insert(3)
    assert one.until(lambda: one.delivered() == 3) < 5.0


def test_events_without_an_answer_do_not_hold_it_up(engine: MakeEngine) -> None:
    one = engine()
    one.broker.answer_with(lambda event: None if event.event_type == "mute" else ACKNOWLEDGED)
    one.insert(1, "mute")
    one.run(0.5)
    insert_last_chance(one)
    one.insert(3)
    assert one.until(lambda: one.delivered() == 4) < 3.0


def test_nothing_waits_for_it_when_it_gets_no_answer(engine: MakeEngine) -> None:
    one = engine()
    one.broker.answer_with(lambda event: None if event.event_type == "mute" else ACKNOWLEDGED)
    for _ in range(3):
        insert_last_chance(one, "mute")
    one.insert(3)
    assert one.until(lambda: one.delivered() == 3) < 5.0
    assert one.counts() == {"DELIVERED": 3, "DELIVERING": 3}


def test_while_it_waits_for_slow_answers_nothing_is_claimed(engine: MakeEngine) -> None:
    """Else what is claimed meanwhile would be in flight beside it."""
    one = engine()
    one.broker.hold()
    one.insert(2)
    one.run(0.3)
    insert_last_chance(one)
    one.insert(3)
    one.run(0.5)
    assert one.counts() == {"DELIVERING": 3, "PENDING": 3}


@pytest.mark.parametrize(
    ("attempts", "error"), [(1, "LEASE_EXPIRED: of a relay that is gone"), (None, "THROTTLED: slow")]
)
def test_an_earlier_attempt_or_another_error_is_no_last_chance(
    engine: MakeEngine, attempts: int | None, error: str
) -> None:
    """It is claimed alone and has no answer: the others are claimed all the same."""
    one = engine()
    one.broker.hold()
    [event_id] = one.insert(attempts=one.options.retry.max_attempts - 1 if attempts is None else attempts)
    one.row(event_id).last_error = error
    one.run(0.3)
    one.insert(3)
    one.run(0.5)
    assert one.counts() == {"DELIVERING": 4}


def test_it_stops_nothing_when_its_lease_is_lost_while_it_waits(engine: MakeEngine) -> None:
    """It waits for outcomes that cannot be written; what is claimed after it is lost is behind it in the queue."""
    one = engine(lease_timeout=6.0)
    one.fail("settle", *[Fault.AWAY] * 15)
    one.insert(2)
    one.run(0.3)
    insert_last_chance(one)
    [scarred] = [row for row in one.table.rows.values() if row.attempts]
    one.until(lambda: scarred.status is Status.DELIVERING)
    # Another relay took the lease back.
    scarred.status, scarred.locked_by, scarred.locked_at = Status.DEAD, None, None
    scarred.attempts += 1
    one.insert(3)
    assert one.until(lambda: one.delivered() == 5, 60.0) < 30.0
