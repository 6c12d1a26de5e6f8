"""The scripted database: one table, its clock and locks, and the ways in which a server and a network fail.

A statement travels to the server, waits there for locks, is carried out at one moment, and its reply travels back.
What a statement does to the rows is ``MemoryOutbox``'s, which the conformance suite holds to PostgreSQL.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from datetime import timedelta
from operator import attrgetter
from typing import Any

from relay.core.errors import StorageBusy, StorageError, StorageUnavailable
from relay.core.event import EventId
from tests.support.doubles.memory_storage import MemoryRow, MemoryTable
from tests.system.simulation.ledger import Ledger, Violation
from tests.system.simulation.scheduler import Scheduler
from tests.system.simulation.unflushed import Unflushed

MOST_SESSIONS = 5
"""Connections of one relay: claims, settles and renewals, housekeeping, slow reads, and a ping beside a busy
housekeeping."""
BUFFERS = 801 * 1024
"""Bytes of a reply that a server gets rid of although its client reads nothing (``relay.outbox.payloads``)."""
_FAST = 1e9  # bytes a second of a link that nothing slows down
_WRITES = frozenset({"claim", "settle", "renew", "reap"})
_VALUES = attrgetter(*(one.name for one in fields(MemoryRow)))
_BESIDE = frozenset({"ping", "pauses"})  # do not touch the table of events

Refusal = Callable[[MemoryRow, MemoryRow], str | None]


def weightless(_result: object) -> int:
    """No payload."""
    return 0


@dataclass(slots=True, eq=False)
class Statement:
    """One statement on its way."""

    op: str
    relay: str
    work: Callable[[], object]
    answer: asyncio.Future[Any]
    blocked_by: Callable[[], bool]
    """Whether it waits for a row that another session has locked."""
    size: int = 0
    """Rows that it asks for."""
    locks: Callable[[], tuple[Sequence[EventId], int]] | None = None
    """For a claim: the rows that it would lock now, and the bytes of payload that it would carry."""
    weigh: Callable[[Any], int] = weightless
    """Bytes of payload in the result of ``work``."""
    reads: Callable[[], bool] = lambda: True
    """Whether its client reads what arrives: not while its process is frozen."""
    arrives: tuple[float, float] = (0.0, 0.0)
    """From when to when a large reply travels."""
    cancelled: bool = False
    carried_out: bool = False
    waiting: bool = False
    left_behind: bool = False
    """Its client could have cancelled it, did not, and is gone."""

    def fail(self, error: StorageError) -> None:
        """The client hears of an error, or of a lost connection."""
        if not self.answer.done():
            self.answer.set_exception(error)

    def succeed(self, result: object) -> None:
        """The client has its reply."""
        if not self.answer.done():
            self.answer.set_result(result)


class ObservedTable(MemoryTable):
    """A table that reports every change of a row to the ledger."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__()
        self.ledger = ledger
        self.running = ("", "")
        """Relay and kind of the statement that is carried out."""
        self.unflushed = Unflushed(ledger)
        self.refusals: list[Refusal] = []

    @contextmanager
    def statement(self, rows: Iterable[MemoryRow]) -> Iterator[None]:
        # Once each: one settle may hold an old verdict on an event, and a newer one under another fence.
        rows = list({row.event_id: row for row in rows}.values())
        if not rows:
            yield
            return
        self.trigger = self._refusal if self.refusals else None
        before = [(row, MemoryRow(*_VALUES(row))) for row in rows]
        with super().statement(rows):
            yield
        relay, op = self.running
        changes = [
            (row, old) for row, old in before if row.updated_at != old.updated_at or row.status is not old.status
        ]
        for row, old in changes:
            self.ledger.change(old, row, relay, op)
        if changes:
            self.unflushed.committed(op, changes)

    def delete(self, rows: Iterable[MemoryRow]) -> None:
        rows = list(rows)
        for row in rows:
            self.ledger.delete(row, *self.running)
        super().delete(rows)

    def _refusal(self, before: MemoryRow, after: MemoryRow) -> str | None:
        return next((why for refusal in self.refusals if (why := refusal(before, after))), None)


@dataclass(slots=True)
class Trouble:
    """What is wrong between one relay, or all of them, and the server, now."""

    away: int = 0
    silent: int = 0
    read_only: int = 0
    slow: float = 0.0
    rate: list[float] = field(default_factory=list)
    """Bytes a second that its link carries, by fault."""
    busy: dict[str, int] = field(default_factory=dict)
    """By kind of statement: one that asks for more rows than this loses every race."""
    replies_lost: Counter[str] = field(default_factory=Counter)
    """By kind: how many of the next are carried out, and the connection is lost then."""
    requests_lost: Counter[str] = field(default_factory=Counter)
    """By kind: how many of the next never arrive, and the connection is lost."""


