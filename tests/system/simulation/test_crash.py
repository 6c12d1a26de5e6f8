"""Crashes of the database lose claims, and histories show it."""

from __future__ import annotations

from tests.system.simulation.database_faults import DatabaseCrash
from tests.system.simulation.draw import draw
from tests.system.simulation.world import play

_LOST = "the crash undoes the claim of"


def test_histories_lose_claims() -> None:
    plans = (plan for plan in map(draw, range(200)) if any(isinstance(fault, DatabaseCrash) for fault in plan.faults))
    results = map(play, plans)
    assert any(_LOST in line for result in results for _, line in result.world.ledger.lines)
