"""Rows that claims go past because the database refuses to change them: too many to be left out by their ids.

The head of claims (``relay.outbox.head``) remembers no row, only from where to where they are; claims begin behind
them. Between the claims they are tried again, and the good ones among them are found:

    ─── refused, and good ones among them ───┬─ head ── due rows ─── now
        └ read page by page, tried in quarters└ claims begin

- A page of ``PAGE`` rows is read and claimed as a whole; where that fails in quarters, down to single rows, or in
  single rows at once, where most of the last page were refused. Each call of ``claim`` takes ``_STEP`` seconds at most,
  so that claims from the head on go on beside it.
- Trying takes two thirds of the time at first, and ever less while nothing goes through, down to a twentieth. A round
  over all of them begins ``_PAUSE`` seconds after the last one at the earliest.
- When a round has met none that is refused, claims begin at the oldest row again.

Where ``MOST_ALIKE`` rows of one event type failed alone and none of that type went through since the first of them,
claims leave out the type instead (``relay.outbox.left_out``), so that events of other types among them are claimed as
ever. Its rows are tried again in the same rounds, the newest ones between the others. With the first that
goes through, the type is left out no more, and what is behind the head is refused rows and good ones among them.

Claims go past twice as many rows each time, while they bring nothing. A row that commits late, at a place among refused
ones, is found by the next round. Memory: two places and one page, however many rows are refused.

In order per key, claims go past all that is before a refused row, too: what waits there behind others of its key. A
try claims, of the rows of a page, those that are the first of their keys; a walk from key to key leaves out those that
claims have gone past. No type is left out. Used by ``PostgresOutbox``; raises what the storage port raises.
"""

from __future__ import annotations

import logging
import math
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from relay.core.blame import MOST_ALIKE, kept, quarters
from relay.core.errors import StorageError
from relay.core.event import EventId, OutboxEvent
from relay.outbox.left_out import PausedRows
from relay.outbox.span import BEFORE_ALL, BEHIND_ALL, ClaimSpan, Place, after

logger = logging.getLogger(__name__)

PAGE: Final = 100
"""Rows that are tried again together."""
_SAMPLE: Final = 1000  # rows from which controls are chosen, and most that claims go past at once
_STEP: Final = 0.05  # seconds
_PAUSE: Final = (1.0, 30.0)  # seconds between two rounds, the first and the longest one
_PAUSE_IN_ORDER: Final = 0.05  # after a round that brought rows: each of them lets in the next one of its key
_SLOWER: Final = 1.001  # by which each step makes the next one wait longer
_QUICKEST: Final = 0.5  # of the time that a step took
_SLOWEST: Final = 19.0
_MOST_TYPES: Final = 100  # that are left out, or counted
BEFORE_ALL_ROWS: Final = "(0,0)"
"""Before every row of a table."""
_TYPE: Final = OutboxEvent._fields.index("event_type")

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
        types: Sequence[str] = (),
    ) -> Awaitable[list[DueRow]]:
        """The rows in the order of claims, ``chosen`` or of ``types`` alone; with ``newest`` the last, backwards."""


@dataclass(slots=True)
class _Part:
    """What a round has left to read: from where to where, and of which types alone."""

    place: Place
    end: Place
    types: Sequence[str] = ()
    tid: str = BEFORE_ALL_ROWS


