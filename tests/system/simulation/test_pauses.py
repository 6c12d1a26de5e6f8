"""Histories pause events, and a relay that claims what is paused is found."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count, islice

import pytest

from relay.core.event import EventId
from relay.core.pause import EVERYTHING, Pause, PauseScope, PauseTarget
from relay.engine import pauses as engine_pauses
from tests.system.simulation.database_faults import Paused
from tests.system.simulation.draw import draw
from tests.system.simulation.faults import FOR_GOOD
from tests.system.simulation.mutate import mutate
from tests.system.simulation.pauses import PauseAccount
from tests.system.simulation.plan import NewEvent, Plan, Transaction
from tests.system.simulation.world import play

NOW = datetime(2030, 1, 1, tzinfo=UTC)
ONE = EventId("e1")
ONLY_X = PauseTarget(PauseScope.TYPE, "x")


def paused_plans() -> Iterator[Plan]:
    return (plan for plan in map(draw, count()) if plan.pauses)


def quiet_plan(*pauses: Paused, at: float = 5.0) -> Plan:
    """One relay without any trouble, with an event of each type ten times a second."""
    plan = next(plan for plan in paused_plans() if len(plan.relays) == 1 and plan.key_order is None)
    transactions = tuple(
        Transaction(at + 0.1 * number, 0.0, False, tuple(event(number, name) for name in ("x", "z")))
        for number in range(50)
    )
    return replace(plan, transactions=transactions, faults=pauses, watched_until=0.0)


def event(number: int, event_type: str) -> NewEvent:
    return NewEvent(EventId(f"{event_type}{number}"), event_type, None, 2)


def account(until: datetime | None = None) -> PauseAccount:
    """Type x is paused since second 3."""
    one = PauseAccount()
    one.set(Pause(ONLY_X, until, "ann", "", NOW), 3.0)
    return one


def objection(one: PauseAccount, event_type: str = "x") -> str:
    one.claim_sent("a#1")
    return one.objection(ONE, event_type, "a#1", NOW, 4.0)


def test_histories_pause_everything_types_and_prefixes_with_and_without_an_end() -> None:
    pauses = [pause for plan in islice(paused_plans(), 60) for pause in plan.pauses]
    assert {pause.target.scope for pause in pauses} == set(PauseScope)
    assert {pause.has_end for pause in pauses} == {pause.until == FOR_GOOD for pause in pauses} == {False, True}


def test_relays_of_histories_claim_before_they_have_read_a_pause() -> None:
    results = map(play, islice(paused_plans(), 60))
    assert any(result.world.ledger.pauses.paused_claims for result in results)


def test_a_relay_that_has_read_a_pause_must_not_claim_what_it_holds() -> None:
    one = account()
    one.arrived("a#1", [Pause(ONLY_X, None, "ann", "", NOW)])
    assert objection(one) == "e1: claimed by a#1, which has read the pause of event type x"
    assert not objection(one, "z")
    one.resume(ONLY_X)
    assert not objection(one)


def test_a_relay_that_has_not_read_the_pauses_must_not_claim_what_they_hold() -> None:
    assert objection(account()) == "e1: claimed by a#1, which has not read the pauses, under that of event type x"
    assert not objection(account(until=NOW))
    assert objection(account(until=NOW + timedelta(seconds=1)))


def test_a_relay_may_claim_what_was_paused_after_it_read_the_pauses() -> None:
    one = account()
    one.arrived("a#1", [])
    assert not objection(one)
    assert [(claim.event_id, claim.since, claim.at) for claim in one.paused_claims] == [(ONE, 3.0, 4.0)]


def test_a_relay_that_reads_the_pauses_too_seldom_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = quiet_plan(Paused(5.5, 20.0, EVERYTHING, has_end=False))
    assert play(plan).violation is None
    monkeypatch.setattr(engine_pauses, "_INTERVAL", 4.0)
    assert "s after its pause" in str(play(plan).violation)


@pytest.mark.parametrize("has_end", [False, True])
def test_events_that_stay_paused_after_the_end_of_their_pause_are_found(
    monkeypatch: pytest.MonkeyPatch, has_end: bool
) -> None:
    plan = quiet_plan(Paused(5.5, 12.0, ONLY_X, has_end=has_end))
    assert play(plan).violation is None
    mutate(
        monkeypatch,
        "relay.outbox.left_out",
        "self.patterns, self.in_part = patterns, in_part",
        "self.patterns, self.in_part = patterns or self.patterns, in_part",
    )
    assert re.match(r"x\d+ \(innocent\), .* is neither DELIVERED nor DEAD", str(play(plan).violation))


def test_what_is_paused_for_good_stays_and_the_rest_is_delivered() -> None:
    result = play(quiet_plan(Paused(0.0, FOR_GOOD, ONLY_X, has_end=False)))
    assert result.violation is None
    assert {one[0] for one in result.world.ledger.done} == {"z"}
    assert len(result.world.ledger.done) == 50
