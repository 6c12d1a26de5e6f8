"""The delivery log's one interface. The drivers' common part is here; a driver adds reading, writing and counting.

The recorder writes; the command line and the HTTP API read. Methods may run concurrently. A batch is visible to the
next read once ``insert_many`` has returned. Every method raises ``DeliveryLogUnavailable`` when the log's database is
unavailable. Writing a failed batch again completes it.

A batch that the database refuses is written in quarters, down to single rows, and ``relay.core.blame`` says what is to
blame: once another row is written, those that failed are quarantined. Where none is, it is the database, or nothing is
known yet: the batch stays as it is, and the caller writes it again with other rows.
"""

from __future__ import annotations

import logging
import random
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime

from relay.core.blame import MOST_ALIKE, Party, Trial, quarters
from relay.core.errors import StorageError
from relay.deliverylog import measures
from relay.deliverylog.buckets import ROW_LIMIT
from relay.deliverylog.entries import LogRow, Rejected, entry_of, prepare
from relay.deliverylog.errors import DeliveryLogError
from relay.deliverylog.measures import Count, Measure, MeasureTally
from relay.deliverylog.paging import (
    PageRows,
    Scan,
    attempt_position,
    event_position,
    page,
    scan_attempts,
    scan_events,
    storable,
)
from relay.deliverylog.quarantine import QuarantinedEntry, QuarantineRetry
from relay.deliverylog.query import ListAttempts, ListEvents, MetricsQuery, MetricsResult, Page
from relay.deliverylog.records import AttemptRecord, LogEntry, LoggedEvent
from relay.deliverylog.times import whole_millisecond
from relay.postgres.migrations import MigrationPlan

_log = logging.getLogger("relay.deliverylog")

EVENTS = "events"
ATTEMPTS = "attempts"

Key = tuple[str, datetime, str]
"""Of an attempt."""

_RETRY_BATCH = 200  # quarantined entries read and written at once; each may hold a large payload


