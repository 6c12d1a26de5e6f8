"""Histories of events for a broker with transactions and one without; a relay that breaks what is promised is found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from relay.engine.destination.copies import CopyLeases
from tests.system.simulation.fan_out import AtAudit
from tests.system.simulation.faults import BrokerAway, LateAnswers
from tests.system.simulation.mutate import mutate
from tests.system.simulation.proven_copies import ProvenWorld, draw_proven
from tests.system.simulation.world import play

_FEW = 100
_MANY = 500
_CHUNKS = range(_FEW, _FEW + 4 * _MANY, _MANY)
"""First seeds. `make test` plays those before the first, `make soak` the others."""


def violations(first: int, count: int) -> Iterator[str]:
    results = (play(draw_proven(seed), ProvenWorld) for seed in range(first, first + count))
    return (f"seed {one.plan.seed}: {one.violation}" for one in results if one.violation is not None)


def test_a_few_histories_keep_every_promise() -> None:
    assert list(violations(0, _FEW)) == []


@pytest.mark.histories
@pytest.mark.parametrize("first", [pytest.param(one, marks=pytest.mark.soak) for one in _CHUNKS])
def test_many_histories_keep_every_promise(first: int) -> None:
    assert list(violations(first, _MANY)) == []


def test_histories_have_all_that_matters() -> None:
    faults = [fault for seed in range(50) for fault in draw_proven(seed).faults]
    assert {type(fault.fault) for fault in faults if isinstance(fault, AtAudit)} >= {BrokerAway, LateAnswers}


def test_a_proof_of_one_copy_that_settles_the_event_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch, "relay.engine.destination.assign", "copy.in_part = len(left) > 1", "copy.in_part = False")
    assert any("have not acknowledged it" in one for one in violations(0, _MANY))


def test_a_proof_of_one_copy_that_is_not_written_down_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = "{row.event_id: proven[row] for row in rest if row in proven}"
    mutate(monkeypatch, "relay.engine.expired_leases", rule, "{}")
    assert any("seen twice" in one for one in violations(0, _MANY))


def test_a_copy_that_is_let_go_of_in_its_transaction_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CopyLeases, "has_begun", lambda *_: False)
    assert any("seen twice" in one for one in violations(575, _MANY))
