"""What truly happened in one history, and the rules that every step of it must keep.

The ledger sees each change of a row, each message that reaches the broker and each answer of the broker. A step that
breaks a rule of docs/reference/conformance.md#states raises ``Violation`` at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from relay.core.backoff import RetryPolicy
from relay.core.event import LEASE_EXPIRED, EventId, Status
from tests.support.doubles.memory_storage import MemoryRow
from tests.system.simulation.pauses import PauseAccount

REFUSED_FOR_GOOD = "TOO_LARGE"
"""The code of the broker's permanent refusal."""
_ROUNDING = 1e-5  # seconds; PostgreSQL's and Python's times have microseconds


class Violation(AssertionError):
    """A promise is broken."""


@dataclass(slots=True)
class Hold:
    """Who has the lease of an event."""

    relay: str
    since: float
    """When it claimed the event; a renewal leaves it."""


@dataclass(slots=True)
class Ledger:
    """The account of one history."""

    clock: Callable[[], float]
    retry: RetryPolicy
    database_time: Callable[[], datetime]
    """The database's clock, as the statement under way reads it."""
    lines: list[tuple[float, str]] = field(default_factory=list)
    inserted: dict[EventId, float] = field(default_factory=dict)
    """When each event was committed."""
    done: dict[EventId, float] = field(default_factory=dict)
    """When each event became DELIVERED or DEAD."""
    states: dict[EventId, Status] = field(default_factory=dict)
    """The last status of each event that has changed."""
    delivered_by: dict[EventId, str] = field(default_factory=dict)
    """The relay that settled each delivery."""
    deleted: set[EventId] = field(default_factory=set)
    """Delivered, with ON_DELIVERED=delete."""
    holder: dict[EventId, Hold] = field(default_factory=dict)
    arrivals: dict[EventId, list[tuple[float, str]]] = field(default_factory=dict)
    """When each event reached the broker, and from which relay."""
    order: list[EventId] = field(default_factory=list)
    """First arrivals."""
    acknowledged: Counter[EventId] = field(default_factory=Counter)
    """Acknowledgements that the broker gave."""
    blame: Counter[EventId] = field(default_factory=Counter)
    """Failures that are the event's own: refused, not answered in time, or alone when the connection was cut."""
    final: set[EventId] = field(default_factory=set)
    """Events that the broker has refused for good."""
    failed: Counter[EventId] = field(default_factory=Counter)
    """Attempts that verdicts used."""
    reaped: list[tuple[float, EventId, str]] = field(default_factory=list)
    """Leases taken back: when, of which event, from which relay."""
    moved_at: float = 0.0
    """When a row last changed, but for renewals."""
    pauses: PauseAccount = field(default_factory=PauseAccount)
    """What is paused, and what relays have read of it."""
    claims: dict[EventId, list[tuple[float, str]]] = field(default_factory=dict)
    """When each event was claimed, and by which relay."""
    claims_lost: set[EventId] = field(default_factory=set)
    """Events of claims whose reply never reached the relay."""

    def say(self, text: str) -> None:
        """One line of the history."""
        self.lines.append((self.clock(), text))

    def commit(self, row: MemoryRow) -> None:
        """An event became visible."""
        _demand(row.event_id not in self.inserted, f"{row.event_id}: inserted twice")
        self.inserted[row.event_id] = self.clock()

    def change(self, before: MemoryRow, after: MemoryRow, actor: str, op: str) -> None:
        """A row was changed by a statement ``op`` of ``actor``; it must be a transition of the contract."""
        one = after.event_id
        self.say(f"{actor} {op}: {one} {before.status} -> {after.status}, attempts {after.attempts}")
        _demand(one not in self.deleted, f"{one}: changed after it was deleted")
        _RULES[op](self, before, after, actor)
        locked = after.locked_at is not None
        _demand(
            locked == (after.locked_by is not None) == (after.status is Status.DELIVERING), f"{one}: lock and status"
        )
        _demand((after.delivered_at is not None) == (after.status is Status.DELIVERED), f"{one}: delivered_at")
        _demand(after.updated_at != before.updated_at, f"{one}: updated_at did not change")
        _demand(after.updated_at == self.database_time(), f"{one}: updated_at is not the database's time")
        fixed = ("event_id", "event_type", "payload", "created_at", "partition_key", "headers")
        _demand(all(getattr(before, name) == getattr(after, name) for name in fixed), f"{one}: a fixed column changed")
        self.states[one] = after.status
        if op != "renew":
            self.moved_at = self.clock()
        if after.status in (Status.DELIVERED, Status.DEAD):
            self.done[one] = self.clock()

    def undo(self, row: MemoryRow) -> None:
        """A crash of the database lost the claim of a row, which is as it was before."""
        self.say(f"the crash undoes the claim of {row.event_id}")
        _demand(row.status is Status.PENDING, f"{row.event_id}: {row.status} before its claim")
        del self.holder[row.event_id]
        self.states[row.event_id] = row.status
        self.moved_at = self.clock()

    def delete(self, row: MemoryRow, actor: str, op: str) -> None:
        """A row was deleted; only the statement that settles its delivery may do that."""
        one = row.event_id
        self.say(f"{actor} {op}: {one} deleted")
        _demand(op == "settle" and self.states.get(one) is Status.DELIVERED, f"{one}: deleted, and not delivered")
        _demand(
            row.updated_at == self.database_time() and self.delivered_by[one] == actor,
            f"{one}: deleted by another statement than the one that delivered it",
        )
        self.deleted.add(one)

    def check_table(self, rows: Mapping[EventId, MemoryRow], deletes: Callable[[str], bool]) -> None:
        """The table holds every event that was not deleted, as its last change left it."""
        for one in self.inserted:
            row = rows.get(one)
            _demand((row is None) == (one in self.deleted), f"{one}: lost, or deleted and there again")
            if row is None:
                continue
            _demand(row.status is self.states.get(one, Status.PENDING), f"{one}: {row.status} without a transition")
            allowed = row.status is not Status.DELIVERED or not deletes(self.delivered_by[one])
            _demand(allowed, f"{one}: DELIVERED and in the table, with ON_DELIVERED=delete")

    def check_order(self, rows: Mapping[EventId, MemoryRow], where: str = "") -> None:
        """First arrivals of each key are in the order of insertion, but for dead events."""
        last: dict[str, int] = {}
        for one in self.order:
            row = rows.get(one)
            if row is None or row.partition_key is None or row.status is Status.DEAD:
                continue
            _demand(
                row.insertion_order > last.get(row.partition_key, -1), f"{one}: behind a later one of its key{where}"
            )
            last[row.partition_key] = row.insertion_order

    def arrive(self, event_id: EventId, relay: str) -> None:
        """The broker has stored the event once more."""
        arrivals = self.arrivals.setdefault(event_id, [])
        if not arrivals:
            self.order.append(event_id)
        arrivals.append((self.clock(), relay))

    def _claim(self, before: MemoryRow, after: MemoryRow, actor: str) -> None:
        one = after.event_id
        _demand(
            (before.status, after.status) == (Status.PENDING, Status.DELIVERING),
            f"{one}: claimed while {before.status}",
        )
        _demand(after.attempts == before.attempts, f"{one}: a claim changed attempts")
        _demand(before.attempts < self.retry.max_attempts, f"{one}: claimed after {before.attempts} failed attempts")
        objection = self.pauses.objection(one, after.event_type, actor, self.database_time(), self.clock())
        _demand(not objection, objection)
        self.holder[one] = Hold(actor, self.clock())
        self.claims.setdefault(one, []).append((self.clock(), actor))

    def _renew(self, before: MemoryRow, after: MemoryRow, actor: str) -> None:
        one = after.event_id
        _demand(before.status is after.status is Status.DELIVERING, f"{one}: renewed while {before.status}")
        _demand((after.locked_at or 0) > (before.locked_at or 0), f"{one}: renewed to an earlier fence")  # type: ignore[operator]
        _demand(after.attempts == before.attempts, f"{one}: a renewal changed attempts")
        self._demand_holder(one, actor, "renewed")

    def _settle(self, before: MemoryRow, after: MemoryRow, actor: str) -> None:
        one = after.event_id
        _demand(before.status is Status.DELIVERING, f"{one}: settled while {before.status}")
        self._demand_holder(one, actor, "settled")
        if after.status is Status.DELIVERED:
            _demand(self.acknowledged[one] > 0, f"{one}: DELIVERED without an acknowledgement")
            _demand(after.attempts == before.attempts, f"{one}: a delivery changed attempts")
            self.delivered_by[one] = actor
        elif after.attempts == before.attempts:
            _demand(after.status is Status.PENDING, f"{one}: {after.status} without a failed attempt")
            _demand(after.available_at == before.available_at, f"{one}: a release moved available_at")
        else:
            self._failed(before, after)
        del self.holder[one]

    def _failed(self, before: MemoryRow, after: MemoryRow) -> None:
        one = after.event_id
        _demand(after.attempts == before.attempts + 1, f"{one}: {after.attempts - before.attempts} attempts at once")
        _demand(bool(after.last_error), f"{one}: failed without last_error")
        self.failed[one] += 1
        _demand(
            self.failed[one] <= self.blame[one],
            f"{one}: lost an attempt that no failure of its own explains ({after.last_error})",
        )
        final = (after.last_error or "").startswith(REFUSED_FOR_GOOD)
        _demand(not final or one in self.final, f"{one}: buried for a refusal that the broker never gave")
        _demand(not final or after.status is Status.DEAD, f"{one}: retried after the broker refused it for good")
        self._check_end(after, final=final)

    def _check_end(self, after: MemoryRow, *, final: bool) -> None:
        """DEAD exactly when the attempts are used up or the refusal is ``final``; else the contract's backoff."""
        one, attempts, most = after.event_id, after.attempts, self.retry.max_attempts
        _demand(attempts <= most, f"{one}: {attempts} failed attempts of {most}")
        dead = final or attempts == most
        _demand((after.status is Status.DEAD) == dead, f"{one}: {after.status} after {attempts} attempts of {most}")
        if dead:
            return
        # Not RetryPolicy.delay, which is what this checks.
        least = min(self.retry.base_delay * 2 ** (attempts - 1), self.retry.max_delay)
        delay = (after.available_at - self.database_time()).total_seconds()
        _demand(
            least - _ROUNDING <= delay <= least * (1 + self.retry.jitter) + _ROUNDING,
            f"{one}: a backoff of {delay:.3f} s after {attempts} attempts, instead of {least:g} s and the jitter",
        )

    def _reap(self, before: MemoryRow, after: MemoryRow, _actor: str) -> None:
        one = after.event_id
        _demand(before.status is Status.DELIVERING, f"{one}: reaped while {before.status}")
        _demand(after.status in (Status.PENDING, Status.DEAD), f"{one}: reaped to {after.status}")
        _demand(after.attempts == before.attempts + 1, f"{one}: reaped without an attempt")
        _demand((after.last_error or "").startswith(LEASE_EXPIRED), f"{one}: reaped without its reason")
        self._check_end(after, final=False)
        self.reaped.append((self.clock(), one, self.holder.pop(one).relay))

    def _replay(self, before: MemoryRow, after: MemoryRow, _actor: str) -> None:
        one = after.event_id
        _demand(before.status in (Status.DELIVERED, Status.DEAD), f"{one}: replayed while {before.status}")
        _demand((after.status, after.attempts) == (Status.PENDING, 0), f"{one}: replayed with attempts")
        self.done.pop(one, None)
        # A new life: what it did in the old one explains nothing any more.
        for account in (self.acknowledged, self.blame, self.failed):
            account.pop(one, None)
        self.final.discard(one)
        self.inserted[one] = self.clock()

    def _demand_holder(self, one: EventId, actor: str, verb: str) -> None:
        holder = self.holder.get(one)
        _demand(
            holder is not None and holder.relay == actor,
            f"{one}: {verb} by {actor}, and {f'{holder.relay} has the lease' if holder else 'no relay has a lease'}",
        )


def _demand(condition: bool, text: str) -> None:
    if not condition:
        raise Violation(text)


_RULES: dict[str, Callable[[Ledger, MemoryRow, MemoryRow, str], None]] = {
    "claim": Ledger._claim,
    "renew": Ledger._renew,
    "settle": Ledger._settle,
    "reap": Ledger._reap,
    "replay": Ledger._replay,
}
