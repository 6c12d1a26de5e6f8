"""The delivery log in ClickHouse, embedded (chdb) or a server: one denormalised table, and lists that order it.

A page is one range of a list (narrow rows in the order of the page), whose deliveries are then fetched by their key.
No GROUP BY and no FINAL there: copies that are not merged yet are dropped here, a delivery whose status changed since
it was listed is recognised by its newest copy and skipped, and so is an entry whose delivery the TTL has deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from heapq import merge
from typing import Any

from relay.deliverylog import limits
from relay.deliverylog.clickhouse import migration_list, rows
from relay.deliverylog.clickhouse.client import ClickHouseClient
from relay.deliverylog.clickhouse.rows import Key
from relay.deliverylog.clickhouse.statements import (
    QUARANTINE,
    TABLES,
    Branch,
    ClickHouseStatements,
    branches,
    ttl_days,
)
from relay.deliverylog.cursor import Position
from relay.deliverylog.entries import LogRow, Rejected
from relay.deliverylog.errors import DeliveryLogError, DeliveryLogUnavailable
from relay.deliverylog.interface import DeliveryLog
from relay.deliverylog.limits import LONGEST_METRICS
from relay.deliverylog.log_options import DeliveryLogOptions
from relay.deliverylog.measures import Count, MeasureTally, tallies_of
from relay.deliverylog.paging import PageRows, Scan, attempt_bytes, event_bytes, within_bytes
from relay.deliverylog.quarantine import QuarantinedEntry, as_text
from relay.deliverylog.records import AttemptRecord, LoggedEvent
from relay.deliverylog.times import LATEST, from_ms, to_ms
from relay.postgres.migrations import MigrationPlan

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
        """As of the interface, and apply the retention of the options."""
        applied = await migration_list.migrate(self._client, self._sql, dry_run=dry_run)
        if self._options.retention_days and not dry_run:
            await self.apply_retention(self._options.retention_days)
        return applied

    async def retention(self) -> int | None:
        """The days that the server keeps deliveries, read from its tables; None: without a limit."""
        return (await self._ttls())[self._sql.table("event_log")]

    async def apply_retention(self, days: int | None) -> None:
        """Make ``days`` the TTL of every table, where it is not already; None or 0 removes it.

        Raises DeliveryLogError for a TTL that the log did not write, which stays as it is.
        """
        now = await self._ttls()
        if days:
            await self._keep(days, now, sync=True)
            return
        for table, ttl in now.items():
            if ttl is not None:  # ClickHouse refuses to remove a TTL that does not exist
                await self._alter(table, self._sql.no_ttl(table))

    async def prepare_ahead(self) -> None:
        """Apply the retention of the options where another one is in force; the server deletes in the background."""
        if self._options.retention_days:
            await self._keep(self._options.retention_days, await self._ttls(), sync=False)

    async def _keep(self, days: int, now: Mapping[str, int | None], *, sync: bool) -> None:
        for table, statement in self._sql.ttl(days, sync=sync):
            if now[table] != days:
                await self._alter(table, statement)

    async def _alter(self, table: str, statement: str) -> None:
        try:
            await self._client.command(statement)
        except DeliveryLogUnavailable:
            raise
        except DeliveryLogError as error:
            raise DeliveryLogError(f"table {table}: {error}") from error

    async def _ttls(self) -> dict[str, int | None]:
        """The retention of each table by its real name. Raises DeliveryLogError for a table that is missing."""
        ttls = {}
        for table in map(self._sql.table, TABLES):
            engine_rows = await self._client.rows(self._sql.text("retention:read"), {"name": table})
            if not engine_rows:
                raise DeliveryLogError(f"table {table} is missing; run relay-cli log migrate")
            ttls[table] = ttl_days(str(engine_rows[0][0]), table)
        return ttls

    async def _write(self, batch: list[LogRow]) -> list[Rejected]:
        for part in rows.inserts(batch):
            await self._client.insert(self._sql.table("event_log"), rows.COLUMNS, rows.columns(part))
        return []

    async def _set_aside(self, rejected: list[Rejected]) -> None:
        reasons = {as_text(one.entry): one.reason.encode("utf-8", "replace").decode() for one in rejected}
        rows_known = await self._client.rows(self._sql.text("quarantine:known"), {"entries": list(reasons)})
        known = {entry for (entry,) in rows_known}
        fresh = {entry: reason for entry, reason in reasons.items() if entry not in known}
        if fresh:
            columns = list(fresh.values()), list(fresh)
            await self._client.insert(self._sql.table(QUARANTINE), ("reason", "entry"), columns)

    async def _quarantined(self, most: int, after: QuarantinedEntry | None) -> list[QuarantinedEntry]:
        parameters: dict[str, Any] = {"most": most}
        if after is not None:
            parameters.update(after_ms=to_ms(after.time), after_id=after.id)
        sql = self._sql.text("quarantine:list", *(() if after is None else ("after",)))
        return [rows.quarantined(row) for row in await self._client.rows(sql, parameters)]

    async def _forget(self, ids: list[str]) -> None:
        await self._client.command(self._sql.text("quarantine:forget"), {"ids": ids})

    async def purge_quarantine(self, before: datetime | None) -> int:
        """As of the interface."""
        parameters = {"before": to_ms(before or LATEST)}
        counted = await self._client.rows(self._sql.text("quarantine:count"), parameters)
        await self._client.command(self._sql.text("quarantine:purge"), parameters)
        return int(counted[0][0])

    async def _scan_events(self, scan: Scan) -> PageRows[LoggedEvent]:
        """Read on until the page is full: the TTL may have deleted deliveries whose list entries are still there, and
        a later copy of an event may have another topic or other destinations than the first, which counts.
        """
        parts, narrowed = branches(scan, _MOST_BRANCHES)
        passing: list[LoggedEvent] = []
        while True:
            listed = await self._keys(narrowed, parts, rows.event_position)
            copies = await self._all_copies(listed) if _depends_on_copy(scan) else listed
            records = await self._deliveries(copies, scan)
            passing += [one.event for one in records if one is not None and _is_listed(scan, one.event)]
            if len(passing) >= scan.fetch or len(listed) < narrowed.fetch:
                return within_bytes(passing[: scan.fetch], event_bytes)
            narrowed = _further(narrowed, rows.event_position(listed[-1][0]))

    async def _scan_attempts(self, scan: Scan) -> PageRows[AttemptRecord]:
        """Read on until the page is full: likewise, and a delivery may have another status or code than in its list."""
        parts, narrowed = branches(scan, _MOST_BRANCHES)
        position_of = partial(rows.attempt_position, by_event=scan.sort_by == "event_time")
        passing: list[AttemptRecord] = []
        while True:
            listed = await self._keys(narrowed, parts, position_of)
            records = await self._deliveries(listed, scan)
            passing += [record for record in records if record is not None and _passes(scan, record)]
            if len(passing) >= scan.fetch or len(listed) < narrowed.fetch:
                return within_bytes(passing[: scan.fetch], attempt_bytes)
            narrowed = _further(narrowed, position_of(listed[-1][0]))

    async def _keys(
        self, scan: Scan, parts: Sequence[Branch], position_of: Callable[[Key], Position]
    ) -> list[list[Key]]:
        """Up to ``scan.fetch`` positions of all branches, in reading order, each with its deliveries."""
        lists = [await self._range(scan, part, position_of) for part in parts]
        if len(lists) == 1:
            return lists[0]
        merged = merge(*lists, key=lambda keys: _order(position_of(keys[0])), reverse=scan.descending)
        return _by_position((key for keys in merged for key in keys), position_of)[: scan.fetch]

    async def _range(self, scan: Scan, part: Branch, position_of: Callable[[Key], Position]) -> list[list[Key]]:
        """The same of one branch; reads again, and further, when copies and retries used up the limit.

        One position more is read than returned, so that the last one is returned with all its keys.
        """
        most = scan.fetch + 1
        while True:
            listed = [Key(*row) for row in await self._client.rows(*self._sql.list_keys(scan, part, most))]
            positions = _by_position(listed, position_of)
            if len(positions) > scan.fetch or len(listed) < most:
                return positions[: scan.fetch]
            most *= 2

    async def _deliveries(self, listed: Sequence[Sequence[Key]], scan: Scan) -> list[AttemptRecord | None]:
        """For each position the first of its deliveries that is left; None where the TTL has deleted them all."""
        records: list[AttemptRecord | None] = [None] * len(listed)
        missing, rank = list(range(len(listed))), 0
        while missing:
            fetched = await self._fetch([listed[index][rank] for index in missing], scan)
            for index in missing:
                records[index] = fetched.get(listed[index][rank].delivery)
            rank += 1
            missing = [index for index in missing if records[index] is None and len(listed[index]) > rank]
        return records

    async def _all_copies(self, listed: Sequence[Sequence[Key]]) -> list[list[Key]]:
        """The same positions, each with the deliveries of all copies of its event, that of the first copy first."""
        if not listed:
            return []
        ids = tuple({keys[0].event_id for keys in listed})
        times = [keys[0].sort_ms for keys in listed]
        window = {"gte": from_ms(min(times)), "lte": from_ms(max(times))}
        scan = replace(_by_id("evt", None), window=window, limit=_MOST_FETCHED)
        part = Branch("event_id", ("",), ids)
        copies = {rows.event_position(keys[0]): keys for keys in await self._range(scan, part, rows.event_position)}
        return [copies.get(rows.event_position(keys[0]), list(keys)) for keys in listed]

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
        for keys in await self._keys(scan, [Branch("event_id", ("",), (event_id,))], rows.event_position):
            if destination_id is not None and not await self._attempted(keys[0], destination_id):
                continue
            [record] = await self._deliveries([keys], scan)
            if record is not None:
                return record.event if destination_id is None else replace(record.event, destination_id=destination_id)
        return None

    async def _attempted(self, key: Key, destination_id: str) -> bool:
        parameters = {"event_id": key.event_id, "tenant_id": key.tenant_id, "destination_id": destination_id}
        answer = await self._client.rows(self._sql.text("fetch:has_attempt"), parameters)
        return bool(answer[0][0])

    async def _find_attempt(self, attempt_id: str, tenant_id: str | None) -> AttemptRecord | None:
        scan = replace(_by_id("att", tenant_id), limit=0)
        listed = await self._keys(scan, [Branch("id", ("",), (attempt_id,))], rows.event_position)
        return next(iter(await self._deliveries(listed, scan)), None)

    async def _combinations(self, kind: str, count: Count, most: int) -> int:
        answer = await self._client.rows(*self._sql.combine(kind, count, most), seconds=LONGEST_METRICS)
        return int(answer[0][0])

    async def _count(self, kind: str, count: Count) -> list[MeasureTally]:
        columns, tallies = await self._client.table(*self._sql.count(kind, count), seconds=LONGEST_METRICS)
        return tallies_of(columns, tallies, count, int) if tallies else []  # an empty result names no columns


def _by_position(keys: Iterable[Key], position_of: Callable[[Key], Position]) -> list[list[Key]]:
    """The keys of each position, one for each delivery, that of the highest version first."""
    positions: dict[Position, dict[tuple[Any, ...], Key]] = {}
    for key in keys:
        deliveries = positions.setdefault(position_of(key), {})
        known = deliveries.get(key.delivery)
        if known is None or key.version > known.version:
            deliveries[key.delivery] = key
    return [sorted(deliveries.values(), key=lambda key: -key.version) for deliveries in positions.values()]


def _further(scan: Scan, position: Position) -> Scan:
    """The scan that goes on after a position, with twice the limit."""
    return replace(scan, position=position, limit=min(scan.limit * 2, _MOST_FETCHED))


def _order(at: Position) -> tuple[Any, ...]:
    return at.event_ms, at.event_id, at.ms, at.id, at.tenant_id


def _passes(scan: Scan, record: AttemptRecord) -> bool:
    """Whether the newest copy still passes the filters by status and code; nothing else that filters ever changes."""
    statuses, codes = scan.filters.get("status"), scan.filters.get("code")
    attempt = record.attempt
    return (statuses is None or attempt.status in statuses) and (codes is None or attempt.code in codes)


def _depends_on_copy(scan: Scan) -> bool:
    """Whether the listing filters by what may differ between copies of one event."""
    return "destination_id" in scan.filters or "topic" in scan.filters


def _is_listed(scan: Scan, event: LoggedEvent) -> bool:
    """Whether an event passes the filters by what may differ between its copies."""
    destinations, topics = scan.filters.get("destination_id"), scan.filters.get("topic")
    matched = destinations is None or not set(destinations).isdisjoint(event.matched_destination_ids)
    return matched and (topics is None or event.topic in topics)


def _by_id(resource: str, tenant_id: str | None) -> Scan:
    filters = {} if tenant_id is None else {"tenant_id": (tenant_id,)}
    return Scan(resource, filters, {}, "desc", "time", 100, None, backward=False)
