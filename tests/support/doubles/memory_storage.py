"""The outbox in memory, with a clock of the test's: it keeps the promises that PostgreSQL's does.

``tests/outbox/test_conformance.py`` holds the two to the same cases.

One ``MemoryTable`` is the table; any number of ``MemoryOutbox`` work on it, each as one relay. Time passes when the
test says so (``table.advance``), and by a microsecond with each call, as two statements never share one.
"""

from __future__ import annotations

import itertools
import random
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from operator import attrgetter

from relay.core.backoff import RetryPolicy
from relay.core.errors import RowRefused
from relay.core.event import Claim, EventId, Fence, OutboxEvent, Status
from relay.core.pause import Pause
from relay.core.places import Flow
from relay.core.storage import Backlog, Reaped, Renewal, Rest, Settled, Settlement, Upkeep
from relay.outbox.outbox_options import KeyOrder
from tests.support.apart import is_left_out
from tests.support.options import retry_policy

_LARGEST_INT = 2**31 - 1
_TICK = timedelta(microseconds=1)


@dataclass(slots=True)
class MemoryRow:
    """A row, by the contract's columns."""

    event_id: EventId
    event_type: str
    payload: bytes
    available_at: datetime
    created_at: datetime
    updated_at: datetime
    partition_key: str | None = None
    headers: str = "{}"
    status: Status = Status.PENDING
    attempts: int = 0
    last_error: str | None = None
    locked_by: str | None = None
    locked_at: datetime | None = None
    delivered_at: datetime | None = None
    insertion_order: int = 0
    acknowledged_by: str | None = None


age: Callable[[MemoryRow], tuple[datetime, datetime]] = attrgetter("available_at", "created_at")
"""Where a row is in the order of claims."""
Trigger = Callable[[MemoryRow, MemoryRow], str | None]
"""Sees a row before and after an update; returns why it is refused, or None. A CHECK looks at ``after`` only."""


@dataclass(slots=True)
class MemoryTable:
    """The rows and the database's clock. A statement that changes a row as ``trigger`` refuses it changes nothing."""

    now: datetime = field(default_factory=lambda: datetime(2030, 1, 1, tzinfo=UTC))
    rows: dict[EventId, MemoryRow] = field(default_factory=dict)
    inserted: int = 0
    trigger: Trigger | None = None
    pauses: list[Pause] = field(default_factory=list)
    """What an operator has paused."""
    locked: set[EventId] = field(default_factory=set)
    """Rows that another session has locked."""
    fan_out: bool = True
    """Whether the table has the column of the extension fan-out."""

    @contextmanager
    def statement(self, rows: Iterable[MemoryRow]) -> Iterator[None]:
        """One statement that may write these rows: all it writes, or with RowRefused nothing."""
        if self.trigger is None:
            yield
            return
        before = [(row, replace(row)) for row in rows]
        yield
        for row, old in before:
            refusal = self.trigger(old, row) if row != old else None
            if refusal is not None:
                for changed, original in before:
                    for one in fields(MemoryRow):
                        setattr(changed, one.name, getattr(original, one.name))
                error = RowRefused(f"new row violates {refusal} (SQLSTATE 23514)", "23514")
                error.event_id = row.event_id if len(before) == 1 else None
                raise error

    def delete(self, rows: Iterable[MemoryRow]) -> None:
        """Delete what a statement of this moment delivered."""
        for row in rows:
            del self.rows[row.event_id]

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now += timedelta(seconds=seconds)

    def tick(self) -> datetime:
        """The time of one statement."""
        self.now += _TICK
        return self.now

    def insert(
        self,
        event_type: str = "test",
        payload: bytes = b"{}",
        *,
        partition_key: str | None = None,
        headers: str = "{}",
        attempts: int = 0,
        due_in: float = 0.0,
    ) -> EventId:
        """Insert an event that is due ``due_in`` seconds from now; its id."""
        now = self.tick()
        event_id = EventId(str(uuid.uuid4()))
        row = MemoryRow(event_id, event_type, payload, now + timedelta(seconds=due_in), now, now)
        row.partition_key, row.headers, row.attempts = partition_key, headers, attempts
        row.insertion_order = self.inserted = self.inserted + 1
        self.rows[event_id] = row
        return event_id


