"""The same violation with as little around it as possible."""

from __future__ import annotations

from tests.system.simulation.faults import Fault
from tests.system.simulation.plan import Transaction
from tests.system.simulation.world import Result, play


def shrink(result: Result) -> Result:
    """Leave out faults and transactions, one after the other, for as long as some promise is still broken."""
    best = result
    smaller = True
    while smaller:
        smaller = False
        parts: list[Fault | Transaction] = [*best.plan.faults, *best.plan.transactions]
        for part in parts:
            tried = play(best.plan.without(part), type(best.world))
            if type(tried.violation) is type(result.violation):
                best, smaller = tried, True
                break
    return best
