"""Random histories of a log: writers, restores, retention, erased tenants, in any order, on every driver.

The rules, whatever comes: what a write has returned is read, listed once and in order by every listing, and counted; a
reader that goes on from its cursor gets all that stands behind it; what no driver can store is in the quarantine and
delays no other entry; retention and erasure take what they name and nothing else; what is restored is what was backed
up, and writing again completes it. A history that fails repeats by its seed; each value of TEST_EXPLORE tries others.
"""

from __future__ import annotations

import asyncio
import copy
import os
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest

from relay.core.errors import StorageUnavailable
from relay.deliverylog import (
    AttemptRecord,
    DeliveryLog,
    DeliveryLogUnavailable,
    ListAttempts,
    ListEvents,
    LogEntry,
    LoggedEvent,
    MetricsQuery,
)
from relay.deliverylog.records import FAILED, SUCCESS
from tests.deliverylog.conftest import Reopen
from tests.deliverylog.making import all_items, entry, event, ms
from tests.deliverylog.restoring import Operator, operator_of

T = TypeVar("T")
Key = tuple[str, datetime, str]

EXPLORE = os.environ.get("TEST_EXPLORE")
SEEDS = [random.Random(EXPLORE).randrange(2**32) + number for number in range(25)] if EXPLORE else range(3)
STEPS = {"memory": 40, "postgres": 40, "clickhouse": 15}  # of which a statement takes ten times as long
NOW = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
AGES = (0, 100, 400)
"""Days. The retentions lie between them by more than a month, so that every driver keeps and drops the same."""
RETENTIONS = (None, 60, 250)
TENANTS = ("", "t1", "T1")
DESTINATIONS = ("d1", "d2", "d3")


@dataclass
class Held:
    """What the log holds, and what goes back with it."""

    entries: dict[Key, LogEntry] = field(default_factory=dict)
    either: set[Key] = field(default_factory=set)
    """Attempts that were expired when they were written or restored: the retention drops or quarantines them, and they
    may be there until it acts."""
    unstorable: set[tuple[str, str]] = field(default_factory=set)
    """Tenants and ids of the attempts in the quarantine that no driver can store."""

    def attempts(self, query: ListAttempts) -> list[LogEntry]:
        passing = [one for one in self.entries.values() if _passes(query, one.event, [one.attempt.destination_id])]
        return sorted(passing, key=lambda one: place(one, query.sort_by), reverse=query.order == "desc")

    def events(self, query: ListEvents) -> list[LoggedEvent]:
        found = {(one.event.tenant_id, one.event.id): one.event for one in self.entries.values()}
        passing = [one for one in found.values() if _passes(query, one, one.matched_destination_ids)]
        return sorted(passing, key=lambda one: (one.time, one.id, one.tenant_id), reverse=query.order == "desc")


def place(one: LogEntry | AttemptRecord, sort_by: str = "time") -> tuple[Any, ...]:
    """In a listing."""
    by_time = (one.attempt.time, one.attempt.id, one.attempt.tenant_id)
    return by_time if sort_by == "time" else (one.event.time, one.event.id, *by_time)


def key_of(one: LogEntry | AttemptRecord) -> Key:
    return one.event.tenant_id, one.attempt.time, one.attempt.id


def _passes(query: ListAttempts | ListEvents, its: LoggedEvent, destinations: Sequence[str]) -> bool:
    return (not query.tenant_ids or its.tenant_id in query.tenant_ids) and (
        not query.destination_ids or not set(query.destination_ids).isdisjoint(destinations)
    )


