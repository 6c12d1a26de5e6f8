"""The head: where claims begin, so that what was delivered before costs them nothing.

Claims take due rows in the order of their places, ``(available_at, created_at)``. A delivered row leaves a dead entry
in that index, and a row that is left out (paused, its destination is away) stays there; vacuum removes no dead entry
while any transaction of the server is open from before. A claim from the oldest entry on would step over all of them.
The head is a place before which this relay has claimed, or seen, all there was; a claim begins there. It is memory of
one relay: nothing in the table changes.

    ─── dead, left out, locked ───┬─ head ──┬─ due rows ─────── now
         looked at (``look``)     └ claims begin

**The head is in force only while it is worth something.** While a walk from the oldest entry to the first due row is
cheap (``CHEAP`` seconds of the server, seen once a second while claims bring rows), and fewer than ``MOST_CLAIMED``
rows were claimed since it was seen, claims begin at the oldest entry, as if there were no head.
Nothing can be behind it.

**What may appear behind the head, and who sees it:**

| what appears | seen by |
|---|---|
| the row of a transaction that commits up to ``margin`` after its begin | the next claim: the head is that far behind |
| the same, later than that | looking behind |
| a row that another relay released, or whose claim a crash of the database undid | looking behind |
| a row that this relay released | the next claim, which begins there (``released``) |
| a row inserted, or rescheduled, with an old ``available_at`` | looking behind |
| a row that was locked when claims went past it | looking behind |
| a row that was locked, or is released, amid rows of one place | a claim within 1 s, or 20 times a walk over these |
| in order per key, many that all wait behind others of their keys | claims from there on: the head goes back |
| rows that the database refused to change, and what is among them | trying them again (``passing``) |
| rows that are no longer left out (``leave_out``) | the next claim, which begins where they were first left out |
| the rest of those | looking, from there on |
| rows inserted after the database's clock was set back | the next claim that brings rows, or the next look |
| a retried, reclaimed or replayed row | the next claim: its ``available_at`` is the present or later |

**Rows that share one place**, as those of one ``INSERT`` do, have no place between them where the head could stand.
The index has them in the order in which they lie in the table, so claims of many of them remember how far they came
there, and read on in the table, not in the index: dead entries cost them nothing. Now and then one walks over them all.

**Looking behind** walks the index between two places, on a connection that nothing else waits for, for
``SHARE`` of the time at most. It is bounded in work and not in rows returned: each step covers a stretch whose width
follows what the last one cost, and is cancelled after ``TIMEOUT`` seconds. Three rounds go on side by side, each with
its part of the time, over the last ``DEPTHS`` seconds before the head and over all before it. So a straggler that is d
seconds old when it commits is found after at most

    delay(d) = (cost(depth) + TIMEOUT) / (SHARE * part) + 1 s   (depth: the smallest of DEPTHS that is above d, or all)

where cost(depth) is what one walk over the entries of that depth costs the server, and TIMEOUT what a step may lose
that turns out too wide. What is found is a *stretch*, which the next claims take, oldest first, without moving the
head: a straggler costs a claim of a few rows, not a walk over all that is between it and the head.

Everything here is on the safe side of a mistake: a head too low costs time, a head too high is bounded by looking
behind. When a look fails, claims go on from the known head. Used by ``PostgresOutbox``, in the event loop's thread.
"""

from __future__ import annotations

import time
from bisect import insort
from collections.abc import Callable, Iterable, Set
from typing import Final, NamedTuple

from relay.outbox.margin import MARGIN, Margin
from relay.outbox.span import BEFORE_ALL, BEHIND_ALL, ClaimSpan, Place, after

CHEAP: Final = 0.0025
"""Seconds of a walk from the oldest entry on that claims may take, too."""
MOST_CLAIMED: Final = 2000
"""Rows claimed since the last cheap walk; a claim steps over their entries in a millisecond or two."""
_MOST_STRETCHES: Final = 16
_TIE_WALK: Final = 1.0  # seconds between two claims that walk over a tie from its first row on, at least
_TIE_WALKS: Final = 20  # times what one of them took

Thing = tuple[str, str]
"""What claims leave out: of which kind (see ``relay.outbox.left_out``), and its name. Several kinds may leave out
the same rows under one name."""


class _Tie(NamedTuple):
    """Rows that share one place, of which many were claimed."""

    tid: str
    """The last one's place in the table."""
    walk_at: float
    """When a claim walks over them from the first one on again."""


