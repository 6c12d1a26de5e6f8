"""Histories of events for two brokers keep every promise; a relay that breaks one of them is found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from relay.core.storage import Settlement
from relay.engine.away import AwayDestinations
from tests.system.simulation.fan_out import AtAudit, FanOutWorld, draw_fan_out
from tests.system.simulation.faults import BrokerAway
from tests.system.simulation.mutate import mutate
from tests.system.simulation.world import play

_FEW = 25
_MANY = 100
_CHUNKS = range(_FEW, _FEW + 4 * _MANY, _MANY)
"""First seeds. `make test` plays the first hundred, `make soak` the others."""


def violations(first: int, count: int) -> Iterator[str]:
    results = (play(draw_fan_out(seed), FanOutWorld) for seed in range(first, first + count))
    return (f"seed {one.plan.seed}: {one.violation}" for one in results if one.violation is not None)


def test_a_few_histories_keep_every_promise() -> None:
    assert list(violations(0, _FEW)) == []


def test_what_waits_for_the_second_broker_may_take_all_of_few_places() -> None:
    """MAX_IN_FLIGHT is 4 in one, BATCH_BYTES 2,000 in the other."""
    assert [*violations(2001, 1), *violations(1457, 1)] == []


def test_what_events_that_travel_alone_cost_is_no_fault_of_the_second_broker() -> None:
    """Of twelve events four have one attempt left after leases that expired, and the second broker answers late."""
    assert list(violations(101333, 1)) == []


def test_a_lease_that_a_relay_with_a_shorter_one_has_taken_takes_the_names_with_it() -> None:
    assert draw_fan_out(122097).leases_differ
    assert list(violations(122097, 1)) == []


@pytest.mark.histories
@pytest.mark.parametrize("first", [_CHUNKS[0], *(pytest.param(one, marks=pytest.mark.soak) for one in _CHUNKS[1:])])
def test_many_histories_keep_every_promise(first: int) -> None:
    assert list(violations(first, _MANY)) == []


def test_histories_have_all_that_matters() -> None:
    plans = [draw_fan_out(seed) for seed in range(100)]
    assert {plan.remembers for plan in plans} == {plan.keeps_runs for plan in plans} == {False, True}
    assert {plan.key_order is None for plan in plans} == {False, True}
    faults = [fault.fault for plan in plans for fault in plan.faults if isinstance(fault, AtAudit)]
    assert any(isinstance(fault, BrokerAway) for fault in faults)


def test_names_that_are_not_written_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Settlement, "keep_names", lambda *_: None)
    assert any("sent again" in one for one in violations(0, 10))


def test_a_delivery_that_one_destination_lacks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch, "relay.engine.destination.fanout", "if not self._failures:", "if self._acknowledged:")
    assert any("have not acknowledged it" in one for one in violations(0, 10))


def test_an_end_by_one_destination_while_another_may_still_take_it_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch, "relay.engine.destination.fanout", "if len(refused) == len(outcomes):", "if refused:")
    assert any("DEAD while a destination may still take it" in one for one in violations(130, 10))


def test_a_destination_that_keeps_events_from_the_other_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    report = AwayDestinations.report

    def as_a_whole(*values: Any, in_part: bool) -> None:
        report(*values, in_part=False)

    monkeypatch.setattr(AwayDestinations, "report", as_a_whole)
    assert any("the first broker got it" in one for one in violations(0, 10))
