"""Where claims begin: behind what was delivered, and never past a row that waits for longer than the formula says."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay.outbox.head import CHEAP, MOST_CLAIMED, Head
from relay.outbox.margin import MARGIN
from relay.outbox.span import BEFORE_ALL, Place, after
from relay.outbox.waiting_rows import DEPTHS, SHARE, TIMEOUT, Look, Looks
from tests.support.clock import Clock

NOW = 1000.0


def at(due: float) -> Place:
    return due, due


def head_at(place: float) -> Head:
    """A head in force."""
    head = Head(lambda: 0.0)
    head.walked(None, place + MARGIN, cheap=False)
    assert head.place[0] == place
    return head


# The head alone.


def test_while_a_walk_is_cheap_claims_begin_at_the_oldest_entry() -> None:
    head = Head(lambda: 0.0)
    head.walked(at(500.0), NOW, cheap=True)
    assert head.span().first == BEFORE_ALL
    head.claimed(head.span(), MOST_CLAIMED, at(600.0), at(600.0), NOW)
    assert head.span().first == at(600.0), "that many dead entries cost a claim something"
    head.walked(at(600.0), NOW, cheap=True)
    assert head.span().first == BEFORE_ALL


def test_a_claim_moves_the_head_to_its_last_row_and_not_into_the_margin() -> None:
    head = head_at(500.0)
    head.claimed(head.span(), 10, at(600.0), at(600.0), NOW)
    assert head.place == at(600.0)
    head.claimed(head.span(), 10, at(NOW - 0.01), at(NOW - 0.01), NOW)
    assert head.place == (NOW - MARGIN, float("-inf"))


def test_a_claim_from_the_oldest_entry_on_that_took_stragglers_says_nothing_of_what_is_behind_them() -> None:
    head = Head(lambda: 0.0)
    head.walked(at(900.0), NOW, cheap=True)
    head.claimed(head.span(), MOST_CLAIMED, at(200.0), at(200.0), NOW)
    assert head.span().first == at(200.0)


def test_many_claimed_rows_let_the_head_come_nearer() -> None:
    head = head_at(500.0)
    head.claimed(head.span(), 100, at(NOW), at(NOW), NOW)
    assert head.margin.seconds == MARGIN
    head.claimed(head.span(), 4000, at(NOW), at(NOW), NOW)
    assert 0.1 <= head.margin.seconds < 0.5


@pytest.mark.parametrize(("age", "margin"), [(0.01, 0.1), (0.15, 0.3), (60.0, 0.5)])
def test_the_head_stays_twice_the_age_of_the_oldest_row_behind_within_five_hundred_rows(
    age: float, margin: float
) -> None:
    clock = Clock()
    head = Head(clock)
    head.walked(None, NOW, cheap=False)
    for _ in range(300):
        clock.now += 0.1
        head.claimed(head.span(), 100, at(NOW - age), at(NOW), NOW)
    assert head.margin.seconds == pytest.approx(margin, rel=0.2)
    head.waiting_from(head.span(), 100, at(NOW - 1.0), NOW, whole=True)
    assert head.margin.seconds == pytest.approx(0.5, rel=0.2), "a claim in order per key says it, too"


def test_a_claim_that_was_sent_before_something_else_was_left_out_does_not_move_the_head() -> None:
    head = head_at(500.0)
    span = head.span()
    head.leave_out({("type", "a")})
    head.claimed(span, 10, at(600.0), at(600.0), NOW)
    assert head.place[0] == 500.0


def test_what_is_no_longer_left_out_is_claimed_from_where_it_was_left_out() -> None:
    head = head_at(500.0)
    head.leave_out({("type", "a")})
    head.claimed(head.span(), 10, at(600.0), at(600.0), NOW)
    head.leave_out({("type", "a"), ("type", "b")})
    head.claimed(head.span(), 10, at(700.0), at(700.0), NOW)
    head.leave_out({("type", "a")})
    assert (head.span().first[0], head.place, head.returned) == (600.0, at(700.0), at(600.0))
    head.found_nothing(head.span())
    assert head.span().first == at(700.0)
    head.leave_out(set())
    assert (head.span().first[0], head.returned) == (500.0, (500.0, float("-inf")))


def test_what_was_left_out_in_part_keeps_its_place_when_the_type_is_left_out_as_a_whole_and_back() -> None:
    head = head_at(500.0)
    head.leave_out({("part", "a")})
    head.claimed(head.span(), 10, at(600.0), at(600.0), NOW)
    head.leave_out({("type", "a")})
    head.leave_out({("part", "a")})
    while head.span().is_stretch:
        head.found_nothing(head.span())
    head.returned = None
    head.leave_out(set())
    assert head.span().first[0] == 500.0


def test_a_thousand_destinations_that_come_and_go_send_no_claim_back_to_the_beginning() -> None:
    head = head_at(500.0)
    things = {("type", str(number)) for number in range(1000)}
    head.leave_out(things)
    place = 500.0
    for number in range(1000):
        place += 1.0
        head.claimed(head.ahead(), 10, at(place), at(place), place + 100.0)
        head.released(at(place), at(place), [("type", str(number))])  # its place stays where it was left out
        head.leave_out(things - {("type", str(number))})
        span = head.span()
        assert span.is_stretch
        assert span.end[0] - span.first[0] <= MARGIN
        head.found_nothing(span)
        head.leave_out(things)
        assert head.span().first == head.place == at(place)


def test_released_rows_are_claimed_next_without_moving_the_head() -> None:
    head = head_at(500.0)
    head.released(at(300.0), at(400.0))
    span = head.span()
    assert (span.first, span.end > at(400.0), span.end[0]) == (at(300.0), True, 400.0)
    head.claimed(span, 10, at(350.0), at(350.0), NOW)
    assert head.span().first > at(350.0)
    head.found_nothing(head.span())
    assert head.span().first[0] == 500.0


def test_released_rows_of_what_is_left_out_wait_for_its_return() -> None:
    head = head_at(500.0)
    head.leave_out({("type", "a")})
    head.released(at(300.0), at(300.0), [("type", "a")])
    assert not head.span().is_stretch
    head.leave_out(set())
    assert head.span().first == at(300.0)


def test_a_clock_that_was_set_back_takes_the_head_with_it() -> None:
    head = head_at(500.0)
    head.clock_is(400.0)
    assert head.span().first[0] < 400.0


def test_claims_of_a_tie_read_on_in_the_table_and_walk_over_it_now_and_then() -> None:
    clock = Clock()
    head = Head(clock)
    head.walked(None, 500.0 + MARGIN, cheap=False)
    span = head.span()
    clock.now += 0.1  # what a walk over the tie costs
    head.claimed(span, 100, at(600.0), at(600.0), NOW, "(1,7)")
    assert (head.span().tid, head.span().parameters()["due_until"]) == ("(1,7)", 600.0)
    head.claimed(head.span(), 100, at(600.0), at(600.0), NOW, "(2,9)")
    assert (head.span().tid, head.in_tie) == ("(2,9)", True)
    clock.now += 1.9
    assert head.span().tid == "(2,9)"
    clock.now += 0.2
    assert head.span().tid is None
    head.claimed(head.span(), 100, at(600.0), at(600.0), NOW, "(1,8)")
    assert head.span().tid == "(1,8)"
    head.found_nothing(head.span())
    assert (head.span().tid, head.place) == (None, at(600.0)), "the rest may be anywhere in the table"
    head.found_nothing(head.span())
    assert (head.place, head.in_tie) == (after(at(600.0)), False)


def test_what_is_released_amid_a_tie_is_claimed_from_its_first_row_on() -> None:
    head = head_at(500.0)
    head.claimed(head.span(), 100, at(600.0), at(600.0), NOW, "(1,7)")
    head.released(at(600.0), at(600.0))
    span = head.span()
    assert (span.is_stretch, span.first, span.tid) == (True, at(600.0), None)
    head.found_nothing(span)
    assert head.span().tid == "(1,7)"
    head.leave_out({("type", "a")})
    assert head.span().tid is None


def test_a_tie_behind_the_head_is_claimed_to_its_end() -> None:
    head = head_at(500.0)
    head.add(at(300.0), after(at(300.0)))
    head.claimed(head.span(), 100, at(300.0), at(300.0), NOW, "(1,7)")
    assert (head.span().is_stretch, head.span().tid) == (True, "(1,7)")
    head.claimed(head.span(), 20, at(300.0), at(300.0), NOW, "(1,9)")
    head.found_nothing(head.span())
    assert (head.span().is_stretch, head.span().tid) == (True, None)
    head.found_nothing(head.span())
    assert not head.span().is_stretch


def test_refused_rows_are_passed_and_looking_behind_leaves_them_alone() -> None:
    head = Head(lambda: 0.0)
    head.walked(at(400.0), NOW, cheap=True)
    head.pass_over(head.span(), at(400.0), after(at(400.0)))
    assert head.span().first > at(400.0)
    head.walked(at(400.0), NOW, cheap=True)
    assert head.span().first > at(400.0)
    assert not head.span().is_stretch
    head.walked(at(300.0), NOW, cheap=True)
    assert head.span().first == at(300.0), "this one is another row"
    head.pass_over(head.span(), at(300.0), head.span().end)
    assert head.refused is not None
    assert head.refused[0] == at(300.0)


# Looking behind.


class Index:
    """Entries of an index: what waits, and how many dead ones there are a second."""

    def __init__(self, now: float, dead_per_second: float, seconds_per_entry: float = 3e-7) -> None:
        self.now = now
        self.waiting: set[Place] = set()
        self.since = now
        self.per_second = dead_per_second
        self.seconds_per_entry = seconds_per_entry
        self.clock = 0.0
        self.worked = 0.0
        self.walks = 0

    async def walk(self, first: Place, end: Place, timeout: float) -> Look | None:
        self.walks += 1
        margin = (self.now - MARGIN, float("inf"))
        free = min((one for one in self.waiting if first <= one < end and one <= margin), default=None)
        until = self.now if free is None else free[0]
        begin, stop = max(first[0], self.since), min(end[0], until, self.now)
        seconds = max(stop - begin, 0.0) * self.per_second * self.seconds_per_entry
        spent = min(seconds, timeout)
        self.worked += spent
        self.clock += spent
        return None if seconds > timeout else Look(self.now, seconds, free, None)


def looking(dead: float, seconds: float) -> tuple[Index, Head, Looks]:
    """A relay that starts on that many dead entries, of the last ``seconds``."""
    index = Index(1_000_000.0, dead / seconds)
    index.since = index.now - seconds
    head = Head(lambda: index.clock)
    looks = Looks(head, lambda: index.clock)
    asyncio.run(looks.find(index.walk))
    return index, head, looks


def delay(index: Index, head: Head, looks: Looks, straggler: Place) -> float:
    """Seconds until a straggler is in a stretch, and no more work than the share."""
    index.waiting = {straggler}
    began, worked = index.clock, index.worked

    async def look() -> None:
        while head.in_force and not (head.span().is_stretch and head.span().first <= straggler < head.span().end):
            if head.span().is_stretch:
                head.found_nothing(head.span())
            rest = await looks.look(index.walk)
            index.clock += rest.seconds
            assert index.clock - began < 2_000, "it is not found"

    asyncio.run(look())
    taken = index.clock - began
    assert index.worked - worked <= 2 * SHARE * taken + 1.0
    return taken


def formula(index: Index, depth: float) -> float:
    """The promise: what one walk over the depth and a step too wide cost, divided by their share of the time."""
    depths = [*DEPTHS, float("inf")]
    number = next(place for place, one in enumerate(depths) if depth < one)
    entries = min(depths[number], index.now - index.since) * index.per_second
    return (entries * index.seconds_per_entry + TIMEOUT) / (SHARE * (0.25, 0.375, 0.25)[number]) + 3.0


def test_looks_come_to_a_row_behind_the_head() -> None:
    index, head, looks = looking(100_000, 100.0)
    index.waiting = {at(index.now - 60.0)}
    looks._walk_at = float("inf")  # only rounds
    for _ in range(200):
        index.clock += asyncio.run(looks.look(index.walk)).seconds
    assert head.span().first == at(index.now - 60.0)


def test_an_idle_relay_walks_from_the_oldest_entry_on_once_in_five_seconds() -> None:
    index, head, looks = looking(10, 100.0)
    for claimed, walks in ((0, 2), (1, 10)):
        began = index.walks
        for _ in range(10):
            if claimed:
                head.claimed(head.span(), claimed, at(index.now), at(index.now), index.now)
            index.clock += 1.0
            asyncio.run(looks.look(index.walk))
        assert index.walks - began == walks


@pytest.mark.parametrize(("seconds", "walks"), [(CHEAP, 0), (2 * CHEAP, 2)])
def test_quick_empty_claims_of_an_idle_relay_are_such_walks(seconds: float, walks: int) -> None:
    index, head, looks = looking(10, 100.0)
    began = index.walks
    for _ in range(10):
        head.found_nothing(head.span(), seconds)
        index.clock += 1.0
        asyncio.run(looks.look(index.walk))
    assert index.walks - began == walks


def test_a_look_does_not_move_the_head_past_a_locked_row() -> None:
    index, head, looks = looking(1_000_000, 3600.0)
    index.now += 100.0
    index.waiting = {at(index.now - 50.0)}  # which claims do not bring
    index.clock += 100.0
    asyncio.run(looks.look(index.walk))
    assert head.place == at(index.now - 50.0)


@pytest.mark.parametrize("old", [1, 10])
def test_a_row_that_stays_behind_the_head_does_not_make_a_walk_look_cheap(old: int) -> None:
    index, head, looks = looking(5_000_000, 3600.0)
    index.waiting = {at(index.now - 10_000.0 - number) for number in range(old)}  # locked, say
    for _ in range(100):
        asyncio.run(looks.look(index.walk))
        index.clock += 0.25
        assert head.in_force


def test_a_start_on_millions_of_dead_entries_finds_the_first_row_in_bounded_steps() -> None:
    index, head, _ = looking(5_000_000, 3600.0)
    assert head.in_force
    assert head.place[0] == index.now - MARGIN
    index = Index(1_000_000.0, 1000.0)
    index.since = index.now - 5000.0
    index.waiting = {at(index.now - 700.0)}
    head = Head(lambda: index.clock)
    asyncio.run(Looks(head, lambda: index.clock).find(index.walk))
    assert head.place == at(index.now - 700.0)


@settings(deadline=None, max_examples=40)
@given(dead=st.floats(1e4, 5e6), seconds=st.floats(60.0, 1e5), age=st.floats(2.5, 1e7))
def test_a_straggler_is_found_within_the_formula(dead: float, seconds: float, age: float) -> None:
    index, head, looks = looking(dead, seconds)
    straggler = at(index.now - age)
    if head.walk_is_cheap:
        return
    assert delay(index, head, looks, straggler) <= formula(index, age) * 1.2


def test_with_five_million_dead_entries_an_event_that_committed_a_minute_late_is_found_within_30_seconds() -> None:
    for seconds in (300.0, 5000.0):  # of deliveries
        index, head, looks = looking(5_000_000, seconds)
        assert delay(index, head, looks, at(index.now - 60.0)) < 30.0