class History:
    """One walk: each step changes the log and what it must hold, or compares them."""

    def __init__(self, store: DeliveryLog, operator: Operator, seed: int) -> None:
        self.store, self.operator, self.random = store, operator, random.Random(seed)
        self.held = Held()
        self.kept: Held | None = None
        self.days: int | None = None
        self.events: dict[str, list[LoggedEvent]] = {tenant: [] for tenant in TENANTS}
        self.attempts: Counter[str] = Counter()
        self.followed: AttemptRecord | None = None
        """What the reader with a cursor has read last."""
        self.cursor: str | None = None

    async def _again(self, work: Callable[[], Awaitable[T]]) -> T:
        """A backup and a restore end the connections of the log: each costs one use."""
        for _ in range(20):
            try:
                return await work()
            except (DeliveryLogUnavailable, StorageUnavailable):
                continue
        raise AssertionError("the log does not answer")

    async def _insert(self, batch: Sequence[LogEntry]) -> None:
        await self._again(lambda: self.store.insert_many(batch))

    def _expired(self, time: datetime) -> bool:
        return self.days is not None and NOW - time > timedelta(days=self.days)

    def _entry(self) -> LogEntry:
        """A new attempt, of an event that was attempted before or of a new one. Two tenants have the same ids."""
        tenant = self.random.choice(TENANTS)
        self.attempts[tenant] += 1
        known = self.events[tenant]
        if known and self.random.random() < 0.5:
            its = self.random.choice(known)
        else:
            time = NOW - timedelta(days=self.random.choice(AGES)) + ms(self.random.randrange(40))
            matched = self.random.sample(DESTINATIONS, self.random.randrange(1, 4))
            its = event(
                f"e{len(known)}", time, tenant_id=tenant, matched_destination_ids=matched, data=b"%d" % len(known)
            )
            known.append(its)
        return entry(
            f"{self.random.choice('aB')}{self.attempts[tenant]}",
            its.time + ms(self.random.randrange(40)),
            its,
            destination_id=self.random.choice(its.matched_destination_ids),
            status=self.random.choice((SUCCESS, FAILED)),
            attempt_number=self.random.randrange(1, 4),
        )

    def _hold(self, entries: Sequence[LogEntry]) -> None:
        for one in entries:
            if self._expired(one.attempt.time):
                self.held.either.add(key_of(one))
            else:
                self.held.entries[key_of(one)] = one

    async def write(self) -> None:
        """Up to three writers at once, whose batches share events, in opposite orders."""
        batches = [
            [self._entry() for _ in range(self.random.randrange(1, 15))] for _ in range(self.random.randrange(1, 4))
        ]
        shared = self.random.sample(batches[0], min(3, len(batches[0])))
        written = [batch + shared[:: self.random.choice((1, -1))] for batch in batches]
        await asyncio.gather(*map(self._insert, written))
        for batch in batches:
            self._hold(batch)

    async def write_interrupted(self) -> None:
        """A write that is cancelled somewhere, and its repetition."""
        batch = [self._entry() for _ in range(self.random.randrange(1, 10))]
        cut = asyncio.create_task(self.store.insert_many(batch))
        await asyncio.wait([cut], timeout=self.random.random() / 50)
        cut.cancel()
        await asyncio.wait([cut])
        await self._insert(batch)
        self._hold(batch)

    async def write_unstorable(self) -> None:
        """One that no driver can store, between two that are written."""
        first, bad, last = (self._entry() for _ in range(3))
        bad = LogEntry(bad.event, replace(bad.attempt, attempt_number=-1))
        await self._insert([first, bad, last])
        assert "1 of 3" in self.store.last_quarantine or self.days is not None
        self._hold([first, last])
        self.held.unstorable.add((bad.event.tenant_id, bad.attempt.id))

    async def write_again(self) -> None:
        """Attempts that the log has, some with another outcome."""
        known = self.random.sample(list(self.held.entries.values()), min(8, len(self.held.entries)))
        batch = [
            LogEntry(one.event, replace(one.attempt, status=FAILED, code="LATE", response_data={"n": len(known)}))
            if self.random.random() < 0.7
            else one
            for one in known
        ]
        await self._insert(batch)
        self._hold(batch)

    async def quarantine(self) -> None:
        """Listed, tried again in vain, or purged."""
        entries = await self._again(lambda: self.store.list_quarantine(1000))
        attempts = [one.fields["attempt"] for one in entries]
        ids = {(one["tenant_id"], one["id"]) for one in attempts if one["attempt_number"] < 0}
        assert ids == self.held.unstorable
        if self.random.random() < 0.5:
            assert (await self._again(self.store.retry_quarantine)).remaining >= len(ids)
        else:
            await self._again(lambda: self.store.purge_quarantine(None))
            self.held.unstorable = set()

    async def read(self) -> None:
        """A listing from the first page to the last and back, a lookup, and the counts."""
        either = self.held.either
        chosen: dict[str, Any] = {
            "tenant_ids": self.random.choice((None, ["t1"], ["", "T1"])),
            "destination_ids": self.random.choice((None, ["d1"], ["d3", "d2"])),
            "order": self.random.choice(("asc", "desc")),
            "limit": self.random.choice((3, 25, 1000)),
        }
        attempts = ListAttempts(**chosen, sort_by=self.random.choice(("time", "event_time")))
        records: list[AttemptRecord] = await self._again(lambda: all_items(self.store, attempts))
        found = [LogEntry(one.event, one.attempt) for one in records if key_of(one) not in either]
        assert found == self.held.attempts(attempts)
        events = ListEvents(**chosen)
        known = {(one.event.tenant_id, one.event.id) for one in self.held.entries.values()}
        listed: list[LoggedEvent] = await self._again(lambda: all_items(self.store, events))
        assert [one for one in listed if (one.tenant_id, one.id) in known or not either] == self.held.events(events)
        await self._look_up()
        await self._count()

    async def _look_up(self) -> None:
        if self.held.entries:
            one = self.random.choice(list(self.held.entries.values()))
            its, tenant = one.attempt, one.event.tenant_id
            same = [key for key in {*self.held.entries, *self.held.either} if (key[0], key[2]) == (tenant, its.id)]
            if len(same) == 1:
                record = await self._again(lambda: self.store.retrieve_attempt(its.id, tenant_id=tenant))
                assert record == AttemptRecord(its, one.event)
            found = await self._again(lambda: self.store.retrieve_event(one.event.id, tenant_id=tenant))
            assert found == one.event

    async def _count(self) -> None:
        days = 500 if not self.held.either else 1
        since = NOW - timedelta(days=days)
        query = MetricsQuery(
            start=since,
            end=NOW + timedelta(days=1),
            measures=["count", "failed_count"],
            dimensions=["tenant_id"],
        )
        rows = (await self._again(lambda: self.store.attempt_metrics(query))).rows
        held = [one for one in self.held.entries.values() if one.attempt.time >= since]
        counts = Counter(one.event.tenant_id for one in held)
        failed = Counter(one.event.tenant_id for one in held if one.attempt.status == FAILED)
        expected = {(tenant, count, failed[tenant]) for tenant, count in counts.items()}
        assert {(row["tenant_id"], row["count"], row["failed_count"]) for row in rows} == expected

    async def follow(self) -> None:
        """One page more of a reader that goes through the log from its oldest attempt, whatever happens meanwhile."""
        limit = self.random.choice((2, 10, 100))
        page = await self._again(
            lambda: self.store.list_attempts(ListAttempts(order="asc", limit=limit, next=self.cursor))
        )
        last = None if self.followed is None else place(self.followed)
        expected = [one for one in self.held.attempts(ListAttempts(order="asc")) if last is None or place(one) > last]
        found = [LogEntry(one.event, one.attempt) for one in page.items if key_of(one) not in self.held.either]
        assert found == expected[: len(found)]
        if page.next is None:
            assert len(found) == len(expected)
        self.cursor, self.followed = page.next, page.items[-1] if page.next is not None else None

    async def retain(self) -> None:
        """Another retention, applied as ``relay-cli log retention`` does."""
        self.days = self.random.choice(RETENTIONS)
        self._retention(self.days)
        await self._again(lambda: self.store.apply_retention(self.days))
        self.held.entries = {key: one for key, one in self.held.entries.items() if not self._expired(key[1])}

    def _retention(self, days: int | None) -> None:
        if (options := getattr(self.store, "_options", None)) is not None:
            vars(self.store)["_options"] = replace(options, retention_days=days)

    async def erase(self) -> None:
        tenant = self.random.choice(TENANTS)
        await self._again(lambda: self.operator.erase(tenant))
        self.held.entries = {key: one for key, one in self.held.entries.items() if key[0] != tenant}

    async def back_up(self) -> None:
        await self.operator.back_up()
        self.kept = copy.deepcopy(self.held)

    async def restore(self) -> None:
        """What came since the backup is lost; what the retention has dropped since is there again, until it acts."""
        if self.kept is None:
            return
        await self.operator.restore()
        kept = copy.deepcopy(self.kept)
        again = {key for key in kept.entries if self._expired(key[1])}
        entries = {key: one for key, one in kept.entries.items() if key not in again}
        self.held = Held(entries, kept.either | again, kept.unstorable)


@pytest.fixture
async def history(
    reopen: Reopen, driver: str, request: pytest.FixtureRequest, seed: int, prefix: str
) -> AsyncIterator[History]:
    store = await reopen()
    database = request.getfixturevalue("log_database") if driver == "postgres" else None
    operator = operator_of(store, database, prefix)
    yield History(store, operator, seed)
    await operator.close()


@pytest.mark.parametrize("seed", SEEDS)
async def test_the_log_holds_what_was_written_and_no_reader_skips(history: History, driver: str) -> None:
    weights = {history.write: 10, history.write_interrupted: 3, history.write_unstorable: 2, history.write_again: 4}
    weights |= {history.quarantine: 2, history.read: 6, history.follow: 8, history.retain: 2, history.erase: 1}
    weights |= {history.back_up: 2, history.restore: 3}
    await history.back_up()
    for _ in range(STEPS[driver]):
        [step] = history.random.choices(list(weights), list(weights.values()))
        await step()
    await history.read()
    await history.quarantine()