class PassedRows:
    """What one relay's claims have gone past. One caller at a time."""

    def __init__(self, paused: PausedRows, *, in_order: bool) -> None:
        self._paused = paused
        self._in_order = in_order
        self._head = paused.head
        self._errors: list[StorageError] = []
        self._named: tuple[ClaimSpan, DueRow] | None = None
        self._go_past: list[tuple[ClaimSpan, DueRow]] = []
        self._rows_past = 1
        self._groups: deque[Sequence[EventId]] = deque()
        """Of the page that is being tried."""
        self._rows: dict[EventId, DueRow] = {}
        self._failed = 0
        """How many of that page."""
        self._pages = 0
        self._singly = False
        """Whether most of the page before were refused."""
        self._round: deque[_Part] = deque()
        """What is left of it."""
        self._first_refused: Place | None = None
        """Of this round."""
        self._alike: dict[str, dict[EventId, Place]] = {}
        """By event type: rows that failed alone since one of it went through."""
        self._types: dict[str, Place] = {}
        """Event types that claims leave out, and where the first of their rows are."""
        self._still_refused: set[str] = set()
        """Of these, in this round."""
        self._next_at = float("-inf")
        self._pace = _QUICKEST
        self._most = 1
        """Rows of a page: as many as a claim has had, and as a page may have."""
        self._pause = _PAUSE[0]
        self._controls_before = BEHIND_ALL

    def named(self, span: ClaimSpan, row: DueRow) -> None:
        """This row alone failed in a claim that was sent for ``span``."""
        self._named = span, row
        if len(self._alike) < _MOST_TYPES or row.event_type in self._alike:
            alike = self._alike.setdefault(row.event_type, {})
            if len(alike) < MOST_ALIKE:
                alike[row.event_id] = row.place

    def pass_over(self, event_id: EventId) -> None:
        """Claims go past this row, which was named last, or leave out its type."""
        if self._named is None or self._named[1].event_id != event_id:
            return
        name = self._named[1].event_type
        alike = self._alike.get(name, {})
        if self._in_order or len(alike) < MOST_ALIKE or len(self._types) >= _MOST_TYPES:
            self._go_past.append(self._named)
        elif name not in self._types:
            self._types[name] = min(alike.values())
            self._paused.refuse(list(self._types))
            logger.error(
                "the database refuses each event of type %s: claims leave the type out, and try its events again "
                "beside the others",
                name,
                extra={"action": "type_refused", "event_type": name},
            )

    def went_on(self, rows: Sequence[Row]) -> None:
        """A claim from the head on brought these rows."""
        self._rows_past = 1
        self._went_through(rows)

    def _went_through(self, rows: Sequence[Row]) -> None:
        if not self._alike:
            return
        for name in {row[_TYPE] for row in rows}:
            self._alike.pop(name, None)
            if name in self._types:
                self._let_in(name)

    def _let_in(self, name: str) -> None:
        """Not each row of this type is refused: claims take it again, but for what is behind the head."""
        first, tid = self._types.pop(name), BEFORE_ALL_ROWS
        self._paused.refuse(list(self._types))
        if name in self._still_refused:
            self._first_refused = min(self._first_refused or BEHIND_ALL, first)
        if first >= self._head.place:
            return
        self._head.pass_over(self._head.ahead(), first, self._head.place)
        for part in [one for one in self._round if name in one.types]:
            part.types = [one for one in part.types if one != name]
            first, tid = part.place, part.tid
            if not part.types:
                self._round.remove(part)
        self._round.append(_Part(first, self._head.place, tid=tid))

    def takes(self, span: ClaimSpan, error: StorageError) -> bool:
        """Whether a stretch behind the head that failed is left to this module: where there are refused rows."""
        if self._head.refused is None or not error.may_blame_row:
            return False
        self._head.pass_over(span, span.first, span.end)
        return True

    @property
    def rest(self) -> float:
        """Seconds until rows are tried again; infinite where there are none."""
        return max(self._next_at - time.monotonic(), 0.0) if self._any else math.inf

    @property
    def _any(self) -> bool:
        """Whether there are rows to be tried again."""
        return self._head.refused is not None or bool(self._types)

    def errors(self) -> tuple[StorageError, ...]:
        """The refusals since the last call, each with its row."""
        errors, self._errors = self._errors, []
        return tuple(errors)

    async def claim(self, limit: int, read: ReadDue, take: Take) -> list[Row]:
        """Go past what was named, then try rows again where that is due; returns those that are claimed."""
        self._most = max(self._most, min(limit, PAGE))
        while self._go_past:
            await self._pass(read, self._go_past.pop())
        began = time.monotonic()
        if not self._any or began < self._next_at:
            return []
        rows: list[Row] = []
        while not rows and time.monotonic() - began < _STEP:
            if not self._groups and not await self._next_page(read):
                break
            rows = await self._try(self._groups.popleft(), read, take)
        self._pace = 0.0 if rows else min(max(self._pace, _QUICKEST) * _SLOWER, _SLOWEST)
        self._next_at = max(self._next_at, time.monotonic() + (time.monotonic() - began) * self._pace)
        return rows

    async def control(self, read: ReadDue, take: Take) -> list[Row]:
        """Try up to 20 rows from elsewhere, one by one, until one goes through: of distinct keys, then any."""
        sample = await read(ClaimSpan(BEFORE_ALL, self._controls_before, 0), _SAMPLE, newest=True)
        at_the_end = len(sample) < _SAMPLE
        self._controls_before = BEHIND_ALL if at_the_end else sample[-1].place
        distinct = list({(row.event_type, row.partition_key): row for row in reversed(sample)}.values())
        others = random.sample(sample, min(MOST_ALIKE, len(sample)))
        for row in [*reversed(distinct[-MOST_ALIKE // 2 :]), *others][:MOST_ALIKE]:
            try:
                if rows := await take([row.event_id]):
                    self._went_through(rows)
                    return rows
            except StorageError as error:
                if not error.may_blame_row:
                    raise
        return []

    async def _pass(self, read: ReadDue, named: tuple[ClaimSpan, DueRow]) -> None:
        span, row = named
        rows = [row]
        if self._rows_past > 1:
            rows += await read(span._replace(first=row.place, tid=None), self._rows_past, row.tid)
        self._head.pass_over(span, span.first if self._in_order else row.place, after(rows[-1].place))
        self._rows_past = min(self._rows_past * 2, _SAMPLE)

    async def _next_page(self, read: ReadDue) -> bool:
        """Read the next page of the round; False where it is over."""
        if not self._round and self._any:
            if self._head.refused is not None:
                self._round.append(_Part(*self._head.refused))
            if self._types:
                self._round.append(_Part(min(self._types.values()), BEHIND_ALL, list(self._types)))
        while self._round:
            part = self._round[0]
            span = ClaimSpan(part.place, part.end, 0)
            self._pages += 1
            newest = bool(part.types) and self._pages % 2 == 0
            most = min(self._most, MOST_ALIKE) if newest else self._most
            if page := await read(span, most, part.tid, newest=newest, types=part.types):
                if not newest:
                    part.place, part.tid = page[-1].place, page[-1].tid
                self._rows = {row.event_id: row for row in page}
                self._singly = self._failed > len(page) // 2
                self._failed = 0
                self._groups.append([row.event_id for row in page])
                return True
            self._round.popleft()
        self._end_round()
        return False

    def _end_round(self) -> None:
        if self._head.refused is not None:
            low, high = self._head.refused
            if self._first_refused is None:
                self._head.refused = None
                if self._in_order:  # rows wait there that were not the first of their keys
                    self._head.place = min(self._head.place, low)
            elif not self._in_order:
                self._head.refused = (self._first_refused, high)
        for name in [one for one in self._types if one not in self._still_refused]:
            self._let_in(name)
        self._next_at = time.monotonic() + self._pause
        self._pause = min(self._pause * 2, _PAUSE[1])
        self._first_refused = None
        self._still_refused.clear()

    async def _try(self, event_ids: Sequence[EventId], read: ReadDue, take: Take) -> list[Row]:
        """Claim these rows; what is left of them is tried next, in parts."""
        try:
            rows = await take(event_ids)
        except StorageError as error:
            if not error.may_blame_row:
                raise
            if len(event_ids) > 1:
                parts = [[one] for one in event_ids] if self._singly else quarters(event_ids)
                self._groups.extendleft(reversed(parts))
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
        self._pause = _PAUSE_IN_ORDER if self._in_order else _PAUSE[0]
        self._went_through(rows)
        return rows

    def _refuse(self, event_id: EventId, error: StorageError) -> None:
        error.event_id = event_id
        self._errors.append(error)
        self._failed += 1
        row = self._rows.get(event_id)
        if row is not None and row.event_type in self._types:
            self._still_refused.add(row.event_type)
        else:
            self._first_refused = min(self._first_refused or BEHIND_ALL, BEHIND_ALL if row is None else row.place)