class Database:
    """The server and every relay's way to it."""

    cancels = True
    """Whether a client cancels an overdue statement before it cuts the connection."""
    waits_for_locked_rows = False
    """Whether settle and renewal wait for a row that another session has locked, as plain UPDATEs do."""

    def __init__(self, scheduler: Scheduler, ledger: Ledger, rng: random.Random) -> None:
        self.scheduler = scheduler
        self.ledger = ledger
        self.rng = rng
        self.table = ObservedTable(ledger)
        self._epoch = self.table.now
        self.skew = 0.0
        self.table_locks = 0
        self.locks: Counter[EventId] = Counter()
        self.trouble: dict[str, Trouble] = {}
        """By relay; the empty name means all relays. Empty until something has gone wrong."""
        self.sessions: Counter[str] = Counter()
        self.under_way: dict[Statement, None] = {}
        self._waiting: list[Statement] = []

    # What faults do.

    def trouble_of(self, relay: str) -> Trouble:
        """The trouble of one relay (by its name), or of all (the empty name)."""
        return self.trouble.setdefault(relay, Trouble())

    def lose_connections(self, relay: str) -> None:
        """Cut what is under way: of one relay, or of all."""
        for statement in list(self.under_way):
            if relay in ("", name_of(statement.relay)):
                self._drop(statement)
                statement.fail(StorageUnavailable("terminating connection due to administrator command", "57P01"))

    def lock(self, event_ids: Iterable[EventId]) -> None:
        """Another session locks these rows."""
        self.locks.update(event_ids)
        self._set_locked()

    def unlock(self, event_ids: Iterable[EventId]) -> None:
        """That session commits."""
        self.locks.subtract(event_ids)
        self._set_locked()
        self.go_on()

    def _set_locked(self) -> None:
        self.table.locked = {one for one, count in self.locks.items() if count > 0}

    def go_on(self) -> None:
        """Locks are gone: what waited goes on."""
        waiting, self._waiting = self._waiting, []
        for statement in waiting:
            self._begin(statement)

    def set_clock(self) -> None:
        """The database's time of the next statement."""
        now = self._epoch + timedelta(seconds=self.scheduler.now + self.skew)
        behind = self.table.now - now
        self.table.now = self.table.now if timedelta(0) <= behind < timedelta(milliseconds=1) else now

    # The way of a statement.

    def send(self, statement: Statement) -> None:
        """It leaves the relay."""
        troubles = self._troubles(statement.relay)
        self.under_way[statement] = None
        if troubles and self._is_lost(statement, troubles):
            return
        self.scheduler.after(self._latency(troubles), lambda: self._begin(statement))

    def _is_lost(self, statement: Statement, troubles: list[Trouble]) -> bool:
        """Whether it does not arrive; its client may hear of that."""
        if any(one.away for one in troubles):
            self._reply(statement, StorageUnavailable("connection refused"))
            return True
        if any(one.silent for one in troubles):
            return True  # what TCP sends again later finds a client that is gone
        if self._take(statement, troubles, "requests_lost"):
            self.ledger.say(f"{statement.relay} {statement.op}: lost on the way to the database")
            self._reply(statement, StorageUnavailable("connection lost"))
            return True
        return False

    def cancel(self, statement: Statement) -> bool:
        """The client gives it up: cancels it, where it still can, and cuts its connection; False if it cannot."""
        reachable = not any(one.silent or one.away for one in self._troubles(statement.relay))
        if not statement.waiting or (reachable and self.cancels):
            self._drop(statement)
        statement.left_behind = statement.waiting and reachable
        return reachable

    def _begin(self, statement: Statement) -> None:
        if statement.cancelled or statement.carried_out:
            return
        troubles = self._troubles(statement.relay)
        if troubles and any(one.silent for one in troubles):
            return
        error = self._error(statement, troubles) if troubles else None
        if error is not None:
            self._reply(statement, error)
        elif statement.op not in _BESIDE and (self.table_locks or statement.blocked_by()):
            if not statement.waiting:
                self.ledger.say(f"{statement.relay} {statement.op}: waits for a lock")
            statement.waiting = True
            self._waiting.append(statement)
        elif self._exceeds_buffers(statement):
            self._hold_open(statement)
        else:
            statement.waiting = False
            self._carry_out(statement, troubles)

    @staticmethod
    def _exceeds_buffers(statement: Statement) -> bool:
        return statement.locks is not None and statement.locks()[1] > BUFFERS

    def _hold_open(self, statement: Statement) -> None:
        """A claim commits only once its reply is on its way: until then its rows are locked, and have no lease."""
        assert statement.locks is not None
        rows, size = statement.locks()
        self.ledger.say(f"{statement.relay} {statement.op}: open until {size:,} bytes are read")
        self.lock(rows)
        since = self.scheduler.now
        arrived = since + size / self._rate(self._troubles(statement.relay))
        statement.arrives = (since, arrived)

        def go_on() -> None:
            ended = statement.cancelled or statement.answer.done()
            if not ended and not (statement.reads() and self.scheduler.now >= arrived):
                self.scheduler.after(0.1, go_on)
                return
            self.unlock(rows)
            if not ended:
                self._carry_out(statement, self._troubles(statement.relay), travelled=True)

        go_on()

    def progresses(self, statement: Statement) -> bool:
        """Whether the reply is arriving at this moment."""
        silent = any(one.silent for one in self._troubles(statement.relay))
        since, until = statement.arrives
        return not silent and since <= self.scheduler.now < until

    def _error(self, statement: Statement, troubles: list[Trouble]) -> StorageError | None:
        if any(one.away for one in troubles):
            return StorageUnavailable("the database system is shutting down", "57P01")
        if statement.op in _WRITES | {"ping"} and any(one.read_only for one in troubles):
            return StorageUnavailable("cannot execute UPDATE in a read-only transaction", "25006")
        if any(statement.size > one.busy.get(statement.op, 1 << 30) for one in troubles):
            self.ledger.say(f"{statement.relay} {statement.op} of {statement.size}: busy")
            return StorageBusy("canceling statement due to lock timeout", "55P03")
        return None

    def _carry_out(self, statement: Statement, troubles: list[Trouble], *, travelled: bool = False) -> None:
        self.set_clock()
        self.table.running = (statement.relay, statement.op)
        statement.carried_out = True
        size = 0
        try:
            result: object = statement.work()
            size = 0 if travelled else statement.weigh(result)
        except StorageError as error:
            self.ledger.say(f"{statement.relay} {statement.op}: {error}")
            result = error
        if troubles and self._take(statement, troubles, "replies_lost"):
            self.ledger.say(f"{statement.relay} {statement.op}: carried out, the reply is lost")
            self._lose_claim(statement, result)
            result = StorageUnavailable("connection lost")
        self._reply(statement, result, size)

    def _reply(self, statement: Statement, result: object, size: int = 0) -> None:
        troubles = self._troubles(statement.relay)
        wait = self._latency(troubles)
        if size:
            since = self.scheduler.now + wait
            wait += size / self._rate(troubles)
            statement.arrives = (since, self.scheduler.now + wait)

        def arrive() -> None:
            if self.trouble and any(one.silent for one in self._troubles(statement.relay)):
                self.scheduler.after(0.5, arrive)  # sent again, until it gets through or the client is gone
                return
            self.under_way.pop(statement, None)
            if statement.answer.done():
                self._lose_claim(statement, result)
            elif isinstance(result, StorageError):
                statement.fail(result)
            else:
                statement.succeed(result)

        self.scheduler.after(wait, arrive)

    def _lose_claim(self, statement: Statement, result: object) -> None:
        events = getattr(result, "events", ())
        self.ledger.claims_lost.update(event.event_id for event in events)

    def _drop(self, statement: Statement) -> None:
        statement.cancelled = True
        self.under_way.pop(statement, None)
        if statement in self._waiting:
            self._waiting.remove(statement)

    def _latency(self, troubles: list[Trouble]) -> float:
        fast = 0.0002 + self.rng.random() * 0.002
        return fast + (sum(one.slow for one in troubles) if troubles else 0.0) * self.rng.random()

    @staticmethod
    def _rate(troubles: list[Trouble]) -> float:
        return min((rate for one in troubles for rate in one.rate), default=_FAST)

    def _troubles(self, relay: str) -> list[Trouble]:
        if not self.trouble:
            return []
        return [self.trouble[name] for name in ("", name_of(relay)) if name in self.trouble]

    def _take(self, statement: Statement, troubles: list[Trouble], kind: str) -> bool:
        for one in troubles:
            left: Counter[str] = getattr(one, kind)
            if left and left[statement.op] > 0:
                left[statement.op] -= 1
                return True
        return False

    # Connections.

    def connect(self, relay: str) -> bool:
        """One more connection of a relay; False when the server cannot be reached, or refuses it."""
        if any(one.silent or one.away for one in self._troubles(relay)):
            return False
        self.sessions[relay] += 1
        left_behind = sum(one.left_behind and one.relay == relay for one in self._waiting)
        if self.sessions[relay] + left_behind > MOST_SESSIONS:
            self.scheduler.after(0.0, lambda: _fail(f"{relay} has more than {MOST_SESSIONS} connections"))
        return True

    def disconnect(self, relay: str) -> None:
        """One less."""
        self.sessions[relay] -= 1


def _fail(text: str) -> None:
    raise Violation(text)


def name_of(relay: str) -> str:
    """The name of a relay without the number of its incarnation."""
    return relay.partition("#")[0]


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as stop:
        return stop.value
    raise RuntimeError("it waits")
