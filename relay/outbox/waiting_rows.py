"""Looking for rows that wait: where claims begin at the start, and what appears behind the head afterwards.

``relay.outbox.head`` says what is looked for and by when it is found. ``Looks`` decides which part of the index is
walked next, and how far; a ``Walk`` does it: one statement, bounded in time. Called by ``PostgresOutbox`` over the
connection of the slow reads. Raises what the walk raises; then the next call goes on where this one began.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from relay.core.storage import Rest
from relay.outbox.head import CHEAP, Head
from relay.outbox.margin import MARGIN
from relay.outbox.span import BEFORE_ALL, BEHIND_ALL, Place, after

SHARE: Final = 0.05
"""Most of the time that looking behind the head takes."""
DEPTHS: Final = (4.0, 120.0)
"""Seconds before the head that rounds of their own look at; a third round looks at all before it."""
TIMEOUT: Final = 0.2
"""Seconds after which a step of a walk is cancelled, and tried again in smaller ones."""
_PARTS: Final = (0.25, 0.375, 0.25, 0.125)  # of SHARE: the rounds of DEPTHS, that over all, and what was left out
_QUICK: Final = 0.012  # seconds; a step that took less is followed by one twice as wide
_SLOW: Final = 0.05  # seconds
_START: Final = 0.25  # seconds of the walk from the oldest entry on, before the first claim
_TRY_AGAIN: Final = 5.0  # seconds between two walks from the oldest entry on, while these are not cheap
_MOST_STRAGGLERS: Final = 4  # rows behind the head that a walk from the oldest entry on goes past
_ROUND: Final = 1.0  # seconds of a round at least
_STATEMENT: Final = 0.001  # seconds that a statement costs both sides besides its walk
_FIRST_STEP: Final = 2.0**33  # seconds
_FAR: Final = 15 / 16  # of what is left of a round
_NARROWEST: Final = 1e-3  # seconds; entries that are closer are walked in one step, however long it takes
_LONGEST_ADVANCE: Final = 0.5  # seconds of one call that move the head over rows that are left out
_LONGEST_STEP: Final = 10.0  # seconds
_NO_REST: Final = 0.01  # seconds


class Look(NamedTuple):
    """What one walk saw."""

    at: float
    """The database's time."""
    seconds: float
    """What it cost the server."""
    free: Place | None
    """The first row that claims may take."""
    end: Place | None
    """Right behind the last row looked at, where there were more than one walk looks at."""


Walk = Callable[[Place, Place, float], Awaitable[Look | None]]
"""Look from a place to another one, for so many seconds at most; None when that was not enough."""


@dataclass(slots=True)
class Round:
    """One round of looking behind: from a depth up to the next smaller one, over and over."""

    outer: float
    inner: float
    part: float
    due_at: float = float("-inf")
    cursor: Place | None = None
    width: float = float("inf")
    began_at: float = 0.0
    ended: bool = True
    timeout: float = TIMEOUT

    def begin(self, now: float) -> None:
        """The next time round."""
        self.began_at, self.cursor, self.width, self.ended = now, None, float("inf"), False

    def step(self, head: Place) -> tuple[Place, Place, Place]:
        """From where to where the next step goes, and the end of the round."""
        limit = (head[0] - self.inner, head[1] if self.inner == 0.0 else float("-inf"))
        first = self.cursor or (head[0] - self.outer, float("-inf"))
        return first, next_end(first, limit, self.width), limit

    def took(self, seconds: float, *, complete: bool) -> None:
        """Adapt to what a step cost: it was walked to its end, or to a row, or was cancelled."""
        if seconds > _SLOW:
            self.width = max(self.width / 2, _NARROWEST)
        elif complete and seconds < _QUICK:
            self.width *= 2

    def narrow(self, covered: float) -> bool:
        """A step over so many seconds was cancelled: try a smaller one, or give it longer. False: pass it over."""
        if _NARROWEST < covered < float("inf"):
            self.width = max(covered / 8, _NARROWEST)
            return True
        self.timeout *= 4
        return self.timeout < _LONGEST_STEP


def next_end(first: Place, limit: Place, width: float) -> Place:
    """Where a step from ``first`` ends: short of ``limit`` while that is far: most entries are near the present."""
    left = limit[0] - first[0]
    if left <= _NARROWEST:
        return limit
    if left == float("inf"):
        return (limit[0] - _FIRST_STEP, float("-inf"))
    step = min(width, left * _FAR if left > 1.0 else left)
    return min((first[0] + step, float("-inf")), limit)


