"""The delivery log in this process's memory: for tests, and the simplest statement of the interface."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from relay.deliverylog.entries import LogRow, Rejected, entry_of
from relay.deliverylog.interface import EVENTS, DeliveryLog
from relay.deliverylog.measures import Count, Counts, MeasureTally
from relay.deliverylog.paging import PageRows, Scan, attempt_bytes, event_bytes, within_bytes
from relay.deliverylog.quarantine import QuarantinedEntry, as_text, id_of
from relay.deliverylog.records import FAILED, SUCCESS, AttemptRecord, LoggedAttempt, LoggedEvent
from relay.deliverylog.times import to_ms
from relay.postgres.migrations import MigrationPlan

_Key = tuple[str, int, str]


class MemoryDeliveryLog(DeliveryLog):
    """Keeps everything until the process ends."""

    def __init__(self) -> None:
        super().__init__()
        self._quarantine: dict[str, QuarantinedEntry] = {}
        self._events: dict[_Key, LoggedEvent] = {}
        self._attempts: dict[_Key, AttemptRecord] = {}

    async def migrate(self, *, dry_run: bool = False) -> MigrationPlan:  # noqa: ARG002 - as the other drivers
        """Nothing to create."""
        return MigrationPlan(0, recorded=True, pending=(), definitions=())

    async def ping(self) -> None:
        """Memory always answers."""

    async def close(self) -> None:
        """Nothing to close."""

    async def apply_retention(self, days: int | None) -> None:
        """Forget events and attempts by their own time, and quarantined entries."""
        if not days:
            return
        oldest = datetime.now(UTC) - timedelta(days=days)
        await self.purge_quarantine(oldest)
        self._events = {key: event for key, event in self._events.items() if event.time >= oldest}
        self._attempts = {key: record for key, record in self._attempts.items() if record.attempt.time >= oldest}

    async def _write(self, batch: list[LogRow]) -> list[Rejected]:
        entries = [entry_of(row) for row in batch]
        events = {(one.event.tenant_id, to_ms(one.event.time), one.event.id): one.event for one in entries}
        for event_key, event in events.items():  # the last copy of a batch, and the first batch's of all
            self._events.setdefault(event_key, event)
        for entry in entries:
            attempt = entry.attempt
            key = (attempt.tenant_id, to_ms(attempt.time), attempt.id)
            known = self._attempts.get(key)
            self._attempts[key] = AttemptRecord(attempt, entry.event) if known is None else _updated(known, attempt)
        return []

    async def _set_aside(self, rejected: list[Rejected]) -> None:
        for one in rejected:
            text = as_text(one.entry)
            entry = QuarantinedEntry(id_of(text), datetime.now(UTC), one.reason, text)
            self._quarantine.setdefault(entry.id, entry)

    async def _quarantined(self, most: int, after: QuarantinedEntry | None) -> list[QuarantinedEntry]:
        entries = sorted(self._quarantine.values(), key=lambda entry: (entry.time, entry.id))
        return [entry for entry in entries if after is None or (entry.time, entry.id) > (after.time, after.id)][:most]

    async def _forget(self, ids: list[str]) -> None:
        for entry_id in ids:
            del self._quarantine[entry_id]

    async def purge_quarantine(self, before: datetime | None) -> int:
        """As of the interface."""
        ids = [entry.id for entry in self._quarantine.values() if before is None or entry.time <= before]
        await self._forget(ids)
        return len(ids)

    async def _scan_events(self, scan: Scan) -> PageRows[LoggedEvent]:
        passing = [event for event in self._events.values() if _passes(scan, _event_fields(event))]
        events = _in_order(scan, passing, lambda event: (to_ms(event.time), event.id, event.tenant_id))
        copies = [_copy(event, with_data=scan.with_data) for event in events]
        return within_bytes(copies, event_bytes)

    async def _scan_attempts(self, scan: Scan) -> PageRows[AttemptRecord]:
        passing = [record for record in self._attempts.values() if _passes(scan, _attempt_fields(record.attempt))]
        records = _in_order(scan, passing, _by_event_time if scan.sort_by == "event_time" else _by_time)
        copies = [_record_copy(record, with_data=scan.with_data) for record in records]
        return within_bytes(copies, attempt_bytes)

    async def _find_event(self, event_id: str, tenant_id: str | None, destination_id: str | None) -> LoggedEvent | None:
        attempted = {
            (record.attempt.tenant_id, record.attempt.event_id)
            for record in self._attempts.values()
            if record.attempt.destination_id == destination_id
        }
        events = [
            event
            for event in self._events.values()
            if event.id == event_id
            and tenant_id in (None, event.tenant_id)
            and (destination_id is None or (event.tenant_id, event.id) in attempted)
        ]
        newest = max(events, key=lambda event: event.time, default=None)
        if newest is None:
            return None
        return _copy(newest if destination_id is None else replace(newest, destination_id=destination_id))

    async def _find_attempt(self, attempt_id: str, tenant_id: str | None) -> AttemptRecord | None:
        records = [
            record
            for record in self._attempts.values()
            if record.attempt.id == attempt_id and tenant_id in (None, record.attempt.tenant_id)
        ]
        newest = max(records, key=lambda record: record.attempt.time, default=None)
        return None if newest is None else _record_copy(newest)

    async def _combinations(self, kind: str, count: Count, most: int) -> int:
        return min(most, len({tally.dimensions for tally in await self._count(kind, count)}))

    async def _count(self, kind: str, count: Count) -> list[MeasureTally]:
        source = self._event_rows(count) if kind == EVENTS else self._attempt_rows()
        tallies: defaultdict[tuple[int | None, tuple[Any, ...]], Counts] = defaultdict(Counts)
        for time, fields, counts in source:
            if not count.start <= time < count.end or not _matches(count.filters, fields):
                continue
            slot = count.slots.slot(to_ms(time)) if count.slots else None
            key = (slot, tuple(fields[name] for name in count.dimensions))
            tallies[key] = Counts(*map(sum, zip(tallies[key], counts, strict=True)))
        return [MeasureTally(slot, dimensions, counts) for (slot, dimensions), counts in tallies.items()]

    def _event_rows(self, count: Count) -> Iterator[tuple[datetime, dict[str, Any], Counts]]:
        by_destination = "destination_id" in count.dimensions or "destination_id" in count.filters
        for event in self._events.values():
            fields = {"tenant_id": event.tenant_id, "topic": event.topic}
            for matched in dict.fromkeys(event.matched_destination_ids) if by_destination else (None,):
                yield event.time, {**fields, "destination_id": matched}, Counts(1)

    def _attempt_rows(self) -> Iterator[tuple[datetime, dict[str, Any], Counts]]:
        for record in self._attempts.values():
            yield record.attempt.time, _attempt_fields(record.attempt), _counts(record.attempt)


def _copy(event: LoggedEvent, *, with_data: bool = True) -> LoggedEvent:
    """An event that the caller may change: its lists and maps are the caller's own."""
    return replace(event, data=event.data if with_data else b"")