class Head:
    """The head of one relay: claims ask where to begin and say what they saw; looks move it and add stretches."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.place = BEFORE_ALL
        """The head itself, whether it is in force or not."""
        self.walk_is_cheap = True
        """Whether the last walk from the oldest entry on was cheap."""
        self.quick_claim_at = float("-inf")  # when an empty claim from the oldest entry on was such a walk
        self._stretches: list[tuple[Place, Place]] = []
        """What looking behind has found, lowest first."""
        self._left_out: dict[Thing, Place] = {}
        """What claims leave out, and the place from which rows of it may wait."""
        self.returned: Place | None = None
        """From where rows that were left out, and no longer are, may wait behind the head."""
        self._ties: dict[tuple[Place, Place], _Tie] = {}
        """By where a claim looks."""
        self._sent_at = 0.0
        self._version = 0
        self.refused: tuple[Place, Place] | None = None
        """From where to where there are rows that the database refuses to change; claims begin behind them."""
        self._claimed = 0
        self.margin = Margin(clock)
        """How far behind the present the head stays."""

    # What claims ask and say.

    @property
    def in_force(self) -> bool:
        """Whether claims begin at the head, and not at the oldest entry."""
        return not self.walk_is_cheap or self._claimed >= MOST_CLAIMED or self.refused is not None

    @property
    def claimed_since_walk(self) -> bool:
        """Whether claims brought rows since the last walk from the oldest entry on."""
        return self._claimed > 0

    def span(self) -> ClaimSpan:
        """Where the next claim looks: at the oldest stretch behind the head, or from the head on."""
        if not self.in_force:
            return ClaimSpan(BEFORE_ALL, BEHIND_ALL, self._version)
        if self._stretches:
            return self._behind_tie(ClaimSpan(*self._stretches[0], self._version))
        return self.ahead()

    def ahead(self) -> ClaimSpan:
        """From the head on."""
        return self._behind_tie(ClaimSpan(self.place if self.in_force else BEFORE_ALL, BEHIND_ALL, self._version))

    def _behind_tie(self, span: ClaimSpan) -> ClaimSpan:
        tie = self._ties.get((span.first, span.end))
        self._sent_at = self._clock()
        return span if tie is None or self._sent_at >= tie.walk_at else span._replace(tid=tie.tid)

    @property
    def in_tie(self) -> bool:
        """Whether it is amid rows that share one place, so that only claims move it."""
        return (self.place, BEHIND_ALL) in self._ties

    def late_from(self, left_out: Iterable[Thing]) -> Place:
        """Where the oldest late row may be: rows of ``left_out`` are late, too."""
        if not self.in_force:
            return BEFORE_ALL
        places = [self._left_out[one] for one in left_out if one in self._left_out]
        places += [self.refused[0]] if self.refused is not None else []
        return min([self.place, *places, *(first for first, _ in self._stretches[:1])])

    def claimed(
        self, span: ClaimSpan, rows: int, first: Place, last: Place, at: float, tied: str | None = None
    ) -> None:
        """A claim, sent for ``span`` at the database's time ``at``, took ``rows``, in order ``first`` to ``last``.

        What is before ``last`` is claimed, left out, locked or refused: the head goes past it. A claim that was sent
        before what is left out changed says nothing about the head. ``tied``: they are many and share that place, and
        this is the last one's place in the table.
        """
        if span.version != self._version:
            return
        before = self._ties.pop((span.first, span.end), None)
        tie = None
        if tied is not None:
            now = self._clock()
            walk_at = now + max(_TIE_WALK, (now - self._sent_at) * _TIE_WALKS)
            tie = _Tie(tied, before.walk_at if before is not None and span.tid is not None else walk_at)
        self.margin.met(at - first[0])
        if span.is_stretch:
            self._took_stretch(span, after(last) if tie is None else last, tie)
            return
        self._count(rows, at)
        reached = min(last, (at - self.margin.seconds, float("-inf")))
        # A claim from the oldest entry on may have taken stragglers: what is behind them was not looked at.
        self.place = reached if span.first == BEFORE_ALL else max(self.place, reached)
        if tie is not None and self.place == last:
            if len(self._ties) > 2 * _MOST_STRETCHES:  # of places that were left by another way
                self._ties.clear()
            self._ties[last, BEHIND_ALL] = tie

    def found_nothing(self, span: ClaimSpan, seconds: float = float("inf")) -> None:
        """A claim, sent for ``span``, found nothing that it may take, and took so many ``seconds``."""
        if seconds <= CHEAP and (span.first, span.end, span.tid) == (BEFORE_ALL, BEHIND_ALL, None):
            self.quick_claim_at = self._clock()
        if span.version != self._version:
            return
        key = span.first, span.end
        if span.tid is not None:  # the rest of the tie, if there is any, is further on in the table
            self._ties[key] = _Tie(span.tid, walk_at=float("-inf"))
            return
        tie = self._ties.pop(key, None)
        if span.is_stretch:
            self._took_stretch(span, None)
        elif tie is not None and span.first == self.place:
            self.place = after(self.place)

    def waiting_from(self, span: ClaimSpan, rows: int, first: Place | None, at: float, *, whole: bool) -> None:
        """A claim in order per key, which leaves rows behind, took ``rows``; ``first`` is the first due one it saw.

        ``whole``: it saw all due rows there are. Where it did not, and could take none of those that it saw, the head
        goes back to a stretch: from there on claims look further, and go from key to key.
        """
        if span.version != self._version:
            return
        if first is not None:
            self.margin.met(at - first[0])
        if span.is_stretch:
            self._took_stretch(span, first if rows else None)
            if not rows and not whole:
                self.place = min(self.place, span.first)
            return
        self._count(rows, at)
        if first is not None:
            self.passed(span.first, first, at)

    def pass_over(self, span: ClaimSpan, first: Place, end: Place) -> None:
        """Claims, sent for ``span``, met rows from ``first`` on that the database refuses to change: go past ``end``.

        As past a locked row, but that looking behind leaves them to ``relay.outbox.passed_rows``.
        """
        if span.version != self._version:
            return
        low, high = self.refused or (first, end)
        self.refused = (min(low, first), max(high, end))
        if span.is_stretch:
            self._took_stretch(span, end)
        else:
            self.place = max(self.place, end)

    @property
    def behind_refused(self) -> Place:
        """The first place behind the rows that the database refuses to change."""
        return BEFORE_ALL if self.refused is None else self.refused[1]

    def is_refused(self, place: Place) -> bool:
        """Whether it is among rows that the database refuses to change."""
        return self.refused is not None and self.refused[0] <= place < self.refused[1]

    def _took_stretch(self, span: ClaimSpan, rest: Place | None, tie: _Tie | None = None) -> None:
        """A claim has looked at a stretch: go on at ``rest``, or let it go."""
        stretch = (span.first, span.end)
        if stretch in self._stretches:
            self._stretches.remove(stretch)
            if rest is not None and rest < span.end:
                insort(self._stretches, (rest, span.end))
                if tie is not None:
                    self._ties[rest, span.end] = tie

    def _count(self, rows: int, at: float) -> None:
        """A claim took so many more, at the database's time ``at``."""
        self._claimed += rows
        self.margin.claimed(rows)
        self.clock_is(at)

    def leave_out(self, things: Set[Thing]) -> None:
        """Claims that are sent from now on leave out ``things``, and nothing else.

        Of what was left out and no longer is, rows wait from where it was left out on: the next claim begins there.
        """
        if things == self._left_out.keys():
            return
        self._version += 1
        self._ties.clear()
        lowest = min([self.place, *(first for first, _ in self._stretches[:1])])
        by_name: dict[str, Place] = {}
        for (_, name), place in self._left_out.items():
            by_name[name] = min(place, by_name.get(name, BEHIND_ALL))
        before, self._left_out = self._left_out, {thing: min(lowest, by_name.get(thing[1], lowest)) for thing in things}
        for thing, place in before.items():
            if thing not in things and place < self.place:
                self.returned = place if self.returned is None else min(self.returned, place)
                self.add(place, min((place[0] + MARGIN, float("-inf")), self.place))

    def released(self, first: Place, last: Place, things: Iterable[Thing] = ()) -> None:
        """This relay released rows from ``first`` to ``last``; ``things`` may be left out, and these rows with them."""
        left_out = False
        for thing in things:
            if thing in self._left_out:
                left_out = True
                self._left_out[thing] = min(self._left_out[thing], first)
        if left_out:
            return
        if self.in_force:
            self.add(first, after(last))
        else:
            self.place = min(self.place, first)

    # What looks say.

    @property
    def has_room(self) -> bool:
        """Whether claims keep up with what looking behind finds."""
        return len(self._stretches) < _MOST_STRETCHES

    def add(self, first: Place, end: Place) -> None:
        """Rows wait between these places: claims take them next."""
        for stretch in [one for one in self._stretches if one[0] <= end and first <= one[1]]:
            self._stretches.remove(stretch)
            self._ties.pop(stretch, None)
            first, end = min(first, stretch[0]), max(end, stretch[1])
        insort(self._stretches, (first, end))

    def passed(self, begin: Place, end: Place, at: float) -> None:
        """From ``begin`` to ``end`` nothing waits that claims may take, at the database's time ``at``."""
        if begin <= self.place:
            self.place = max(self.place, min(end, (at - self.margin.seconds, float("-inf"))))

    def walked(self, free: Place | None, at: float, *, cheap: bool) -> None:
        """A walk from the oldest entry to the head came to the first row that claims may take; None: there is none."""
        self.walk_is_cheap = cheap
        self._claimed = 0
        if free is not None and free < self.place:
            if self.in_force and not self.is_refused(free):
                self.add(free, min((free[0] + MARGIN, float("-inf")), self.place))
            return
        self.place = max(self.place, min(free or BEHIND_ALL, (at - self.margin.seconds, float("-inf"))))
        self._stretches.clear()
        self.returned = None

    def clock_is(self, at: float) -> None:
        """The database's clock: where it was set back, the head goes back with it, by some seconds more."""
        if at < self.place[0]:
            self.place = (at - 2 * MARGIN, float("-inf"))
