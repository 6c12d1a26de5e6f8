"""The sums of the demonstration: each way in which they can be off must show."""

from __future__ import annotations

from relay.demo.ledger import Ledger


def _ledger() -> Ledger:
    """Two events committed at second 10 and received 0.1 and 0.3 s later, one rolled back."""
    ledger = Ledger()
    ledger.commit(["a", "b"], 10.0)
    ledger.roll_back(["x"])
    ledger.receive("a", 10.1)
    ledger.receive("b", 10.3)
    return ledger


def test_all_that_was_committed_arrived_and_nothing_else() -> None:
    tally = _ledger().tally()
    assert (tally.committed, tally.received, tally.rolled_back) == (2, 2, 1)
    assert (tally.transactions_committed, tally.transactions_rolled_back) == (1, 1)
    assert tally.sums_agree
    assert round(tally.per_second, 3) == round(2 / 0.3, 3)
    assert (round(tally.p50 or 0, 3), round(tally.p99 or 0, 3)) == (0.3, 0.3)


def test_a_missing_event_shows() -> None:
    ledger = _ledger()
    ledger.commit(["late"], 11.0)
    assert not ledger.complete()
    assert ledger.tally().missing == 1
    assert not ledger.tally().sums_agree


def test_an_event_of_a_rolled_back_transaction_shows() -> None:
    ledger = _ledger()
    ledger.receive("x", 10.4)
    assert ledger.tally().leaked == 1
    assert not ledger.tally().sums_agree


def test_an_event_that_was_never_announced_shows() -> None:
    ledger = _ledger()
    ledger.receive("(no identity)", 10.4)
    assert ledger.tally().unknown == 1
    assert not ledger.tally().sums_agree


def test_what_is_refused_or_due_later_is_counted_apart() -> None:
    ledger = _ledger()
    ledger.withhold(["refused", "later"])
    assert ledger.complete()
    assert (ledger.tally().withheld, ledger.tally().received, ledger.tally().missing) == (2, 2, 0)
    ledger.receive("later", 910.0)
    tally = ledger.tally()
    assert (tally.withheld, tally.received, tally.unknown, tally.duplicates, tally.sums_agree) == (1, 2, 0, 0, True)


def test_an_event_may_be_missing_only_while_it_is_in_the_table_undelivered() -> None:
    ledger = _ledger()
    ledger.withhold(["refused"])
    ledger.commit(["paused"], 11.0)
    tally = ledger.tally()
    assert tally.accounts_for({"DELIVERED": 2, "DEAD": 1, "PENDING": 1})
    assert not tally.accounts_for({"DELIVERED": 3, "DEAD": 1})
    ledger.receive("x", 11.1)
    assert not ledger.tally().accounts_for({"DELIVERED": 2, "DEAD": 1, "PENDING": 1})


def test_a_duplicate_is_counted_and_allowed() -> None:
    ledger = _ledger()
    ledger.receive("a", 12.0)
    tally = ledger.tally()
    assert (tally.duplicates, tally.received, tally.sums_agree) == (1, 2, True)
    assert (tally.p99 or 0) < 1, "the first arrival counts"


def test_nothing_at_all_is_no_success() -> None:
    tally = Ledger().tally()
    assert not tally.sums_agree
    assert tally.p50 is None
    assert tally.per_second == 0
