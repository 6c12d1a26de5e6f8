"""Histories have destinations that are away while others answer; a relay that wrongs their events is found."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice

import pytest

from relay.engine import away as engine_away
from relay.engine.away import NONE_HELD
from tests.system.simulation.draw import draw
from tests.system.simulation.faults import FOR_GOOD
from tests.system.simulation.mutate import mutate
from tests.system.simulation.plan import Plan
from tests.system.simulation.world import play


def plans_with_one_away() -> Iterator[Plan]:
    return (plan for plan in map(draw, count()) if plan.away)


def violations(plans: int) -> Iterator[str]:
    """Play until the caller has seen enough: a wrong relay may take long for a history."""
    for plan in islice(plans_with_one_away(), plans):
        if (violation := play(plan).violation) is not None:
            yield str(violation)


def test_histories_have_destinations_that_come_back_and_that_do_not_in_order_and_without() -> None:
    plans = list(islice(plans_with_one_away(), 60))
    assert {fault.until == FOR_GOOD for plan in plans for fault in plan.away} == {False, True}
    assert {plan.key_order is None for plan in plans} == {False, True}
    assert {plan.keeps_runs for plan in plans} == {False, True}


def test_a_relay_that_claims_what_is_away_without_a_pause_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_away.AwayDestinations, "held", lambda _: NONE_HELD)
    assert any("its destination is away" in one for one in violations(12))


def test_an_attempt_that_a_destination_which_is_away_uses_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    others = "case Unreachable() | ConnectionCut() | Withheld()"
    retried = f"case Away(reason):\n            return Retry(1.0, reason)\n        {others}:"
    mutate(monkeypatch, "relay.core.verdict", f"{others} | Away():", retried)
    assert any("that no failure of its own explains" in one for one in violations(12))
