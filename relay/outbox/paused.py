"""Paused rows: what claims leave out, and where they begin, so that a million paused rows cost other claims nothing.

Two sorts of rows are left out: those that operators paused, and those whose destinations do not answer
(``relay.engine.away``). Both are due and stay due, and wait in any number, for hours: so both use one mechanism. To
name the second sort in each claim alone (as claims leave slow destinations out, for a moment and with few rows) would
make every claim step over all of them. Only the first sort is not late: the lag leaves out that one alone.

A claim walks the due rows from the oldest on. Paused rows stay there as they are, so every claim would step over all of
them. The *head* is a place in that order before which every row was paused when it was last looked at; claims begin at
it. It is memory of one relay: nothing in the table changes, and a relay that restarts looks again.

- It moves forward as claims take rows, and once a second over paused rows that have become the oldest.
- It never comes nearer to the present than ``MARGIN`` seconds: a transaction has the time of its begin and becomes
  visible at its commit, so rows may appear behind the newest.
- A head belongs to what is left out with it. What is left out changes often while a destination does not answer,
  since a claim now and then tries it: so the heads of the last few sets are remembered, and a head holds for every
  larger set as well.
- A twentieth of the time is spent on looking behind it, from the oldest row on, over and over: for a row of a longer
  transaction, one that another relay released, one that was inserted with an old ``available_at``. What is there takes
  the head back. So such a row waits for one such round at most: for a million paused rows that is seconds.

Statements of ``look`` are bounded in rows, and use the connection that nothing else waits for, never that of a claim.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from relay.core.event import Fence
from relay.core.pause import Pause, PauseScope, PauseTarget
from relay.outbox.pauses import read_for_claims
from relay.postgres.connect import Connection
from relay.postgres.sql import TableName, statement

MARGIN: Final = 2.0
"""Seconds before the present that the head never enters."""
_ROWS: Final = 10_000  # of one look; some milliseconds
_LONGEST_ADVANCE: Final = 0.5  # seconds a round, while the head is behind rows that have just been paused
_LONGEST_LOOK_BEHIND: Final = 0.05  # seconds a round
_REMEMBERED: Final = 16  # sets of patterns whose heads are known

Place = tuple[float, float]
"""``available_at`` and ``created_at`` in seconds since 1970: the order of claims."""
LeftOut = tuple[str, bool]
"""A pattern, and whether it is for the events alone that some of their destinations have acknowledged."""
BEFORE_ALL: Final[Place] = (float("-inf"), float("-inf"))


class Look(NamedTuple):
    """What one look at the due rows saw."""

    rows: int
    free: Place | None
    """The first row that is not paused."""
    end: Place | None
    """Right behind the last row."""


class PausedRows:
    """The pauses in force and the head. Claims read them; the loop that reads the pauses writes them."""

    def __init__(
        self, table: TableName, clock: Callable[[], float] = time.monotonic, rows_per_look: int = _ROWS
    ) -> None:
        self._clock = clock
        self._rows_per_look = rows_per_look
        self._outbox = table
        self._look_sql = statement("outbox/pause:look", table)
        self._look_in_part_sql = statement("outbox/pause:look", table, tags=["in_part"])
        self._guard = statement("outbox/claim:guard", table)
        self.pauses: Sequence[Pause] = ()
        self._away: Sequence[str] = ()
        """Event types whose destinations do not answer."""
        self._away_in_part: Sequence[str] = ()
        """Those of which only one of several does not."""
        self._paused: list[str] = []
        """What LIKE matches in the event types that operators paused."""
        self.patterns: list[str] = []
        """What LIKE matches in all event types that claims leave out; empty while there is none."""
        self.in_part: list[str] = []
        """Likewise in those of which they leave out only what some destinations have acknowledged."""
        self.head = BEFORE_ALL
        self._behind = BEFORE_ALL
        """How far the look behind the head has come."""
        self._remembered: dict[frozenset[LeftOut], tuple[Place, Place]] = {}
        """Head and ``_behind`` of other sets of patterns."""

    @property
    def everything(self) -> bool:
        """Whether the whole outbox is paused, so that no claim is needed."""
        return any(pause.target.scope is PauseScope.ALL for pause in self.pauses)

    @property
    def tags(self) -> tuple[str, ...]:
        """The tag of claims that leave rows out; empty while they leave out none."""
        if self.in_part:
            return ("paused", "in_part")
        return ("paused",) if self.patterns else ()

    def parameters(self) -> dict[str, Any]:
        """The parameters of such claims."""
        return _parameters(self.head, self.patterns, self.in_part)

    def of_the_lag(self) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Tags and parameters of statements about what is late: rows that operators paused are not."""
        if self._paused == self.patterns and not self.in_part:
            return self.tags, self.parameters()
        head, _ = self._known_head(_left_out(self._paused))
        return (("paused",) if self._paused else ()), _parameters(head, self._paused)

    def claimed(self, patterns: list[str], last: Place, claimed_at: Fence) -> None:
        """Move the head to the last row of a claim: what is before it was claimed, or is paused, or locked.

        ``patterns`` are those of the claim: one that was sent before the pauses changed says nothing about them.
        """
        if patterns is self.patterns and last[0] < claimed_at.timestamp() - MARGIN:
            self.head = max(self.head, last)

    async def read(self, connection: Connection) -> Sequence[Pause]:
        """Read the pauses in force; claims that are sent from now on obey them."""
        self.set(await read_for_claims(connection, self._outbox))
        return self.pauses

    def set(self, pauses: Sequence[Pause]) -> None:
        """Take over the pauses in force."""
        self.pauses = pauses
        self._change()

    def leave_out(self, event_types: Sequence[str], in_part: Sequence[str] = ()) -> None:
        """Take over the event types whose destinations do not answer, and those of which one of several does not."""
        self._away, self._away_in_part = event_types, in_part
        self._change()

    def _change(self) -> None:
        """Where other rows are left out than before, begin at the furthest place that is known for them."""
        self._paused = sorted({pause.target.pattern for pause in self.pauses})
        away = {PauseTarget(PauseScope.TYPE, event_type).pattern for event_type in self._away}
        patterns = sorted(away.union(self._paused))
        in_part = sorted(PauseTarget(PauseScope.TYPE, event_type).pattern for event_type in self._away_in_part)
        if (patterns, in_part) == (self.patterns, self.in_part):
            return
        if before := _left_out(self.patterns, self.in_part):
            self._remembered.pop(before, None)
            self._remembered[before] = self.head, self._behind
        while len(self._remembered) > _REMEMBERED:
            del self._remembered[next(iter(self._remembered))]
        self.in_part = in_part
        self.patterns = patterns
        self.head, self._behind = self._known_head(_left_out(patterns, in_part))

    def _known_head(self, within: frozenset[LeftOut]) -> tuple[Place, Place]:
        """The furthest head of a set that leaves out no more than this one."""
        heads = (heads for one, heads in self._remembered.items() if one <= within)
        return max(heads, default=(BEFORE_ALL, BEFORE_ALL))

    async def look(self, connection: Connection) -> None:
        """One round: move the head forward over paused rows, and look on behind it."""
        if not self.tags:
            return
        began = self._clock()
        while self._clock() - began < _LONGEST_ADVANCE:
            look = await self._look(connection, self.head)
            self.head = max(self.head, look.free or look.end or self.head)
            if look.free is not None or look.rows < self._rows_per_look:
                break
        began = self._clock()
        while self._behind < self.head and self._clock() - began < _LONGEST_LOOK_BEHIND:
            look = await self._look(connection, self._behind)
            if look.free is not None and look.free < self.head:
                self.head, self._behind = look.free, BEFORE_ALL
                return
            self._behind = look.end or self.head
        if self._behind >= self.head:
            self._behind = BEFORE_ALL

    async def _look(self, connection: Connection, begin: Place) -> Look:
        due, created = begin
        bounds = {"due_from": due, "created_from": created, "margin": MARGIN, "rows": self._rows_per_look}
        cursor = connection.cursor(binary=True)
        async with connection.pipeline():  # one round trip, one transaction
            await connection.execute(self._guard)
            sql = self._look_in_part_sql if self.in_part else self._look_sql
            await cursor.execute(sql, {**bounds, "paused": self.patterns, "in_part": self.in_part})
        [(rows, free_due, free_created, end_due, end_created)] = await cursor.fetchall()
        free = None if free_due is None else (free_due, free_created)
        return Look(rows, free, None if end_due is None else (end_due, end_created))


def _parameters(head: Place, patterns: list[str], in_part: Sequence[str] = ()) -> dict[str, Any]:
    due, created = head
    return {"due_from": due, "created_from": created, "paused": patterns, "in_part": list(in_part)}


def _left_out(patterns: Sequence[str], in_part: Sequence[str] = ()) -> frozenset[LeftOut]:
    """What is left out with these patterns: a type as a whole leaves out what it does in part."""
    return frozenset(
        (*((pattern, part) for pattern in patterns for part in (False, True)), *((one, True) for one in in_part))
    )
