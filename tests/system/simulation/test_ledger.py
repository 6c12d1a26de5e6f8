"""The ledger refuses what the contract does not allow: failed attempts, death and backoff."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from relay.core.backoff import RetryPolicy
from relay.core.event import EventId, Status
from tests.support.doubles.memory_storage import MemoryRow
from tests.system.simulation.ledger import REFUSED_FOR_GOOD, Hold, Ledger, Violation

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
ONE = EventId("e1")
RETRY = RetryPolicy(max_attempts=4, base_delay=2.0, max_delay=6.0, jitter=0.5)
LEASED = MemoryRow(
    ONE, "x", b"{}", NOW - timedelta(seconds=9), NOW, NOW, status=Status.DELIVERING, locked_by="a", locked_at=NOW
)


def ledger() -> Ledger:
    """One event that relay ``a`` holds and that has failures enough of its own."""
    account = Ledger(lambda: 0.0, RETRY, lambda: NOW + timedelta(seconds=1))
    account.holder[ONE] = Hold("a", 0.0)
    account.blame[ONE] = 9
    return account


def write(account: Ledger, op: str, attempts: int, status: Status, delay: float, error: str) -> None:
    """One more failed attempt, written by relay ``a``."""
    before = replace(LEASED, attempts=attempts)
    now = account.database_time()
    due = now + timedelta(seconds=delay)
    after = replace(before, attempts=attempts + 1, status=status, available_at=due, last_error=error, updated_at=now)
    account.change(before, replace(after, locked_by=None, locked_at=None), "a", op)


FAILURES = pytest.mark.parametrize(("op", "error"), [("settle", "LEADER: changed"), ("reap", "LEASE_EXPIRED: of a")])


@FAILURES
@pytest.mark.parametrize(
    ("attempts", "status", "delay"),
    [
        (0, Status.PENDING, 2.0),
        (0, Status.PENDING, 3.0),
        (1, Status.PENDING, 4.0),
        (2, Status.PENDING, 6.0),
        (2, Status.PENDING, 9.0),
        (3, Status.DEAD, 0.0),
    ],
)
def test_what_the_contract_says_of_a_failed_attempt(
    op: str, error: str, attempts: int, status: Status, delay: float
) -> None:
    write(ledger(), op, attempts, status, delay, error)


@FAILURES
@pytest.mark.parametrize(
    ("attempts", "status", "delay", "reason"),
    [
        (0, Status.PENDING, 1.9, "backoff"),
        (0, Status.PENDING, 3.1, "backoff"),
        (1, Status.PENDING, 3.1, "backoff"),
        (2, Status.PENDING, 9.1, "backoff"),
        (2, Status.DEAD, 0.0, "DEAD after 3 attempts of 4"),
        (3, Status.PENDING, 6.0, "PENDING after 4 attempts of 4"),
        (4, Status.DEAD, 0.0, "5 failed attempts of 4"),
    ],
)
def test_what_it_does_not(op: str, error: str, attempts: int, status: Status, delay: float, reason: str) -> None:
    with pytest.raises(Violation, match=reason):
        write(ledger(), op, attempts, status, delay, error)


def test_a_permanent_refusal_ends_an_event_at_its_first_attempt() -> None:
    account = ledger()
    account.final.add(ONE)
    write(account, "settle", 0, Status.DEAD, 0.0, REFUSED_FOR_GOOD)
    with pytest.raises(Violation, match="the broker never gave"):
        write(ledger(), "settle", 0, Status.DEAD, 0.0, REFUSED_FOR_GOOD)
    account = ledger()
    account.final.add(ONE)
    with pytest.raises(Violation, match="retried after the broker refused it for good"):
        write(account, "settle", 0, Status.PENDING, 2.0, REFUSED_FOR_GOOD)


def test_an_event_without_attempts_left_is_never_claimed() -> None:
    before = replace(LEASED, status=Status.PENDING, locked_by=None, locked_at=None, attempts=4)
    account = ledger()
    now = account.database_time()
    with pytest.raises(Violation, match="claimed after 4 failed attempts"):
        account.change(before, replace(LEASED, attempts=4, locked_at=now, updated_at=now), "b", "claim")


def delivered(account: Ledger) -> MemoryRow:
    """The event, DELIVERED by relay ``a``."""
    account.commit(LEASED)
    account.acknowledged[ONE] = 1
    now = account.database_time()
    after = replace(LEASED, status=Status.DELIVERED, locked_by=None, locked_at=None, delivered_at=now, updated_at=now)
    account.change(LEASED, after, "a", "settle")
    return after


def test_a_delivered_row_may_be_deleted_by_the_statement_that_delivered_it_and_never_comes_back() -> None:
    account = ledger()
    row = delivered(account)
    account.delete(row, "a", "settle")
    account.check_table({}, lambda _: True)
    with pytest.raises(Violation, match="there again"):
        account.check_table({ONE: row}, lambda _: True)
    with pytest.raises(Violation, match="inserted twice"):
        account.commit(row)
    with pytest.raises(Violation, match="after it was deleted"):
        account.change(row, replace(row, status=Status.PENDING), "the operator", "replay")


@pytest.mark.parametrize(("actor", "op"), [("a", "reap"), ("b", "settle")])
def test_no_other_statement_may_delete_it(actor: str, op: str) -> None:
    account = ledger()
    with pytest.raises(Violation, match="deleted"):
        account.delete(delivered(account), actor, op)


def test_what_is_not_delivered_may_not_be_deleted() -> None:
    with pytest.raises(Violation, match="not delivered"):
        ledger().delete(LEASED, "a", "settle")


def test_a_table_without_an_event_that_was_not_deleted_has_lost_it() -> None:
    account = ledger()
    row = delivered(account)
    account.check_table({ONE: row}, lambda _: False)
    with pytest.raises(Violation, match="lost"):
        account.check_table({}, lambda _: False)
    with pytest.raises(Violation, match="in the table"):
        account.check_table({ONE: row}, lambda _: True)
