"""Random histories with Kafka's transactions: no event is seen twice, none is lost; a relay that breaks it is found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from relay.engine.batch import Batch
from tests.system.simulation.database_faults import RowsLocked, RowsRefused
from tests.system.simulation.faults import Answered, Freeze, Kill
from tests.system.simulation.mutate import mutate
from tests.system.simulation.transactional_client import TransactionalClient
from tests.system.simulation.transactions import Busy, Forgotten, Stranger, TransactionalWorld, draw_transactions
from tests.system.simulation.world import play

_FEW = 150
_MANY = 500
_CHUNKS = range(_FEW, _FEW + 4 * _MANY, _MANY)
"""First seeds. `make test` plays those before the first, `make soak` the others."""


def violations(first: int, count: int) -> Iterator[str]:
    results = (play(draw_transactions(seed), TransactionalWorld) for seed in range(first, first + count))
    return (f"seed {one.plan.seed}: {one.violation}" for one in results if one.violation is not None)


def test_a_few_histories_keep_every_promise() -> None:
    assert list(violations(0, _FEW)) == []


@pytest.mark.histories
@pytest.mark.parametrize("first", [pytest.param(one, marks=pytest.mark.soak) for one in _CHUNKS])
def test_many_histories_keep_every_promise(first: int) -> None:
    assert list(violations(first, _MANY)) == []


def test_histories_have_all_that_matters() -> None:
    plans = [draw_transactions(seed) for seed in range(100)]
    faults = [fault for plan in plans for fault in plan.faults]
    assert {Busy, Forgotten, Stranger} <= {type(fault) for fault in faults}
    assert {len(plan.relays) for plan in plans} == {1, 2, 3}
    assert {(plan.key_order is None, plan.keeps_runs) for plan in plans} == {
        (True, False),
        (False, False),
        (False, True),
    }
    lasting = {type(fault) for plan in plans for fault in plan.lasting}
    assert {Answered, Freeze, Kill, RowsLocked, RowsRefused} <= lasting


def test_an_event_without_a_proof_that_is_settled_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    rule, broken = 'await self._settle([row for row in asked if proven.get(row) == ""])', "await self._settle(asked)"
    mutate(monkeypatch, "relay.engine.expired_leases", rule, broken)
    assert "DELIVERED without an acknowledgement" in next(violations(0, _MANY))


def test_a_lease_that_is_reaped_without_asking_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch, "relay.engine.expired_leases", "await self._proofs.proven(asked) if asked else {}", "{}")
    assert "seen twice" in next(violations(0, _MANY))


def test_asking_without_ending_the_holder_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch, "relay.engine.expired_leases", "await self._proofs.end_holder(holder)", "pass")
    assert "seen twice" in next(violations(41, _MANY))


def test_a_renewal_within_a_transaction_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    mutate(monkeypatch, "relay.engine.fences", "        if self._pinned:", "        if False:")
    assert "seen twice" in next(violations(262, _MANY))


def test_an_old_batch_under_a_new_epoch_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a relay that was ended in its sleep, made new producers, and was frozen again; no renewal came first."""
    monkeypatch.setattr(Batch, "older", lambda *_: {})
    mutate(monkeypatch, "relay.engine.fences", "if lease.sent_at >= since and lease", "if lease")
    assert "seen twice" in next(violations(159, _MANY))


@pytest.mark.parametrize(
    ("rule", "broken", "seed"),
    [
        ("proof_apart", True, 0),
        ("reads_to_stable", True, 139),
        ("believes", ("open", "committed", "aborted"), 0),
        ("lost_is_aborted", True, 72),
    ],
)
def test_a_client_that_breaks_a_rule_of_proofs_is_found(
    monkeypatch: pytest.MonkeyPatch, rule: str, broken: object, seed: int
) -> None:
    """The proof outside of its transaction; the last stable offset for the end; uncommitted proofs; a lost answer."""
    monkeypatch.setattr(TransactionalClient, rule, broken)
    assert next(violations(seed, _MANY))


def test_a_refusal_that_names_no_event_is_found_where_old_leases_are_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is refused ends the epoch: the same events were claimed, and refused, together again and again."""
    monkeypatch.setattr(Batch, "older", lambda *_: {})
    assert "neither DELIVERED nor DEAD" in next(violations(65, 1))
