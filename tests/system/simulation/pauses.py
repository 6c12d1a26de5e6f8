"""Pauses in histories: what operators hold back, what each relay has read of it, and a relay's way to read it.

The relay's part is the product's (``relay.outbox.pausewatch``, ``paused``, ``head`` and ``look``), without its SQL. It
looks at two rows at a time, so that those of a history are many.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple, cast

from relay.core.event import EventId, Status
from relay.core.pause import Pause, PauseTarget
from relay.core.places import Apart
from relay.outbox.head import CHEAP
from relay.outbox.left_out import PausedRows
from relay.outbox.span import BEFORE_ALL, BEHIND_ALL, ClaimSpan, Place, after
from relay.outbox.waiting_rows import Look
from relay.postgres.connect import Connection
from relay.postgres.sql import TableName
from tests.support.apart import is_left_out
from tests.support.doubles.memory_storage import MemoryOutbox, MemoryRow, MemoryTable

_ROWS_PER_LOOK = 2
_MICROSECOND = 1e-6

Send = Callable[..., Awaitable[Any]]
"""``_Connection.run`` of the relay's storage."""


class PausedClaim(NamedTuple):
    """A claim took an event after it was paused; its relay had not read that pause."""

    event_id: EventId
    relay: str
    since: float
    at: float


@dataclass(slots=True)
class PauseAccount:
    """What is paused, and what each relay knew of it when it sent its last claim."""

    since: dict[PauseTarget, float] = field(default_factory=dict)
    """When each pause was set; one whose time is over stays here."""
    until: dict[PauseTarget, datetime | None] = field(default_factory=dict)
    paused_claims: list[PausedClaim] = field(default_factory=list)
    _read: dict[str, frozenset[PauseTarget]] = field(default_factory=dict)
    _read_before_claim: dict[str, frozenset[PauseTarget] | None] = field(default_factory=dict)

    def set(self, pause: Pause, at: float) -> None:
        """An operator paused this."""
        self.since[pause.target], self.until[pause.target] = at, pause.until

    def resume(self, target: PauseTarget) -> None:
        """An operator resumed this."""
        self.since.pop(target, None)

    def arrived(self, relay: str, pauses: Sequence[Pause]) -> None:
        """A relay has the reply to its reading of the pauses."""
        self._read[relay] = frozenset(pause.target for pause in pauses)

    def claim_sent(self, relay: str) -> None:
        """A relay sends a claim."""
        self._read_before_claim[relay] = self._read.get(relay)

    def holding(self, event_type: str, now: datetime) -> list[PauseTarget]:
        """The pauses that hold this type at this moment of the database's clock."""
        return [
            target
            for target in self.since
            if target.holds(event_type) and ((until := self.until[target]) is None or until > now)
        ]

    def objection(self, event_id: EventId, event_type: str, relay: str, now: datetime, at: float) -> str:
        """Why this claim breaks a promise whatever goes wrong; empty when it does not."""
        holding = self.holding(event_type, now)
        if not holding:
            return ""
        read = self._read_before_claim[relay]
        if read is None:
            return f"{event_id}: claimed by {relay}, which has not read the pauses, under that of {holding[0]}"
        known = [target for target in holding if target in read]
        if known:
            return f"{event_id}: claimed by {relay}, which has read the pause of {known[0]}"
        since = min(self.since[target] for target in holding)
        self.paused_claims.append(PausedClaim(event_id, relay, since, at))
        return ""


class LeftOut(NamedTuple):
    """What one statement leaves out."""

    patterns: tuple[str, ...] = ()
    in_part: tuple[str, ...] = ()
    apart: tuple[tuple[Apart, bool], ...] = ()

    @classmethod
    def of(cls, paused: PausedRows) -> LeftOut:
        """What a statement that is sent now leaves out."""
        return cls(tuple(paused.patterns), tuple(paused.in_part), tuple(paused.apart.items()))

    def takes(self, row: MemoryRow) -> bool:
        """Whether the row is left out."""
        has_some = row.acknowledged_by is not None
        if _matches(row.event_type, self.patterns + self.in_part if has_some else self.patterns):
            return True
        apart = [one for one, in_part in self.apart if has_some or not in_part]
        return is_left_out(apart, row.event_type, row.headers)


