"""Faults that were resolved once, put back one by one: a harness that no longer finds them proves nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from relay.core.outcome import Unreachable
from tests.system.simulation import broker
from tests.system.simulation.broker import Answer, Broker
from tests.system.simulation.database import Database
from tests.system.simulation.database_faults import Busy, Paused, RowsLocked, RowsRefused, SlowLink, TableLocked
from tests.system.simulation.draw import draw
from tests.system.simulation.faults import FOR_GOOD, Answered, BrokerReadOnly, Fault, LateAnswers
from tests.system.simulation.mutate import mutate
from tests.system.simulation.plan import Plan
from tests.system.simulation.world import Result, play

MOST_HISTORIES = 5000


@dataclass(frozen=True, slots=True)
class PutBack:
    """One fault of the past."""

    name: str
    apply: Callable[[pytest.MonkeyPatch], None]
    concerns: Callable[[Fault], bool]
    """What must go wrong in a history that can show it; other histories are not played."""


def _cuts_are_outages(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(broker, "ConnectionCut", Unreachable)


def _cuts_without_cancelling(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Database, "cancels", False)


def _waits_for_locked_rows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Database, "waits_for_locked_rows", True)


def _read_only_is_refusal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Broker, "refuses_while_read_only", True)


def _probes_wait_behind_answers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Broker, "probes_behind_answers", True)


def _last_attempts_travel_alone(patch: pytest.MonkeyPatch) -> None:
    mutate(patch, "relay.engine.claim", "event.last_code == LEASE_EXPIRED and ", "")
    # They were waited for without end.
    mutate(patch, "relay.engine.batch", "not left and now - self.offered_at >= SLOW", "False")


def _last_chance_waits_for_every_batch(patch: pytest.MonkeyPatch) -> None:
    mutate(patch, "relay.engine.inflight", "any(other.unfinished for other in", "any(True for other in")


def _claims_are_not_halved(patch: pytest.MonkeyPatch) -> None:
    mutate(patch, "relay.engine.claim", "self._limit = max(1, self._limit // 2)", "pass")


def _settles_are_not_halved(patch: pytest.MonkeyPatch) -> None:
    mutate(patch, "relay.engine.settle", "self._most = max(1, sum(map(len, write)) // 2)", "pass")


def _claims_carry_all_payloads(patch: pytest.MonkeyPatch) -> None:
    mutate(patch, "relay.outbox.payloads", "0 if self._apart else INLINE_BYTES // self._divisor", "1 << 40")


def _busy_answers_are_silent(patch: pytest.MonkeyPatch) -> None:
    mutate(patch, "relay.engine.health", "op not in _WORK or self._in_a_row[op] <= _MOST_IN_A_ROW", "True")


def _one_attempt_too_many(patch: pytest.MonkeyPatch) -> None:
    mutate(patch, "relay.core.verdict", "policy.exhausted(failed)", "policy.exhausted(attempts)")


def _backoff_does_not_grow(patch: pytest.MonkeyPatch) -> None:
    mutate(patch, "relay.core.backoff", "2.0**doublings", "1.0")


def _looks_behind_the_head_once(patch: pytest.MonkeyPatch) -> None:
    mutate(
        patch,
        "relay.outbox.waiting_rows",
        "        if one.ended:\n            one.begin(",
        "        if one.ended and not one.began_at:\n            one.begin(",
    )


def _is_lasting(kind: type[Fault]) -> Callable[[Fault], bool]:
    return lambda fault: isinstance(fault, kind) and fault.until == FOR_GOOD


def _is_cut(fault: Fault) -> bool:
    return isinstance(fault, Answered) and fault.answer is Answer.CUT


def _fails_attempts(fault: Fault) -> bool:
    return isinstance(fault, Answered) and fault.answer is not Answer.CUT


PUT_BACKS = (
    PutBack("a cut connection is taken for an outage", _cuts_are_outages, _is_cut),
    PutBack(
        "an overdue statement is cut off and not cancelled",
        _cuts_without_cancelling,
        lambda fault: isinstance(fault, TableLocked),
    ),
    PutBack(
        "settle and renewal wait for a locked row", _waits_for_locked_rows, lambda fault: isinstance(fault, RowsLocked)
    ),
    PutBack(
        "a read-only broker's answer is the event's failure",
        _read_only_is_refusal,
        lambda fault: isinstance(fault, BrokerReadOnly),
    ),
    PutBack(
        "a lone event on its last attempt stops the others, whatever failed before",
        _last_attempts_travel_alone,
        lambda fault: isinstance(fault, Answered) and fault.answer in (Answer.SILENT, Answer.DROP),
    ),
    PutBack(
        "an event on its last attempt waits for rows that cannot be settled",
        _last_chance_waits_for_every_batch,
        lambda fault: isinstance(fault, RowsLocked | RowsRefused) and fault.until == FOR_GOOD,
    ),
    PutBack("a claim that is rolled back each time is not made smaller", _claims_are_not_halved, _is_lasting(Busy)),
    PutBack("a settle that is rolled back each time is not made smaller", _settles_are_not_halved, _is_lasting(Busy)),
    PutBack(
        "a probe waits behind slow acknowledgements",
        _probes_wait_behind_answers,
        lambda fault: isinstance(fault, LateAnswers),
    ),
    PutBack(
        "a claim carries all payloads in its transaction",
        _claims_carry_all_payloads,
        lambda fault: isinstance(fault, SlowLink),
    ),
    PutBack("statements that are rolled back each time are silent", _busy_answers_are_silent, _is_lasting(Busy)),
    PutBack("an event gets one attempt more than its last", _one_attempt_too_many, _fails_attempts),
    PutBack("the backoff does not grow", _backoff_does_not_grow, _fails_attempts),
    PutBack(
        "rows behind the head are looked for only once",
        _looks_behind_the_head_once,
        lambda fault: isinstance(fault, Paused),
    ),
)


def find(put_back: PutBack) -> tuple[int, Result] | None:
    """The first history that shows the fault, which the caller has put back."""
    for seed in range(MOST_HISTORIES):
        plan: Plan = draw(seed)
        if any(map(put_back.concerns, plan.faults)):
            result = play(plan)
            if result.violation is not None:
                return seed, result
    return None