class Looks:
    """The looks of one relay."""

    def __init__(self, head: Head, clock: Callable[[], float] = time.monotonic) -> None:
        self._head = head
        self._clock = clock
        depths = (0.0, *DEPTHS, float("inf"))
        self._rounds = [
            Round(outer, inner, part) for inner, outer, part in zip(depths, depths[1:], _PARTS, strict=False)
        ]
        self._returned = Round(0.0, 0.0, _PARTS[-1])
        self._dear = 0
        """Walks from the oldest entry on, in a row, that were not cheap."""
        self._walk_at = float("-inf")

    async def find(self, walk: Walk) -> None:
        """Find the head, in steps, before the first claim."""
        for last in (False, False, True):  # a busy machine makes a walk slow, too
            look = await walk(BEFORE_ALL, BEHIND_ALL, _START)
            if look is None:
                break
            cheap = look.end is None and look.seconds <= CHEAP
            if cheap or last:
                self._head.walked(look.free, look.at, cheap=cheap)
                return
        clock = await walk(BEHIND_ALL, BEHIND_ALL, _START)
        if clock is None:
            return  # the next look tries again
        whole, present, free = Round(float("inf"), 0.0, 1.0), (clock.at, float("-inf")), None
        whole.begin(0.0)
        while free is None and not whole.ended:
            free = await self._take_step(whole, present, walk)
        self._head.walked(None, clock.at, cheap=False)
        if free is not None:
            self._head.place = min(free, self._head.place)

    async def look(self, walk: Walk) -> Rest:
        """One call: see what is cheap, move the head, and look on behind it."""
        head = self._head
        # An idle relay sees now and then what others have delivered, unless its own claims show that this is little.
        walk_at = max(self._walk_at, head.quick_claim_at + _TRY_AGAIN)
        if (head.walk_is_cheap and head.claimed_since_walk) or self._clock() >= walk_at:
            await self._walk_all(walk)
        if not head.in_force:
            return Rest(0.25 if head.margin.seconds < MARGIN else 1.0, claimable=False)
        if head.place[0] == BEFORE_ALL[0]:
            await self.find(walk)
        await self._advance(walk)
        claimable = False
        self._returned.outer = head.place[0] - head.returned[0] if head.returned is not None else 0.0
        rounds = self._rounds if head.returned is None else [*self._rounds, self._returned]
        for one in rounds:
            if head.has_room and one.due_at <= self._clock():
                claimable |= await self._behind(one, walk)
        rest = min(one.due_at for one in rounds) - self._clock()
        return Rest(min(max(rest, _NO_REST), 0.25), claimable)

    async def _walk_all(self, walk: Walk) -> None:
        """Walk from the oldest entry to the head, for as long as claims may take for it."""
        head = self._head
        first_free, begin, seconds = None, BEFORE_ALL, 0.0
        for _ in range(_MOST_STRAGGLERS):
            look = await walk(begin, BEHIND_ALL, 8 * CHEAP)
            if look is None or look.end is not None:
                break
            head.clock_is(look.at)
            seconds += look.seconds
            first_free = first_free or look.free
            if look.free is None or look.free >= head.place:
                # A busy machine makes a walk slow, too: one alone says nothing.
                self._dear = 0 if seconds <= CHEAP else self._dear + 1
                head.walked(first_free, look.at, cheap=not self._dear or (head.walk_is_cheap and self._dear < 2))
                break
            begin = after(look.free)
        else:
            look = None
        if look is None or look.end is not None:
            head.walk_is_cheap = False
        self._walk_at = self._clock() + _TRY_AGAIN

    async def _advance(self, walk: Walk) -> None:
        """Move the head over what claims cannot take: rows left out, and what other relays have delivered."""
        head = self._head
        if head.in_tie:
            return
        began = self._clock()
        width = float("inf")
        while self._clock() - began < _LONGEST_ADVANCE:
            first = head.place
            end = BEHIND_ALL if width == float("inf") else (first[0] + width, float("-inf"))
            look = await walk(first, end, TIMEOUT)
            if look is None:
                width = width / 8 if width < float("inf") else 60.0
                continue
            head.clock_is(look.at)
            present = (look.at, float("-inf"))
            head.passed(first, look.free or look.end or min(end, present), look.at)
            if look.free is not None or (look.end is None and end >= present):
                return

    async def _behind(self, one: Round, walk: Walk) -> bool:
        """One step of a round; returns whether it found something to claim."""
        head = self._head
        if one.ended:
            one.begin(self._clock())
        _, end, limit = one.step(head.place)
        free = await self._take_step(one, head.place, walk)
        if free is not None and head.is_refused(free):
            free, one.cursor = None, head.behind_refused
            one.ended = one.cursor >= limit
        if free is not None and free < head.place:
            head.add(free, min(end, head.place))
        if one.ended:
            one.due_at = max(one.due_at, one.began_at + _ROUND)
            if one is self._returned:
                head.returned = None
        return free is not None

    async def _take_step(self, one: Round, head: Place, walk: Walk) -> Place | None:
        """Walk one step, move the round's cursor, and say when its next step is due; the row that it found."""
        first, end, limit = one.step(head)
        began = self._clock()
        look = await walk(first, end, one.timeout)
        seconds = self._clock() - began if look is None else look.seconds
        one.due_at = self._clock() + (seconds + _STATEMENT) / (SHARE * one.part)
        if look is None and one.narrow(end[0] - first[0]):
            return None
        one.timeout = TIMEOUT
        free, rest = (None, None) if look is None else (look.free, look.end)
        if look is not None:
            one.took(look.seconds, complete=free is None)
        one.cursor = rest if rest is not None and free is None else end
        one.ended = one.cursor >= limit
        return free
