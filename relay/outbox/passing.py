"""Rows that claims go past because the database refuses to change them: too many to be left out by their ids.

The head of claims (``relay.outbox.head``) remembers no row, only from where to where they are; claims begin behind
them. Between the claims they are tried again, and the good ones among them are found:

    ─── refused, and good ones among them ───┬─ head ── due rows ─── now
        └ read page by page, tried in quarters└ claims begin

- A page of ``PAGE`` rows is read and claimed as a whole; where that fails in quarters, down to single rows. Each call
  of ``claim`` takes ``_STEP`` seconds at most, so that claims from the head on go on beside it.
- Trying takes two thirds of the time at first, and ever less while nothing goes through, down to a twentieth. A round
  over all of them begins ``_PAUSE`` seconds after the last one at the earliest.
- When a round has met none that is refused, claims begin at the oldest row again.

Claims go past twice as many rows each time, while they bring nothing. A row that commits late, at a place among refused
ones, is found by the next round. Memory: two places and one page, however many rows are refused. Not in order per key,
where only claims know which row of a key may be next. Used by ``PostgresOutbox``; raises what the storage port raises.
"""

from __future__ import annotations

import math
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol

from relay.core.blame import MOST_ALIKE, kept, quarters
from relay.core.errors import StorageError
from relay.core.event import EventId
from relay.outbox.head import BEFORE_ALL, BEHIND_ALL, ClaimSpan, Head, Place, after

PAGE: Final = 100
"""Rows that are tried again together."""
_SAMPLE: Final = 1000  # rows from which controls are chosen, and most that claims go past at once
_STEP: Final = 0.05  # seconds
_PAUSE: Final = (1.0, 30.0)  # seconds between two rounds, the first and the longest one
_SLOWER: Final = 1.001  # by which each step makes the next one wait longer
_QUICKEST: Final = 0.5  # of the time that a step took
_SLOWEST: Final = 19.0
BEFORE_ALL_ROWS: Final = "(0,0)"
"""Before every row of a table."""

Row = tuple[Any, ...]
Take = Callable[[Sequence[EventId]], Awaitable[list[Row]]]
"""Claim some rows, by their ids."""


class DueRow(NamedTuple):
    """A row that waits, and where."""

    event_id: EventId
    event_type: str
    partition_key: str | None
    due: float
    created: float
    tid: str

    @property
    def place(self) -> Place:
        """Its place in the order of claims."""
        return self.due, self.created


class ReadDue(Protocol):
    """Reads the first rows of a span that claims may take; behind ``tid`` of those at the span's first place."""

    def __call__(
        self,
        span: ClaimSpan,
        limit: int,
        tid: str = BEFORE_ALL_ROWS,
        *,
        chosen: Sequence[EventId] = (),
        newest: bool = False,
    ) -> Awaitable[list[DueRow]]:
        """The rows in the order of claims; with ``newest`` the last ones, backwards."""


