"""The states of an event inside a batch, and the moves between them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from relay.core.event import EventId, Fence, OutboxEvent
from relay.core.outcome import ACKNOWLEDGED, Resolution, TimedOut, Transient
from relay.core.verdict import RELEASE, Bury, Retry
from relay.engine.batch import Batch, Portion
from relay.engine.fences import Lease
from relay.engine.order import Order

CLAIMED = datetime(2030, 1, 1, tzinfo=UTC)
SECONDS = 30.0


def fence(number: int = 0) -> Fence:
    return Fence(CLAIMED + timedelta(seconds=number))


def event(name: str) -> OutboxEvent:
    """``a1``: the first event of key ``a``."""
    return OutboxEvent(EventId(name), "t", name[0], b"12345", "{}", 0, 0.0)


def batch(names: str, *, in_order: bool = False) -> Batch:
    lease = Lease.of(fence(), 0.0, SECONDS)
    return Batch(lease, [event(name) for name in names.split()], 0.0, order=Order.SINGLES if in_order else Order.NONE)


def ids(names: str) -> list[EventId]:
    return [EventId(name) for name in names.split()]


def acknowledged(names: str) -> list[Resolution]:
    return [(event(name), ACKNOWLEDGED) for name in names.split()]


def test_an_acknowledgement_decides_and_comes_once() -> None:
    one = batch("a b c")
    first, others = one.take_answers([*acknowledged("a b"), (event("c"), Transient("T", ""))], 0.0)
    assert [each.event_id for each in first] == ids("a b")
    assert [each.event_id for each, _ in others] == ids("c")
    assert one.verdicts.delivered == ids("a b")
    assert one.take_answers(acknowledged("a b c"), 0.0) == ([], [])
    assert one.verdicts.delivered == ids("a b")


@pytest.mark.parametrize("verdict", [Retry(1.0, "T"), Bury("P"), RELEASE])
def test_any_other_verdict_releases_what_waits_behind(verdict: Retry | Bury) -> None:
    one = batch("a1 a2 a3 b1 b2", in_order=True)
    assert list(one.offered) == ids("a1 b1")
    one.take_answers([(event("a1"), Transient("T", ""))], 0.0)
    one.decide(event("a1"), verdict)
    assert set(one.verdicts.released) >= set(ids("a2 a3"))
    assert sorted(one.verdicts.event_ids()) == ids("a1 a2 a3")
    assert one.unanswered == 2


def test_the_next_of_a_key_is_offered_after_an_acknowledgement_and_handed_over_once() -> None:
    one = batch("a1 a2 a3", in_order=True)
    one.take_answers(acknowledged("a1"), 0.0)
    assert list(one.offered) == ids("a2")
    assert [each.event_id for each in one.take_followers()] == ids("a2")
    assert one.take_followers() == []


def test_a_timeout_is_undecided_and_taken_once() -> None:
    one = batch("a b")
    timeout = TimedOut("T", "")
    one.take_answers([(event("a"), timeout)], 0.0)
    one.hold(event("a"), timeout)
    assert one.unanswered == 2
    assert one.held_ids() == ids("b a")
    assert one.take_undecided() == [(event("a"), timeout)]
    assert one.take_undecided() == []


def test_releasing_takes_all_that_has_no_outcome_and_nothing_else() -> None:
    one = batch("a1 a2 b1 c1 c2", in_order=True)
    one.take_answers(acknowledged("c1"), 0.0)
    one.take_answers([(event("b1"), TimedOut("T", ""))], 0.0)
    one.hold(event("b1"), TimedOut("T", ""))
    one.release_unanswered()
    assert one.verdicts.delivered == ids("c1")
    assert sorted(one.verdicts.released) == ids("a1 a2 b1 c2")
    assert one.unanswered == 0
    assert one.take_followers() == []


def test_what_is_written_or_put_back_keeps_every_verdict_and_the_older_come_first() -> None:
    one = batch("a b c d")
    one.take_answers(acknowledged("a"), 0.0)
    one.take_answers([(event("b"), Transient("T", ""))], 0.0)
    one.decide(event("b"), Retry(1.0, "T"))
    [portion] = one.take_verdicts()
    assert len(one.verdicts) == 0
    one.take_answers(acknowledged("c"), 0.0)
    one.put_back(portion)
    assert one.verdicts.delivered == ids("a c")
    assert one.verdicts.retried == [("b", "T", 1.0)]
    assert sorted(one.held_ids()) == ids("a b c d")


def test_a_lost_reply_is_remembered_until_the_verdicts_are_taken_again() -> None:
    one = batch("a")
    one.take_answers(acknowledged("a"), 0.0)
    [portion] = one.take_verdicts()
    assert not portion.ambiguous
    one.put_back(portion.after_lost_reply())
    [portion] = one.take_verdicts()
    assert portion.ambiguous
    assert portion.part(ids("a")).ambiguous
    assert one.take_verdicts() == []


def test_a_batch_is_empty_only_when_nothing_is_left_in_any_state() -> None:
    one = batch("a1 a2", in_order=True)
    steps = []
    for name in ("a1", "a2"):
        steps.append(one.empty)
        one.take_answers(acknowledged(name), 0.0)
    steps.append(one.empty)
    one.begin_writing()
    [portion] = one.take_verdicts()
    steps.append(one.empty)
    one.end_writing()
    assert one.empty
    one.set_aside(portion, 5.0)
    steps.append(one.empty)
    assert not any(steps)


def test_what_is_set_aside_is_held_and_taken_when_it_is_due() -> None:
    one = batch("a b")
    one.take_answers(acknowledged("a b"), 0.0)
    [portion] = one.take_verdicts()
    refused = portion.part(ids("a")).after_refusal()
    one.set_aside(refused, 5.0)
    assert one.held_ids() == ids("a")
    assert one.take_aside(4.9) == []
    [again] = one.take_aside(5.0)
    assert (again.settlement.delivered, again.refusals) == (ids("a"), 1)
    assert one.aside == []


def test_a_settle_is_checked_by_the_fence_of_the_last_renewal() -> None:
    one = batch("a b")
    one.take_answers(acknowledged("a"), 0.0)
    [portion] = one.take_verdicts()
    assert portion.settlement.fence == fence()
    one.put_back(portion)
    one.set_aside(portion.part(ids("a")), 0.0)
    one.renewed(Lease.of(fence(1), 10.0, SECONDS), one.held_ids())
    assert one.take_verdicts()[0].settlement.fence == fence(1)
    assert one.take_aside(0.0)[0].settlement.fence == fence(1)


def test_a_lease_counts_from_before_its_statement_and_is_renewed_after_a_third() -> None:
    one = batch("a b")
    assert (one.renew_at, one.expires_at(ids("a")[0])) == (10.0, 30.0)
    assert one.expired(ids("a b"), 29.9) == []
    assert one.expired(ids("a"), 30.0) == ids("a")
    one.renewed(Lease.of(fence(1), 12.0, SECONDS), ids("a b"))
    assert (one.renew_at, one.expired(ids("a"), 41.9), one.expired(ids("a"), 42.0)) == (22.0, [], ids("a"))


def test_leases_renewed_in_parts_have_fences_of_their_own() -> None:
    one = batch("a b c")
    [(own, _)] = one.leases()
    one.renewed(Lease.of(fence(1), 10.0, SECONDS), ids("a"))
    one.renewal_failed(own, ids("b"), 15.0, refused=True)
    one.renewed(Lease.of(fence(2), 11.0, SECONDS), ids("c"))
    assert [(lease.fence, held) for lease, held in one.leases()] == [
        (fence(1), ids("a")),
        (fence(), ids("b")),
        (fence(2), ids("c")),
    ]
    assert one.renew_at == 15.0
    assert one.expired(ids("a b c"), 30.0) == ids("b")
    assert one.expired_unrenewable(29.0) == []
    assert one.expired_unrenewable(30.0) == ids("b")
    one.take_answers(acknowledged("a b c"), 0.0)
    portions = one.take_verdicts()
    assert {(one.settlement.fence, *one.settlement.delivered) for one in portions} == {
        (fence(1), "a"),
        (fence(), "b"),
        (fence(2), "c"),
    }


def test_refused_events_are_renewed_alone_and_one_renewal_of_all_unites_them() -> None:
    one = batch("a b c")
    [(own, _)] = one.leases()
    for name in ("a", "b"):
        one.renewal_failed(own, ids(name), 15.0, refused=True)
    assert [held for _, held in one.leases()] == [ids("a"), ids("b"), ids("c")]
    one.renewed(Lease.of(fence(1), 12.0, SECONDS), ids("a b c"))
    assert one.leases() == [(Lease.of(fence(1), 12.0, SECONDS), ids("a b c"))]


def test_a_failed_renewal_is_tried_later_under_the_same_lease() -> None:
    one = batch("a b")
    [(own, _)] = one.leases()
    one.renewal_failed(own, ids("a b"), 11.0, refused=False)
    assert one.leases() == [(replace(own, renew_at=11.0), ids("a b"))]
    assert (one.renew_at, one.expires_at(ids("a")[0])) == (11.0, 30.0)


def test_a_lost_event_is_gone_from_every_state() -> None:
    one = batch("a b c d e f g1 g2 h1 h2", in_order=True)
    one.take_answers([*acknowledged("a"), (event("b"), TimedOut("T", ""))], 0.0)
    one.hold(event("b"), TimedOut("T", ""))
    for name, verdict in (("c", Retry(1.0, "T")), ("d", Bury("P")), ("e", RELEASE)):
        one.take_answers([(event(name), Transient("T", ""))], 0.0)
        one.decide(event(name), verdict)
    one.set_aside(Portion(one, one.take_verdicts()[0].part(ids("a")).settlement), 0.0)
    one.take_answers(acknowledged("f"), 0.0)
    for name, verdict in (("c", Retry(1.0, "T")), ("d", Bury("P")), ("e", RELEASE)):
        one.decide(event(name), verdict)
    one.forfeit(ids("a b c d e f g1 h2"))
    assert one.held_ids() == ids("h1 g2")
    assert one.verdicts.released == ids("g2")  # behind a lost event: never offered, so it is released
    assert one.aside == []


def test_bytes_are_freed_once() -> None:
    one = batch("a b")
    assert one.bytes_held == 18
    assert (one.free_bytes(), one.free_bytes(), one.bytes_held) == (18, 0, 0)