class DeliveryLog(ABC):
    """A searchable record of events and of the attempts to deliver them."""

    def __init__(self) -> None:
        self.quarantined = 0
        """Number of entries that this object has quarantined."""
        self.last_quarantine = ""
        """What the last batch had quarantined and why; empty when it was written completely."""
        self.ready_until: datetime | None = None
        """Until when the coming months have tables, as of the last ``prepare_ahead``; None where they need none."""

    async def insert_many(self, entries: Sequence[LogEntry]) -> None:
        """Write a batch. Re-delivering it is harmless; a re-inserted attempt updates status, code, response_data.

        Entries that no driver can store, and those that the database refuses, are quarantined, counted and logged; the
        others are written.
        """
        batch, rejected = prepare(entries)
        if batch:
            rejected.extend(await self._narrowed(batch))
        self.last_quarantine = ""
        if rejected:
            await self._set_aside(rejected)  # first: a batch that fails here is written again, and counts then
            self.quarantined += len(rejected)
            self.last_quarantine = _summary(rejected, len(entries))
            _log.warning("%s (attempt %r)", self.last_quarantine, rejected[0].entry.attempt.id)

    async def _narrowed(self, batch: list[LogRow]) -> list[Rejected]:
        """Write rows; returns those that are to blame. Raises where none is, or none yet."""
        rows = {(row.tenant_id, row.time, row.attempt_id): row for row in batch}
        trial: Trial[Key] = Trial()
        rejected: list[Rejected] = []
        parts = deque([list(rows)])
        last: DeliveryLogError | None = None
        while parts:
            keys = parts.popleft()
            last = failure = await self._refusal([rows[key] for key in keys], rejected)
            if failure is None:
                rejected += _rejected(rows, trial.went_through())
            elif len(keys) > 1:
                parts.extendleft(reversed([list(part) for part in quarters(keys)]))
            elif trial.failed(keys[0], _cause(failure)) is Party.DATABASE:
                if await self._control_goes_through([rows[key] for part in parts for key in part]):
                    rejected += _rejected(rows, trial.went_through())
                elif not _cause(failure).guesses_row:
                    raise failure
                rejected += _rejected(rows, trial.clear())
        if last is not None and not trial.controls and not all(e.guesses_row for e in trial.failed_rows.values()):
            raise last
        return rejected + _rejected(rows, trial.clear())

    async def _refusal(self, rows: list[LogRow], rejected: list[Rejected]) -> DeliveryLogError | None:
        """Write these rows; returns the error where one of them may be to blame."""
        try:
            rejected += await self._write(rows)
        except DeliveryLogError as error:
            if error.refusal is None:
                raise
            return error
        return None

    async def _control_goes_through(self, rows: Sequence[LogRow]) -> bool:
        """Rows have failed one after the other: whether one of up to 20 others, which differ, is written."""
        others = list({(row.tenant_id, row.topic, row.destination_id): row for row in rows}.values())
        for row in random.sample(others, min(len(others), MOST_ALIKE)):
            if await self._refusal([row], []) is None:
                return True
        return False

    async def list_quarantine(self, most: int) -> list[QuarantinedEntry]:
        """Up to ``most`` quarantined entries, oldest first."""
        return await self._quarantined(most, None)

    async def retry_quarantine(self) -> QuarantineRetry:
        """Write every quarantined entry again; those that the log stores now leave the quarantine.

        Safe to interrupt and to repeat: an entry leaves the quarantine after it was written.
        """
        written = remaining = 0
        last: QuarantinedEntry | None = None
        while batch := await self._quarantined(_RETRY_BATCH, last):
            last = batch[-1]
            stored = await self._store_again(batch)
            if stored:
                await self._forget(stored)
            written += len(stored)
            remaining += len(batch) - len(stored)
        return QuarantineRetry(written, remaining)

    async def _store_again(self, batch: Sequence[QuarantinedEntry]) -> list[str]:
        """Write quarantined entries; returns the ids of those that were stored."""
        entries: dict[str, LogEntry] = {}
        for one in batch:
            with suppress(ValueError):  # its text is only a representation: it stays for the operator to read
                entries[one.id] = one.entry()
        rows, rejected = prepare(list(entries.values()))
        if rows:
            rejected.extend(await self._narrowed(rows))
        refused = {_attempt_key(one.entry) for one in rejected}
        return [entry_id for entry_id, entry in entries.items() if _attempt_key(entry) not in refused]

    async def list_events(self, query: ListEvents) -> Page[LoggedEvent]:
        """One page of events. Raises InvalidQuery, InvalidTimeRange, InvalidCursor or VersionMismatch."""
        scan = scan_events(query)
        return page(scan, await self._scan_events(scan), event_position)

    async def list_attempts(self, query: ListAttempts) -> Page[AttemptRecord]:
        """One page of attempts, each with its event."""
        scan = scan_attempts(query)
        return page(scan, await self._scan_attempts(scan), attempt_position)

    async def retrieve_event(
        self, event_id: str, *, tenant_id: str | None = None, destination_id: str | None = None
    ) -> LoggedEvent | None:
        """One event, the newest of that id; with a destination only if an attempt to it exists, and carrying it."""
        if not all(storable(text) for text in (event_id, tenant_id or "", destination_id or "")):
            return None
        return await self._find_event(event_id, tenant_id, destination_id)

    async def retrieve_attempt(self, attempt_id: str, *, tenant_id: str | None = None) -> AttemptRecord | None:
        """One attempt, the newest of that id."""
        if not storable(attempt_id) or not storable(tenant_id or ""):
            return None
        return await self._find_attempt(attempt_id, tenant_id)

    async def event_metrics(self, query: MetricsQuery) -> MetricsResult:
        """Count events. Raises InvalidTimeRange, InvalidQuery or ResourceLimit."""
        return await self._metrics(EVENTS, query, measures.EVENT_MEASURES, measures.EVENT_DIMENSIONS)

    async def attempt_metrics(self, query: MetricsQuery) -> MetricsResult:
        """Count attempts. Raises InvalidTimeRange, InvalidQuery or ResourceLimit."""
        return await self._metrics(ATTEMPTS, query, measures.ATTEMPT_MEASURES, measures.ATTEMPT_DIMENSIONS)

    async def _metrics(
        self, kind: str, query: MetricsQuery, known: Mapping[str, Measure], dimensions: Sequence[str]
    ) -> MetricsResult:
        began = time.perf_counter_ns()
        count = measures.plan_count(query, known, dimensions)
        if count.dimensions:
            seen = await self._combinations(kind, count, count.most_combinations + 1)
            if seen > count.most_combinations:
                raise measures.too_many_combinations(count)
        rows = measures.rows(count, await self._count(kind, count), known)
        elapsed = (time.perf_counter_ns() - began) // 1_000_000
        return MetricsResult(rows=rows, query_time_ms=elapsed, row_count=len(rows), row_limit=ROW_LIMIT)

    async def prepare_ahead(self) -> None:  # noqa: B027 - drivers without partitions have nothing to do
        """Prepare for the coming months (PostgreSQL: their partitions; ClickHouse: the TTL). Repeatable."""

    async def drop_expired(self) -> list[str]:
        """Drop what is older than the retention of the options, where the server does not; returns the tables."""
        return []

    @abstractmethod
    async def migrate(self, *, dry_run: bool = False) -> MigrationPlan:
        """Create the tables, or upgrade those of an earlier release. Repeatable, and safe from several processes.

        Returns what was applied, or with ``dry_run`` what would be; then nothing changes.
        """

    @abstractmethod
    async def ping(self) -> None:
        """Raise DeliveryLogUnavailable unless the store answers, DeliveryLogError without its tables."""

    @abstractmethod
    async def apply_retention(self, days: int | None) -> None:
        """Delete entries older than ``days``; None or 0 keeps everything from now on."""

    @abstractmethod
    async def close(self) -> None:
        """Close every connection; never raises."""

    @abstractmethod
    async def _write(self, batch: list[LogRow]) -> list[Rejected]:
        """Write rows without duplicates, in their order; return those the database refused, one by one."""

    @abstractmethod
    async def _set_aside(self, rejected: list[Rejected]) -> None:
        """Store rejected entries in the quarantine, equal ones once."""

    @abstractmethod
    async def _quarantined(self, most: int, after: QuarantinedEntry | None) -> list[QuarantinedEntry]:
        """Up to ``most`` entries of the quarantine in the order of (time, id), those after ``after``."""

    @abstractmethod
    async def _forget(self, ids: list[str]) -> None:
        """Delete entries from the quarantine by their ids."""

    @abstractmethod
    async def purge_quarantine(self, before: datetime | None) -> int:
        """Delete entries that were quarantined at or before ``before``, None for all; returns their number."""

    @abstractmethod
    async def _scan_events(self, scan: Scan) -> PageRows[LoggedEvent]:
        """Up to ``scan.fetch`` events in reading order, and no more bytes than a page has."""

    @abstractmethod
    async def _scan_attempts(self, scan: Scan) -> PageRows[AttemptRecord]:
        """Up to ``scan.fetch`` attempts in reading order, and no more bytes than a page has."""

    @abstractmethod
    async def _find_event(self, event_id: str, tenant_id: str | None, destination_id: str | None) -> LoggedEvent | None:
        """As ``retrieve_event``."""

    @abstractmethod
    async def _find_attempt(self, attempt_id: str, tenant_id: str | None) -> AttemptRecord | None:
        """As ``retrieve_attempt``."""

    @abstractmethod
    async def _combinations(self, kind: str, count: Count, most: int) -> int:
        """How many combinations of dimension values pass, counted no further than ``most``."""

    @abstractmethod
    async def _count(self, kind: str, count: Count) -> list[MeasureTally]:
        """The counts of every slot and combination that is not empty."""


def _cause(error: DeliveryLogError) -> StorageError:
    return error.refusal or StorageError(str(error))


def _rejected(rows: Mapping[Key, LogRow], refusals: Mapping[Key, StorageError]) -> list[Rejected]:
    return [Rejected(entry_of(rows[key]), str(error)) for key, error in refusals.items()]


def _attempt_key(entry: LogEntry) -> Key:
    return entry.event.tenant_id, whole_millisecond(entry.attempt.time), entry.attempt.id


def _summary(rejected: Sequence[Rejected], total: int) -> str:
    """One line for a whole batch: at a month without a partition every entry of it is rejected."""
    (reason, _), *others = Counter(one.reason for one in rejected).most_common()
    more = f" ({len(others)} other reasons too)" if others else ""
    return f"quarantined {len(rejected)} of {total} log entries: {reason}{more}"