class PassedRows:
    """What one relay's claims have gone past. One caller at a time."""

    def __init__(self, head: Head, clock: Callable[[], float] = time.monotonic) -> None:
        self._head = head
        self._clock = clock
        self._errors: list[StorageError] = []
        self._named: tuple[ClaimSpan, DueRow] | None = None
        self._go_past: tuple[ClaimSpan, DueRow] | None = None
        self._rows_past = 1
        self._groups: deque[Sequence[EventId]] = deque()
        """Of the page that is being tried."""
        self._places: dict[EventId, Place] = {}
        self._cursor: tuple[Place, str] | None = None
        """Where the next page of the round begins; None before a round."""
        self._first_refused: Place | None = None
        """Of this round."""
        self._next_at = float("-inf")
        self._pace = _QUICKEST
        self._most = 1
        """Rows of a page: as many as a claim has had, and as a page may have."""
        self._pause = _PAUSE[0]
        self._controls_before = BEHIND_ALL

    def named(self, span: ClaimSpan, row: DueRow) -> None:
        """This row alone failed in a claim that was sent for ``span``."""
        self._named = span, row

    def pass_over(self, event_id: EventId) -> None:
        """Claims go past this row, which was named last."""
        if self._named is not None and self._named[1].event_id == event_id:
            self._go_past = self._named

    def went_on(self) -> None:
        """A claim from the head on brought rows."""
        self._rows_past = 1

    def takes(self, span: ClaimSpan, error: StorageError) -> bool:
        """Whether a stretch behind the head that failed is left to this module: where there are refused rows."""
        if self._head.refused is None or not error.may_blame_row:
            return False
        self._head.pass_over(span, span.first, span.end)
        return True

    @property
    def rest(self) -> float:
        """Seconds until rows are tried again; infinite where there are none."""
        return math.inf if self._head.refused is None else max(self._next_at - self._clock(), 0.0)

    def errors(self) -> tuple[StorageError, ...]:
        """The refusals since the last call, each with its row."""
        errors, self._errors = self._errors, []
        return tuple(errors)

    async def claim(self, limit: int, read: ReadDue, take: Take) -> list[Row]:
        """Go past what was named, then try rows again where that is due; returns those that are claimed."""
        self._most = max(self._most, min(limit, PAGE))
        if self._go_past is not None:
            named, self._go_past = self._go_past, None
            await self._pass(read, named)
        began = self._clock()
        if self._head.refused is None or began < self._next_at:
            return []
        rows: list[Row] = []
        while not rows and self._clock() - began < _STEP:
            if not self._groups and not await self._next_page(read):
                break
            rows = await self._try(self._groups.popleft(), read, take)
        self._pace = 0.0 if rows else min(max(self._pace, _QUICKEST) * _SLOWER, _SLOWEST)
        self._next_at = max(self._next_at, self._clock() + (self._clock() - began) * self._pace)
        return rows

    async def control(self, read: ReadDue, take: Take) -> list[Row]:
        """Try up to 20 rows from elsewhere, one by one, until one goes through: of distinct keys, then any."""
        sample = await read(ClaimSpan(BEFORE_ALL, self._controls_before, 0), _SAMPLE, newest=True)
        at_the_end = len(sample) < _SAMPLE
        self._controls_before = BEHIND_ALL if at_the_end else sample[-1].place
        distinct = list({(row.event_type, row.partition_key): row for row in reversed(sample)}.values())[-MOST_ALIKE:]
        others = random.sample(sample, min(MOST_ALIKE, len(sample)))
        for row in [*reversed(distinct), *others][:MOST_ALIKE]:
            try:
                if rows := await take([row.event_id]):
                    return rows
            except StorageError as error:
                if not error.may_blame_row:
                    raise
        return []

    async def _pass(self, read: ReadDue, named: tuple[ClaimSpan, DueRow]) -> None:
        span, row = named
        rows = [row]
        if self._rows_past > 1:
            rows += await read(span._replace(first=row.place), self._rows_past, row.tid)
        self._head.pass_over(span, row.place, after(rows[-1].place))
        self._rows_past = min(self._rows_past * 2, _SAMPLE)

    async def _next_page(self, read: ReadDue) -> bool:
        """Read the next page of the round; False where it is over."""
        if self._head.refused is None:
            return False
        low, high = self._head.refused
        place, tid = self._cursor or (low, BEFORE_ALL_ROWS)
        page = await read(ClaimSpan(place, high, 0), self._most, tid)
        if page:
            self._cursor = page[-1].place, page[-1].tid
            self._places = {row.event_id: row.place for row in page}
            self._groups.append([row.event_id for row in page])
            return True
        self._cursor = None
        self._head.refused = None if self._first_refused is None else (self._first_refused, high)
        self._next_at = self._clock() + self._pause
        self._pause = min(self._pause * 2, _PAUSE[1])
        self._first_refused = None
        return False

    async def _try(self, event_ids: Sequence[EventId], read: ReadDue, take: Take) -> list[Row]:
        """Claim these rows; what is left of them is tried next, in parts."""
        try:
            rows = await take(event_ids)
        except StorageError as error:
            if not error.may_blame_row:
                raise
            if len(event_ids) > 1:
                self._groups.extendleft(reversed(quarters(event_ids)))
            else:
                self._refuse(event_ids[0], error)
            return []
        if not rows:  # they are locked, or gone, or a trigger keeps them
            for row in await read(ClaimSpan(BEFORE_ALL, BEHIND_ALL, 0), len(event_ids), chosen=event_ids):
                self._refuse(row.event_id, kept("claiming"))
            return []
        claimed = {row[0] for row in rows}
        if rest := [event_id for event_id in event_ids if event_id not in claimed]:
            self._groups.appendleft(rest)
        self._pause = _PAUSE[0]
        return rows

    def _refuse(self, event_id: EventId, error: StorageError) -> None:
        error.event_id = event_id
        self._errors.append(error)
        self._first_refused = min(self._first_refused or BEHIND_ALL, self._places.get(event_id, BEHIND_ALL))