class MemoryOutbox:
    """One relay's ``OutboxStorage`` on a table. ``fail_with`` makes the next calls of any method raise it."""

    def __init__(
        self,
        table: MemoryTable,
        relay_id: str = "relay",
        lease_timeout: float = 180.0,
        retry: RetryPolicy | None = None,
        key_order: KeyOrder | None = None,
        *,
        delete_delivered: bool = False,
    ) -> None:
        self.table = table
        self._delete_delivered = delete_delivered
        self._key_order = key_order
        self.fail_with: Exception | None = None
        self._relay_id = relay_id
        self._lease = timedelta(seconds=lease_timeout)
        self._retry = retry or retry_policy()
        self.obeyed: list[Pause] = []
        """The pauses that its claims leave out."""
        self.left_out: Sequence[Flow] = ()
        """What its claims leave out."""
        self.left_out_in_part: Sequence[Flow] = ()
        """Of this they leave out what some destinations have acknowledged."""

    async def open(self) -> None:
        """Nothing to connect to."""
        self._statement()

    async def close(self) -> None:
        """Nothing to close."""

    async def claim(
        self,
        limit: int,
        max_bytes: int,
        excluded: Sequence[EventId] = (),
        without: Sequence[str] = (),
        *,
        control: bool = False,
    ) -> Claim:
        """Lease due rows, oldest first, but for some rows and destinations (in order per key: but for some rows)."""
        now = self._statement()
        taken = self.claimable(limit, max_bytes, excluded, without)
        with self.table.statement(taken):
            for row in taken:
                row.status, row.locked_by, row.locked_at, row.updated_at = Status.DELIVERING, self._relay_id, now, now
        if self._key_order is not None:
            taken.sort(key=lambda row: row.insertion_order)
        waiting = self._key_order is not None and any(row.available_at <= now for row in self._in(Status.PENDING))
        return Claim(Fence(now) if taken else None, [_event(row, now) for row in taken], waiting=waiting)

    def pass_over(self, event_id: EventId) -> None:
        """It refuses no row."""

    def leave_out(self, flows: Sequence[Flow], in_part: Sequence[Flow] = ()) -> None:
        """Leave these event types, or parts of them, out of claims."""
        left_out = (flows, in_part) if self.table.fan_out else ([*flows, *in_part], ())
        self.left_out, self.left_out_in_part = left_out

    def claimable(
        self, limit: int, max_bytes: int, excluded: Sequence[EventId] = (), without: Sequence[str] = ()
    ) -> list[MemoryRow]:
        """The rows that a claim would take now."""
        now = self.table.now
        taken: list[MemoryRow] = []
        total = 0
        for row in self._due(now, limit, excluded, without):
            total += _event(row, now).size
            alone = self._retry.exhausted(row.attempts + 1) and (row.last_error or "").startswith("LEASE_EXPIRED:")
            if taken and (total > max_bytes or alone):
                break
            taken.append(row)
            if alone:
                break
        return taken

    def _due(self, now: datetime, limit: int, excluded: Sequence[EventId], without: Sequence[str]) -> list[MemoryRow]:
        """What may be claimed, in turn."""
        if self._key_order is not None:
            return self._due_in_order(now, limit, excluded)
        left_out = {*excluded, *self.table.locked}
        pending = Status.PENDING
        due = [row for row in self.table.rows.values() if row.status is pending and row.available_at <= now]
        seen = self._seen([row for row in due if row.event_id not in left_out])
        return sorted((row for row in seen if row.event_type not in without), key=age)[:limit]

    def _due_in_order(self, now: datetime, limit: int, excluded: Sequence[EventId]) -> list[MemoryRow]:
        """Of each key the first unfinished row, then equal shares of those right behind them."""
        left_out = set(excluded)
        runs: dict[str, list[MemoryRow]] = {}
        finished = (Status.DELIVERED, Status.DEAD) if self._key_order is KeyOrder.SKIP else (Status.DELIVERED,)
        unfinished = [row for row in self.table.rows.values() if row.status not in finished]
        for row in sorted(unfinished, key=attrgetter("insertion_order")):
            runs.setdefault(row.partition_key or row.event_id, []).append(row)

        def is_claimable(row: MemoryRow) -> bool:
            due = row.status is Status.PENDING and row.available_at <= now and row.event_id not in left_out
            return due and not self._is_paused(row)

        free = [list(itertools.takewhile(is_claimable, run)) for run in runs.values() if self._is_free(run[0])]
        leading = sorted((run for run in free if run and self._seen(run[:1])), key=lambda run: age(run[0]))[:limit]
        share = limit // max(len(leading), 1)
        places = itertools.zip_longest(*(run[:share] for run in leading))
        return [row for place in places for row in sorted(filter(None, place), key=age)]

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        """Write verdicts, fenced."""
        now = self._statement()
        ids = (event_id for settlement in settlements for event_id in settlement.event_ids())
        with self.table.statement([self.table.rows[event_id] for event_id in ids if event_id in self.table.rows]):
            delivered: list[MemoryRow] = []
            settled = [self._settle(settlement, now, delivered) for settlement in settlements]
        if self._delete_delivered:
            self.table.delete(delivered)
        return settled

    def _settle(self, settlement: Settlement, now: datetime, delivered: list[MemoryRow]) -> Settled:
        """Write one settlement, and add the rows that it delivers to ``delivered``."""

        def deliver(row: MemoryRow) -> None:
            row.status, row.delivered_at, row.acknowledged_by = Status.DELIVERED, now, None
            delivered.append(row)

        def release(row: MemoryRow) -> None:
            row.status = Status.PENDING

        def each(event_ids: Iterable[EventId], write: Callable[[MemoryRow], None]) -> int:
            held = [row for row in self._held(settlement.fence, event_ids, settlement.holder) if self._is_free(row)]
            for row in held:
                write(row)
                if self.table.fan_out and row.status is not Status.DELIVERED:
                    row.acknowledged_by = settlement.acknowledged.get(row.event_id, row.acknowledged_by)
                row.locked_by, row.locked_at, row.updated_at = None, None, now
            return len(held)

        return Settled(
            delivered=each(settlement.delivered, deliver),
            retried=sum(
                each([event_id], lambda row, error=error, delay=delay: _fail(row, error, now, delay))  # type: ignore[misc]
                for event_id, error, delay in settlement.retried
            ),
            buried=sum(
                each([event_id], lambda row, error=error: _fail(row, error, now, None))  # type: ignore[misc]
                for event_id, error in settlement.buried
            ),
            released=each(settlement.released, release),
            locked=frozenset(one.event_id for one in self._held(settlement.fence, settlement.event_ids())),
        )

    async def held(self, settlements: Sequence[Settlement]) -> list[frozenset[EventId]]:
        """What is not settled yet."""
        self._statement()
        return [frozenset(row.event_id for row in self._held(one.fence, one.event_ids())) for one in settlements]

    async def renew(self, fence: Fence, event_ids: Sequence[EventId]) -> Renewal:
        """Prolong what is still held. The new fence is later than the old one, even after the clock was set back."""
        now = self._statement()
        held = self._held(fence, event_ids)
        free = [row for row in held if self._is_free(row)]
        renewed = max(now, fence + _TICK)
        with self.table.statement(free):
            for row in free:
                row.locked_at, row.updated_at = renewed, now
        ids = frozenset(row.event_id for row in free)
        unchanged = frozenset(row.event_id for row in held) - ids
        return Renewal(Fence(renewed) if ids else fence, ids, unchanged)

    async def reap(self, limit: int, excluded: Sequence[EventId] = ()) -> Reaped:
        """Take back expired leases, oldest first."""
        now = self._statement()
        delivering = filter(self._is_free, self._in(Status.DELIVERING))
        expired = [row for row in delivering if row.locked_at and row.locked_at < now - self._lease]
        expired = [row for row in expired if row.event_id not in excluded]
        expired.sort(key=lambda row: row.locked_at or now)
        with self.table.statement(expired[:limit]):
            return self._take_back(expired[:limit], now)

    def _take_back(self, expired: list[MemoryRow], now: datetime) -> Reaped:
        buried = 0
        for row in expired:
            exhausted = self._retry.exhausted(row.attempts + 1)
            delay = self._retry.delay(row.attempts + 1, random.random())
            error = f"LEASE_EXPIRED: lease of {row.locked_by} expired; claimed or renewed at {row.locked_at}"
            _fail(row, error, now, None if exhausted else delay)
            row.locked_by, row.locked_at, row.updated_at = None, None, now
            buried += exhausted
        return Reaped(len(expired) - buried, buried)

    async def look(self) -> Rest:
        """Claims look at all rows."""
        return Rest(1.0, claimable=False)

    async def backlog(self) -> Backlog:
        """Count and age what waits."""
        now = self._statement()
        pending = self._in(Status.PENDING)
        fresh = sum(row.attempts == 0 for row in pending)
        age = max((now - min((row.created_at for row in pending), default=now)).total_seconds(), 0.0)
        return Backlog(fresh, len(pending) - fresh, age, self._due_age(now), len(self._in(Status.DEAD)))

    async def oldest_due_age(self) -> float:
        """The lag alone."""
        return self._due_age(self._statement())

    async def upkeep(self) -> Upkeep:
        """The age of what prune has left; there is no vacuum."""
        now, delivered = self._statement(), [one.delivered_at for one in self._in(Status.DELIVERED) if one.delivered_at]
        return Upkeep((now - min(delivered)).total_seconds() if delivered else 0.0, 0.0)

    async def ping(self) -> None:
        """It is there."""
        self._statement()

    def _statement(self) -> datetime:
        if self.fail_with is not None:
            raise self.fail_with
        return self.table.tick()

    def _is_paused(self, row: MemoryRow) -> bool:
        flows = [*self.left_out, *(self.left_out_in_part if row.acknowledged_by is not None else ())]
        paused = any(pause.target.holds(row.event_type) for pause in self.obeyed)
        return paused or is_left_out(flows, row.event_type, row.headers)

    def _seen(self, rows: list[MemoryRow]) -> list[MemoryRow]:
        if not (self.left_out or self.left_out_in_part or self.obeyed):
            return rows  # as in most tests, which look at each row thousands of times
        return [row for row in rows if not self._is_paused(row)]  # or claims begin behind it

    def _is_free(self, row: MemoryRow) -> bool:
        return row.event_id not in self.table.locked

    def _in(self, status: Status) -> list[MemoryRow]:
        return [row for row in self.table.rows.values() if row.status is status]

    def _held(self, fence: Fence, event_ids: Iterable[EventId], holder: str | None = None) -> list[MemoryRow]:
        rows = [self.table.rows[event_id] for event_id in event_ids if event_id in self.table.rows]
        fenced = (Status.DELIVERING, self._relay_id if holder is None else holder, fence)
        return [row for row in rows if (row.status, row.locked_by, row.locked_at) == fenced]

    def _due_age(self, now: datetime) -> float:
        due = [row.available_at for row in self._in(Status.PENDING) if row.available_at <= now]
        return (now - min(due)).total_seconds() if due else 0.0


def _fail(row: MemoryRow, error: str, now: datetime, delay: float | None) -> None:
    """One more failed attempt: dead, or due again after ``delay``."""
    row.attempts = min(row.attempts, _LARGEST_INT - 1) + 1
    row.last_error = error.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
    if delay is None:
        row.status = Status.DEAD
    else:
        row.status, row.available_at = Status.PENDING, now + timedelta(seconds=delay)


def _event(row: MemoryRow, now: datetime) -> OutboxEvent:
    age = max((now - row.created_at).total_seconds(), 0.0)
    last_code = None if row.last_error is None else row.last_error.partition(":")[0]
    return OutboxEvent(
        row.event_id,
        row.event_type,
        row.partition_key,
        row.payload,
        row.headers,
        row.attempts,
        age,
        last_code,
        row.created_at.timestamp(),
        row.acknowledged_by,
    )
