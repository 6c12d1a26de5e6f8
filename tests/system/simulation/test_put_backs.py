"""The histories find each fault of the past when it is put back, and nothing when it is not."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from relay.core.event import EventId
from tests.system.simulation.broker import Answer, Broker
from tests.system.simulation.draw import draw
from tests.system.simulation.faults import Answered
from tests.system.simulation.plan import NewEvent, Plan, Transaction
from tests.system.simulation.putbacks import MOST_HISTORIES, PUT_BACKS, PutBack, find
from tests.system.simulation.world import play


@pytest.mark.histories
@pytest.mark.parametrize("put_back", PUT_BACKS, ids=lambda one: one.name)
def test_a_fault_of_the_past_is_found(put_back: PutBack, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        put_back.apply(patch)
        discovery = find(put_back)
    assert discovery is not None, f"not within {MOST_HISTORIES} histories"
    seed, result = discovery
    print(f"seed {seed}: {result.violation}")
    assert play(draw(seed)).violation is None


def a_run_with_a_refusal() -> Plan:
    """Five events of one key at once, the second of which is refused for a second."""
    plan = next(plan for plan in map(draw, count()) if plan.keeps_runs and plan.mode == "safety")
    events = tuple(NewEvent(EventId(f"e{number}"), "x", "k", 100) for number in range(5))
    refused = Answered(0.0, 2.0, (events[1].event_id,), Answer.REFUSE)
    return replace(plan, transactions=(Transaction(1.0, 0.0, False, events),), faults=(refused,))


def test_an_event_of_a_run_that_overtakes_one_that_failed_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = a_run_with_a_refusal()
    assert play(plan).violation is None
    monkeypatch.setattr(Broker, "stores_behind_failures", True)
    assert "first reached the broker behind a later event of its key" in str(play(plan).violation)