def _record_copy(record: AttemptRecord, *, with_data: bool = True) -> AttemptRecord:
    attempt = replace(record.attempt, response_data=deepcopy(record.attempt.response_data))
    return AttemptRecord(attempt, _copy(record.event, with_data=with_data))


def _updated(known: AttemptRecord, attempt: LoggedAttempt) -> AttemptRecord:
    changed = replace(known.attempt, status=attempt.status, code=attempt.code, response_data=attempt.response_data)
    return replace(known, attempt=changed)


def _event_fields(event: LoggedEvent) -> dict[str, Any]:
    return {
        "tenant_id": (event.tenant_id,),
        "event_id": (event.id,),
        "destination_id": event.matched_destination_ids,
        "topic": (event.topic,),
        "time": event.time,
    }


def _attempt_fields(attempt: LoggedAttempt) -> dict[str, Any]:
    return {name: getattr(attempt, name) for name in LoggedAttempt.__slots__}


def _passes(scan: Scan, fields: dict[str, Any]) -> bool:
    time, window = fields["time"], scan.window
    return (
        _matches(scan.filters, fields)
        and ("gte" not in window or time >= window["gte"])
        and ("lte" not in window or time <= window["lte"])
        and ("gt" not in window or time > window["gt"])
        and ("lt" not in window or time < window["lt"])
    )


def _matches(filters: Mapping[str, tuple[Any, ...]], fields: dict[str, Any]) -> bool:
    for name, values in filters.items():
        have = fields[name] if isinstance(fields[name], (tuple, list)) else (fields[name],)
        if not set(have) & set(values):
            return False
    return True


def _by_time(record: AttemptRecord) -> tuple[Any, ...]:
    return to_ms(record.attempt.time), record.attempt.id, record.attempt.tenant_id


def _by_event_time(record: AttemptRecord) -> tuple[Any, ...]:
    return to_ms(record.event.time), record.event.id, *_by_time(record)


def _in_order(scan: Scan, items: list[Any], key: Callable[[Any], tuple[Any, ...]]) -> list[Any]:
    items.sort(key=key, reverse=scan.descending)
    at = scan.position
    if at is not None:
        edge: tuple[Any, ...] = (at.event_ms, at.event_id) if scan.sort_by == "event_time" else ()
        edge = (*edge, at.ms, at.id, *(() if at.tenant_id is None else (at.tenant_id,)))
        cut = len(edge)
        items = [item for item in items if (key(item)[:cut] < edge if scan.descending else key(item)[:cut] > edge)]
    return items[: scan.fetch]


def _counts(attempt: LoggedAttempt) -> Counts:
    number = attempt.attempt_number
    return Counts(
        total=1,
        successful=attempt.status == SUCCESS,
        failed=attempt.status == FAILED,
        first_attempts=number == 1 and not attempt.manual,
        retries=number > 1,
        manual_retries=attempt.manual,
        number_sum=number,
    )
