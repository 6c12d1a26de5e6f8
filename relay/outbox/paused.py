"""Paused rows: what claims leave out, and where they begin, so that a million paused rows cost other claims nothing.

A claim walks the due rows from the oldest on. Paused rows stay there as they are, so every claim would step over all of
them. The *head* is a place in that order before which every row was paused when it was last looked at; claims begin at
it. It is memory of one relay: nothing in the table changes, and a relay that restarts looks again.

- It moves forward as claims take rows, and once a second over paused rows that have become the oldest.
- It never comes nearer to the present than ``MARGIN`` seconds: a transaction has the time of its begin and becomes
  visible at its commit, so rows may appear behind the newest.
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
from relay.outbox.extensions import PAUSES, pauses_of
from relay.postgres.connect import Connection
from relay.postgres.sql import TableName, statement

MARGIN: Final = 2.0
"""Seconds before the present that the head never enters."""
_ROWS: Final = 10_000  # of one look; some milliseconds
_LONGEST_ADVANCE: Final = 0.5  # seconds a round, while the head is behind rows that have just been paused
_LONGEST_LOOK_BEHIND: Final = 0.05  # seconds a round

Place = tuple[float, float]
"""``available_at`` and ``created_at`` in seconds since 1970: the order of claims."""
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
        self._read = statement("outbox/pause:read", table, {PAUSES: pauses_of(table)})
        self._look_sql = statement("outbox/pause:look", table)
        self._guard = statement("outbox/claim:guard", table)
        self.pauses: Sequence[Pause] = ()
        self.patterns: list[str] = []
        """What LIKE matches in the paused event types; empty while nothing is paused."""
        self.head = BEFORE_ALL
        self._behind = BEFORE_ALL
        """How far the look behind the head has come."""

    @property
    def everything(self) -> bool:
        """Whether the whole outbox is paused, so that no claim is needed."""
        return any(pause.target.scope is PauseScope.ALL for pause in self.pauses)

    @property
    def tags(self) -> tuple[str, ...]:
        """The tag of statements that leave paused rows out; empty while nothing is paused."""
        return ("paused",) if self.patterns else ()

    def parameters(self) -> dict[str, Any]:
        """The parameters of such statements."""
        due, created = self.head
        return {"due_from": due, "created_from": created, "paused": self.patterns}

    def claimed(self, patterns: list[str], last: Place, claimed_at: Fence) -> None:
        """Move the head to the last row of a claim: what is before it was claimed, or is paused, or locked.

        ``patterns`` are those of the claim: one that was sent before the pauses changed says nothing about them.
        """
        if patterns is self.patterns and last[0] < claimed_at.timestamp() - MARGIN:
            self.head = max(self.head, last)

    async def read(self, connection: Connection) -> Sequence[Pause]:
        """Read the pauses in force; claims that are sent from now on obey them."""
        cursor = connection.cursor(binary=True)
        await cursor.execute(self._read)
        self.set([read_pause(row) for row in await cursor.fetchall()])
        return self.pauses

    def set(self, pauses: Sequence[Pause]) -> None:
        """Take over the pauses in force; when other types are paused than before, the head is looked for again."""
        self.pauses = pauses
        patterns = sorted({pause.target.pattern for pause in pauses})
        if patterns != self.patterns:
            self.patterns = patterns
            self.head = self._behind = BEFORE_ALL

    async def look(self, connection: Connection) -> None:
        """One round: move the head forward over paused rows, and look on behind it."""
        if not self.patterns:
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
            await cursor.execute(self._look_sql, {**bounds, "paused": self.patterns})
        [(rows, free_due, free_created, end_due, end_created)] = await cursor.fetchall()
        free = None if free_due is None else (free_due, free_created)
        return Look(rows, free, None if end_due is None else (end_due, end_created))


def read_pause(row: tuple[Any, ...]) -> Pause:
    """The pause in a row of ``sql/outbox/pause.sql``."""
    scope, name, until, paused_by, reason, since = row
    return Pause(PauseTarget(PauseScope(scope), name), until, paused_by, reason, since)
