"""Histories keep both laws of destinations; a relay that breaks one of them is found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.system.simulation.laws import LawWorld, draw_law
from tests.system.simulation.ledger import Violation
from tests.system.simulation.mutate import mutate
from tests.system.simulation.shrink import shrink
from tests.system.simulation.world import play

_FEW = 40
_MANY = 100
_CHUNKS = range(_FEW, _FEW + 8 * _MANY, _MANY)
"""First seeds. `make test` plays the first hundred, `make soak` the others."""


def violations(first: int, count: int) -> Iterator[str]:
    results = (play(draw_law(seed), LawWorld) for seed in range(first, first + count))
    return (f"seed {one.plan.seed}: {one.violation}" for one in results if one.violation is not None)


def test_a_few_histories_keep_both_laws() -> None:
    assert list(violations(0, _FEW)) == []


@pytest.mark.histories
@pytest.mark.parametrize("first", [_CHUNKS[0], *(pytest.param(one, marks=pytest.mark.soak) for one in _CHUNKS[1:])])
def test_many_histories_keep_both_laws(first: int) -> None:
    assert list(violations(first, _MANY)) == []


def test_a_destination_that_keeps_all_places_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    reserve = "self._reserve = options.max_in_flight // _RESERVE"
    mutate(monkeypatch, "relay.engine.room", reserve, "self._reserve = 0")
    assert any("the first broker got it" in one for one in violations(0, _FEW))


def test_a_destination_that_keeps_all_bytes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    reserve = "self._bytes_reserve = options.batch_bytes // _RESERVE"
    mutate(monkeypatch, "relay.engine.room", reserve, "self._bytes_reserve = 0")
    assert any("the first broker got it" in one for one in violations(63, _MANY))


def test_a_burst_for_a_late_destination_that_takes_the_last_places_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch, "relay.engine.destination.late", "return self._flows if", "return () if")
    assert any("the first broker got it" in one for one in violations(0, _MANY))


def test_a_cut_that_is_taken_for_an_absence_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = "if isinstance(outcome, TimedOut) else outcome"
    mutate(
        monkeypatch, "relay.engine.destination.member", cut, "if isinstance(outcome, TimedOut) else self._no_answer()"
    )
    assert any("without an attempt, while probes are answered" in one for one in violations(0, _FEW))


def test_a_history_that_fails_is_shrunk_to_a_smaller_one_of_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch, "relay.engine.destination.fanout", "if not self._failures:", "if self._acknowledged:")
    results = (play(draw_law(seed), LawWorld) for seed in range(_FEW))
    result = next(one for one in results if one.violation is not None)
    smaller = shrink(result)
    assert (type(smaller.world), type(smaller.violation)) == (LawWorld, Violation)
    assert len(smaller.plan.transactions) < len(result.plan.transactions)


def test_a_rate_that_counts_nothing_that_goes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch, "relay.engine.destination.pace", "self._tokens -= taken", "pass")
    assert any("beyond a rate of" in one for one in violations(0, _FEW))


def test_suspects_with_a_rate_of_their_own_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(
        monkeypatch,
        "relay.engine.destination.several",
        "self._drops, self._times, self._paces)",
        "self._drops, self._times)",
    )
    assert any("beyond a rate of" in one for one in violations(0, _MANY))


def test_a_third_of_the_histories_has_a_rate() -> None:
    rates = [draw_law(seed).rate for seed in range(_FEW)]
    assert _FEW // 5 < sum(rate is not None for rate in rates) < _FEW // 2
