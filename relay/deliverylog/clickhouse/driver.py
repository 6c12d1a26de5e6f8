"""The delivery log in ClickHouse, embedded (chdb) or a server: one denormalised table, and lists that order it.

A page is one range of a list (narrow rows in the order of the page), whose deliveries are then fetched by their key.
No GROUP BY and no FINAL there: copies that are not merged yet are dropped here, and a delivery whose status changed
since it was listed is recognised by its newest copy and skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from heapq import merge
from typing import Any

from relay.deliverylog import limits
from relay.deliverylog.clickhouse import history, rows
from relay.deliverylog.clickhouse.client import ClickHouseClient
from relay.deliverylog.clickhouse.rows import Key
from relay.deliverylog.clickhouse.statements import Branch, ClickHouseStatements, branches, ttl_days
from relay.deliverylog.cursor import Position
from relay.deliverylog.entries import LogRow, Rejected
from relay.deliverylog.limits import LONGEST_METRICS
from relay.deliverylog.measures import Count, MeasureTally, tallies_of
from relay.deliverylog.model import AttemptRecord, LoggedEvent
from relay.deliverylog.options import DeliveryLogOptions
from relay.deliverylog.paging import PageRows, Scan, attempt_bytes, event_bytes, within_bytes
from relay.deliverylog.quarantine import QuarantinedEntry, as_text
from relay.deliverylog.store import DeliveryLog
from relay.deliverylog.times import LATEST, to_ms
from relay.postgres.migrations import MigrationPlan

_QUARANTINE = "event_log_quarantine"
_TABLES = ("event_log", "event_log_attempts", "event_log_events", _QUARANTINE)
_MOST_BRANCHES = 16  # lists read one by one; more are one query that the server sorts
_PORTION = 200  # deliveries whose payloads are fetched at once
_MOST_FETCHED = 5000  # deliveries fetched at once while looking for those that still pass


class ClickHouseDeliveryLog(DeliveryLog):
    """Made by ``open``; use ``open_delivery_log``."""

    def __init__(self, client: ClickHouseClient, options: DeliveryLogOptions) -> None:
        super().__init__()
        self._client = client
        self._options = options
        self._sql = ClickHouseStatements(options.prefix)

    @classmethod
    async def open(cls, url: str, options: DeliveryLogOptions) -> ClickHouseDeliveryLog:
        """Connect. Raises ConfigError or DeliveryLogUnavailable."""
        ClickHouseStatements(options.prefix)  # raises for an invalid prefix before anything connects
        return cls(await ClickHouseClient.open(url, options.connections), options)

    async def close(self) -> None:
        """Close the client."""
        await self._client.close()

    async def ping(self) -> None:
        """Raise DeliveryLogError unless ClickHouse answers and the table exists."""
        await self._client.rows(self._sql.text("fetch:ping"))

    async def migrate(self, *, dry_run: bool = False) -> MigrationPlan:
        """Create the tables or upgrade those of an earlier release, and apply the retention of the options.

        Repeatable, and safe from several processes at once. Returns what was applied, or with ``dry_run`` what would
        be; then nothing changes.
        """
        if dry_run:
            return await history.plan(self._client, self._sql)
        applied = await history.apply(self._client, self._sql)
        if self._options.retention_days:
            await self.apply_retention(self._options.retention_days)
        return applied

    async def retention(self) -> int | None:
        """The days that the server keeps deliveries, read from its tables; None: without a limit."""
        return (await self._ttls())["event_log"]

    async def apply_retention(self, days: int | None) -> None:
        """Make ``days`` the TTL of every table, where it is not already; None or 0 removes it."""
        now = await self._ttls()
        if days:
            if set(now.values()) != {days}:
                for statement in self._sql.ttl(days):
                    await self._client.command(statement)
            return
        for table, ttl in now.items():
            if ttl is not None:  # ClickHouse refuses to remove a TTL that does not exist
                await self._client.command(self._sql.no_ttl(table))

    async def _ttls(self) -> dict[str, int | None]:
        ttls = {}
        for table in _TABLES:
            engine_rows = await self._client.rows(self._sql.text("retention:read"), {"name": self._sql.table(table)})
            ttls[table] = ttl_days(str(engine_rows[0][0])) if engine_rows else None
        return ttls

    async def _write(self, batch: list[LogRow]) -> list[Rejected]:
        await self._client.insert(self._sql.table("event_log"), rows.COLUMNS, rows.columns(batch))
        return []

    async def _set_aside(self, rejected: list[Rejected]) -> None:
        reasons = {as_text(one.entry): one.reason.encode("utf-8", "replace").decode() for one in rejected}
        known = await self._client.rows(self._sql.text("quarantine:known"), {"entries": list(reasons)})
        fresh = {entry: reason for entry, reason in reasons.items() if (entry,) not in set(map(tuple, known))}
        if fresh:
            columns = list(fresh.values()), list(fresh)
            await self._client.insert(self._sql.table(_QUARANTINE), ("reason", "entry"), columns)

    async def _quarantined(self, most: int, after: QuarantinedEntry | None) -> list[QuarantinedEntry]:
        parameters: dict[str, Any] = {"most": most}
        if after is not None:
            parameters.update(after_ms=to_ms(after.time), after_id=after.id)
        sql = self._sql.text("quarantine:list", *(() if after is None else ("after",)))
        return [rows.quarantined(row) for row in await self._client.rows(sql, parameters)]

    async def _forget(self, ids: list[str]) -> None:
        await self._client.command(self._sql.text("quarantine:forget"), {"ids": ids})

    async def purge_quarantine(self, before: datetime | None) -> int:
        """Delete entries that were quarantined at or before ``before``, None for all; returns their number."""
        parameters = {"before": to_ms(before or LATEST)}
        counted = await self._client.rows(self._sql.text("quarantine:count"), parameters)
        await self._client.command(self._sql.text("quarantine:purge"), parameters)
        return int(counted[0][0])

    async def _scan_events(self, scan: Scan) -> PageRows[LoggedEvent]:
        parts, narrowed = branches(scan, _MOST_BRANCHES)
        keys = await self._keys(narrowed, parts, rows.event_place)
        deliveries = await self._fetch(keys, scan)
        events = [deliveries[key.delivery].event for key in keys if key.delivery in deliveries]
        return within_bytes(events, event_bytes)

    async def _scan_attempts(self, scan: Scan) -> PageRows[AttemptRecord]:
        """Read on until the page is full: a delivery may no longer have the status it was listed with."""
        parts, narrowed = branches(scan, _MOST_BRANCHES)
        by_event = scan.sort_by == "event_time"
        passing: list[AttemptRecord] = []
        while True:
            keys = await self._keys(narrowed, parts, lambda key: rows.attempt_place(key, by_event=by_event))
            deliveries = await self._fetch(keys, scan)
            passing += [
                deliveries[key.delivery]
                for key in keys
                if key.delivery in deliveries and _passes(scan, deliveries[key.delivery])
            ]
            if len(passing) >= scan.fetch or len(keys) < narrowed.fetch:
                return within_bytes(passing[: scan.fetch], attempt_bytes)
            narrowed = replace(
                narrowed,
                position=rows.attempt_place(keys[-1], by_event=by_event),
                limit=min(narrowed.limit * 2, _MOST_FETCHED),
            )

    async def _keys(self, scan: Scan, parts: Sequence[Branch], place: Callable[[Key], Position]) -> list[Key]:
        """Up to ``scan.fetch`` keys of all branches, in reading order, each once."""
        lists = [await self._range(scan, part, place) for part in parts]
        if len(lists) == 1:
            return lists[0]
        merged = merge(*lists, key=lambda key: _order(place(key)), reverse=scan.descending)
        return _distinct(merged, place)[: scan.fetch]

    async def _range(self, scan: Scan, part: Branch, place: Callable[[Key], Position]) -> list[Key]:
        """The same of one branch; reads again, and further, when copies that are not merged yet used up the limit.

        One place more is read than returned, so that the last one is returned with all its copies.
        """
        most = scan.fetch + 1
        while True:
            listed = [Key(*row) for row in await self._client.rows(*self._sql.list_keys(scan, part, most))]
            distinct = _distinct(listed, place)
            if len(distinct) > scan.fetch or len(listed) < most:
                return distinct[: scan.fetch]
            most *= 2

    async def _fetch(self, keys: Sequence[Key], scan: Scan) -> dict[tuple[str, str, int, str, str], AttemptRecord]:
        """The deliveries of the keys. Payloads are read in portions, and no more of them than a page has bytes."""
        portion = _PORTION if scan.with_data else max(len(keys), 1)
        deliveries: dict[tuple[str, str, int, str, str], AttemptRecord] = {}
        total = 0
        for start in range(0, len(keys), portion):
            with_data = scan.with_data and total <= limits.MOST_PAGE_BYTES  # what follows belongs to the next page
            sql = self._sql.text("fetch:deliveries", *(("data",) if with_data else ()))
            for row in await self._client.rows(sql, rows.key_arrays(keys[start : start + portion])):
                record = rows.record(row)
                deliveries[rows.delivery_of(row)] = record
                total += attempt_bytes(record) if _passes(scan, record) else 0
        return deliveries

    async def _find_event(self, event_id: str, tenant_id: str | None, destination_id: str | None) -> LoggedEvent | None:
        """The newest of the id that has an attempt to ``destination_id``, unless that is None."""
        scan = _by_id("evt", tenant_id)
        keys = await self._keys(scan, [Branch("event_id", ("",), (event_id,))], rows.event_place)
        for key in keys:
            if destination_id is not None and not await self._attempted(key, destination_id):
                continue
            for record in (await self._fetch([key], scan)).values():
                return record.event if destination_id is None else replace(record.event, destination_id=destination_id)
        return None

    async def _attempted(self, key: Key, destination_id: str) -> bool:
        parameters = {"event_id": key.event_id, "tenant_id": key.tenant_id, "destination_id": destination_id}
        answer = await self._client.rows(self._sql.text("fetch:has_attempt"), parameters)
        return bool(answer[0][0])

    async def _find_attempt(self, attempt_id: str, tenant_id: str | None) -> AttemptRecord | None:
        scan = replace(_by_id("att", tenant_id), limit=0)
        keys = await self._keys(scan, [Branch("id", ("",), (attempt_id,))], rows.event_place)
        deliveries = await self._fetch(keys, scan)
        return next(iter(deliveries.values()), None)

    async def _combinations(self, kind: str, count: Count, most: int) -> int:
        answer = await self._client.rows(*self._sql.combine(kind, count, most), seconds=LONGEST_METRICS)
        return int(answer[0][0])

    async def _count(self, kind: str, count: Count) -> list[MeasureTally]:
        columns, tallies = await self._client.table(*self._sql.count(kind, count), seconds=LONGEST_METRICS)
        return tallies_of(columns, tallies, count, int) if tallies else []  # an empty result names no columns


def _distinct(keys: Iterable[Key], place: Callable[[Key], Position]) -> list[Key]:
    """One key of each place, of the highest version."""
    distinct: dict[Position, Key] = {}
    for key in keys:
        known = distinct.setdefault(place(key), key)
        if key.version > known.version:
            distinct[place(key)] = key
    return list(distinct.values())


def _order(at: Position) -> tuple[Any, ...]:
    return at.event_ms, at.event_id, at.ms, at.id, at.tenant_id


def _passes(scan: Scan, record: AttemptRecord) -> bool:
    """Whether the newest copy still passes the filter by status; nothing else of an attempt ever changes."""
    return "status" not in scan.filters or record.attempt.status in scan.filters["status"]


def _by_id(resource: str, tenant_id: str | None) -> Scan:
    filters = {} if tenant_id is None else {"tenant_id": (tenant_id,)}
    return Scan(resource, filters, {}, "desc", "time", 100, None, backward=False)