class PausingOutbox(MemoryOutbox):
    """Claims that leave out what the relay knows to be paused, and begin at its head."""

    left = LeftOut()
    span = ClaimSpan(BEFORE_ALL, BEHIND_ALL, 0)
    _until = BEHIND_ALL
    _sees_all = True

    def obey(self, paused: PausedRows, span: ClaimSpan) -> None:
        """What the claim that is sent now leaves out, and where it looks."""
        self.left, self.span, self._until = LeftOut.of(paused), span, span.end
        self._sees_all = span.first == BEFORE_ALL and span.end == BEHIND_ALL

    def looked(self, window: int) -> tuple[Place | None, bool]:
        """For a claim in order per key that is sent now: the first place with a due row, and whether it sees all.

        Of a stretch it sees a window; from the head on it looks further where that brings nothing.
        """
        now = self.table.now
        due = [place(row) for row in self._in(Status.PENDING) if row.available_at <= now and self._is_seen(row)]
        whole = not self.span.is_stretch or len(due) < window
        if not whole:
            self._until = after(sorted(due)[window - 1])
        return min(due, default=None), whole

    def _is_paused(self, row: MemoryRow) -> bool:
        return self.left.takes(row)

    def _is_seen(self, row: MemoryRow) -> bool:
        if self._sees_all:
            return True
        if self.span.tid is not None:
            return place(row) == self.span.first and row.insertion_order > int(self.span.tid)
        return self.span.first <= place(row) < self._until

    def _seen(self, rows: list[MemoryRow]) -> list[MemoryRow]:
        if self._sees_all and not any(self.left):
            return rows
        return [row for row in rows if self._is_seen(row) and not self._is_paused(row)]


class SimulatedPausedRows(PausedRows):
    """One relay's, on the scripted database."""

    def __init__(self, table: MemoryTable, account: PauseAccount, relay: str, clock: Callable[[], float]) -> None:
        super().__init__(TableName(), clock, _ROWS_PER_LOOK)
        self.head.walk_is_cheap = False
        self._table = table
        self._account = account
        self._relay = relay

    async def read(self, connection: Connection) -> Sequence[Pause]:
        table = self._table

        def work() -> list[Pause]:
            return [pause for pause in table.pauses if pause.until is None or pause.until > table.now]

        pauses: list[Pause] = await cast("Send", connection)("pauses", work)
        self._account.arrived(self._relay, pauses)
        self.set(pauses)
        return self.pauses

    async def _look(self, connection: Connection, span: ClaimSpan, timeout: float) -> Look:
        left, margin = LeftOut.of(self), self.head.margin.seconds

        def work() -> Look:
            due = self._table.now - timedelta(seconds=margin)
            rows = self._table.rows.values()
            waiting = (row for row in rows if row.status is Status.PENDING and row.available_at <= due)
            places = [(place(row), row) for row in waiting if span.first <= place(row) < span.end]
            places.sort(key=itemgetter(0))
            end = None
            if len(places) >= _ROWS_PER_LOOK:
                last = places[_ROWS_PER_LOOK - 1][0]
                places = [one for one in places if one[0] <= last]  # all that share the place of the last one
                end = last[0], last[1] + _MICROSECOND
            free = (at for at, row in places if not left.takes(row))
            # A walk over everything is never cheap: the head is in force.
            seconds = 2 * CHEAP if span.first == BEFORE_ALL and span.end == BEHIND_ALL else 0.0
            return Look(self._table.now.timestamp(), seconds, next(free, None), end)

        look: Look = await cast("Send", connection)("look", work)
        return look


class Watching:
    """A connection for what the product calls with a function of a connection."""

    def __init__(self, send: Send) -> None:
        self._send = send

    async def run(
        self, _doing: str, work: Callable[[Connection], Awaitable[Any]], deadline: float | None = None
    ) -> Any:
        """Each statement of ``work`` has that deadline."""

        async def send(op: str, statement: Callable[[], object]) -> Any:
            return await self._send(op, statement, deadline=deadline)

        return await work(cast("Connection", send))


def place(row: MemoryRow) -> Place:
    """Where the row is in the order of claims."""
    return row.available_at.timestamp(), row.created_at.timestamp()


@cache
def _matches(event_type: str, patterns: tuple[str, ...]) -> bool:
    """Whether LIKE of SQL matches one of them, for patterns of ``PauseTarget``."""
    return any(_like(pattern).fullmatch(event_type) for pattern in patterns)


def _like(pattern: str) -> re.Pattern[str]:
    end = ".*" if pattern.endswith("%") and not pattern.endswith("\\%") else ""
    name = pattern[:-1] if end else pattern
    return re.compile(re.escape(re.sub(r"\\(.)", r"\1", name)) + end, re.DOTALL)
