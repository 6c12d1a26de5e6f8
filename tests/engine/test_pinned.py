"""Events in a transaction: their proof names the fence, so that their lease stays as it is until it ends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from relay.core.event import EventId, Fence, OutboxEvent
from relay.core.outcome import ACKNOWLEDGED
from relay.engine.batch import Batch
from relay.engine.fences import Lease

CLAIMED = datetime(2030, 1, 1, tzinfo=UTC)
LATER = Fence(CLAIMED + timedelta(seconds=10))
SECONDS = 30.0


def events(names: str) -> list[OutboxEvent]:
    return [OutboxEvent(EventId(name), "t", None, b"12345", "{}", 0, 0.0) for name in names]


def batch(names: str = "abc") -> Batch:
    return Batch(Lease.of(Fence(CLAIMED), 0.0, SECONDS), events(names), 0.0)


def test_a_pinned_lease_is_not_renewed_and_others_of_its_claim_are() -> None:
    one = batch()
    [begun] = one.begin(events("ab"), 0.0, 20.0)
    assert ([each.event_id for each in begun.events], begun.fence) == (["a", "b"], CLAIMED)
    [(lease, due)] = one.leases()
    assert due == ["c"]
    one.renewed(Lease.of(LATER, 10.0, SECONDS), due)
    one.take_answers([(event, ACKNOWLEDGED) for event in events("abc")], 11.0)
    fences = {portion.settlement.fence: portion.settlement.delivered for portion in one.take_verdicts()}
    assert fences == {lease.fence: ["a", "b"], LATER: ["c"]}


def test_a_batch_with_pinned_leases_alone_is_never_due_for_renewal() -> None:
    one = batch()
    one.begin(events("abc"), 0.0, 20.0)
    assert one.leases() == []
    assert not one.renewal_overdue(1000.0)
    assert not one.expired_offered(1000.0)
    one.end(EventId(name) for name in "abc")
    assert one.renewal_overdue(1000.0)
    assert one.expired_offered(1000.0)


def test_what_is_in_a_transaction_is_not_released_with_the_others() -> None:
    one = batch()
    one.begin(events("a"), 0.0, 20.0)
    one.release_unanswered()
    assert (sorted(one.verdicts.released), list(one.offered)) == (["b", "c"], ["a"])
    one.end([EventId("a")])
    one.release_unanswered()
    assert sorted(one.verdicts.released) == ["a", "b", "c"]


def test_a_transaction_begins_with_leases_that_last_and_of_its_epoch_alone() -> None:
    one = batch()
    assert one.begin(events("abc"), 0.0, SECONDS + 1) == []
    assert one.begin(events("abc"), 5.0, 20.0) == []  # the epoch began after this claim
    one.renewed(Lease.of(LATER, 10.0, SECONDS), [EventId("b")])
    [begun] = one.begin(events("abc"), 5.0, 35.0)
    assert ([each.event_id for each in begun.events], begun.fence) == (["b"], LATER)


def test_what_is_lost_meanwhile_is_in_no_transaction() -> None:
    one = batch()
    one.forfeit([EventId("b")])
    [begun] = one.begin(events("abc"), 0.0, 20.0)
    assert [each.event_id for each in begun.events] == ["a", "c"]
