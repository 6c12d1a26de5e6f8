"""A standstill is a violation where a relay that could end it, or must explain it, reports that all is well."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from relay.core.event import EventId
from tests.system.simulation.draw import draw
from tests.system.simulation.ledger import Hold, Ledger, Violation
from tests.system.simulation.watch import Watch, patience

ONE = EventId("e1")
PLAN = draw(0)
LATE = patience(PLAN) + 1.0


@pytest.fixture
def ledger() -> Ledger:
    """One event, inserted at the beginning; no row has changed since."""
    account = Ledger(lambda: 0.0, PLAN.retry, lambda: datetime(2030, 1, 1, tzinfo=UTC))
    account.inserted[ONE] = 0.0
    return account


def watch(ledger: Ledger, *looks: tuple[float, dict[str, bool]], waiting: tuple[EventId, ...] = (ONE,)) -> None:
    watching = Watch(PLAN, ledger, 0.0)
    for now, ready in looks:
        watching.look(now, ready, waiting)


def test_a_relay_that_is_ready_all_the_time_does_not_report_it(ledger: Ledger) -> None:
    with pytest.raises(Violation, match="e1 waits, and b is ready"):
        watch(ledger, (0.0, {"a": False, "b": True}), (LATE, {"a": False, "b": True}))


def test_each_relay_reports_it_or_does_not_run(ledger: Ledger) -> None:
    watch(ledger, (0.0, {"a": True, "b": True}), (1.5, {"a": False}), (LATE, {"a": True, "b": True}))


def test_only_the_holder_answers_for_an_event_that_is_held(ledger: Ledger) -> None:
    ledger.holder[ONE] = Hold("a", 0.0)
    watch(ledger, (0.0, {"a": False, "b": True}), (LATE, {"a": False, "b": True}))
    with pytest.raises(Violation, match="a is ready"):
        watch(ledger, (0.0, {"a": True, "b": False}), (LATE, {"a": True, "b": False}))


def test_without_a_waiting_event_or_while_rows_change_there_is_no_standstill(ledger: Ledger) -> None:
    watch(ledger, (0.0, {"a": True}), (LATE, {"a": True}), waiting=())
    ledger.moved_at = 5.0
    watch(ledger, (0.0, {"a": True}), (LATE, {"a": True}))
