"""The delivery log in PostgreSQL (15 or newer): monthly partitions, keyset pages, batches copied in.

A batch is one transaction. A missing month's partition is created on demand, within the retention.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString, TypeVar

import psycopg

from relay.deliverylog import limits
from relay.deliverylog.entries import LogRow, Rejected, entry_of
from relay.deliverylog.interface import DeliveryLog
from relay.deliverylog.limits import LONGEST_METRICS, LONGEST_PAGE
from relay.deliverylog.log_options import DeliveryLogOptions
from relay.deliverylog.measures import Count, MeasureTally, tallies_of
from relay.deliverylog.paging import PageRows, Scan
from relay.deliverylog.postgres import rows
from relay.deliverylog.postgres.connections import LogConnections, fetched, translating
from relay.deliverylog.postgres.inserts import BatchInserts
from relay.deliverylog.postgres.migration_list import LogSchema
from relay.deliverylog.postgres.partitions import (
    Partitions,
    missing_ahead,
    month_after,
    month_of,
    ready_until,
)
from relay.deliverylog.postgres.planner import NEAREST, looks_large, near, wider
from relay.deliverylog.postgres.statements import PostgresStatements, Statement
from relay.deliverylog.quarantine import QuarantinedEntry, as_text
from relay.deliverylog.records import AttemptRecord, LoggedEvent
from relay.deliverylog.times import LATEST, time_near, to_ms
from relay.postgres.connect import Connection, connect_async
from relay.postgres.migrate import migrate_async
from relay.postgres.migrations import MigrationPlan
from relay.postgres.pipeline import one_transaction
from relay.postgres.url import ConnectionParameters, connection_parameters

Item = TypeVar("Item")
Result = TypeVar("Result")

_SOURCE = "DELIVERY_LOG_URL"
_NAME = "openoutbox-relay-log"  # in pg_stat_activity, unless the URL names another
# Seconds, both. Connecting is repeated, so a short wait for each attempt is a short wait after a failure.
_CONNECT_TIMEOUT = 4
_LONGEST_MIGRATION = 3600.0  # it may wait for locks, and builds indexes
_TRIES = 5  # of a batch that lost a race, or whose month was dropped meanwhile
_LOST_RACE = "40"  # tried again at once; other busy states have waited for their timeout already
_NO_PARTITION = "23514"


class PostgresDeliveryLog(DeliveryLog):
    """Made by ``open``; use ``open_delivery_log``."""

    def __init__(self, parameters: ConnectionParameters, options: DeliveryLogOptions) -> None:
        super().__init__()
        self._parameters = parameters
        self._pool = LogConnections(parameters, max(options.connections, 1))
        self._options = options
        self._sql = PostgresStatements(options.schema)
        self.partitions = Partitions(self._sql)
        self._months: set[datetime] = set()
        self._inserts = BatchInserts(self._sql)

    @classmethod
    async def open(cls, url: str, options: DeliveryLogOptions) -> PostgresDeliveryLog:
        """Connect. Raises ConfigError for an invalid URL, DeliveryLogUnavailable when the database does not answer."""
        store = cls(connection_parameters(url, _NAME, source=_SOURCE, connect_timeout=_CONNECT_TIMEOUT), options)
        await store._pool.run("connecting", _connected)
        return store

    async def close(self) -> None:
        """Close every connection."""
        await self._pool.close()

    async def ping(self) -> None:
        """Raise DeliveryLogError unless the database answers and the tables exist."""
        await self._pool.run("reading the delivery log's tables", lambda own: own.execute(self._sql.text("find:ping")))

    async def migrate(self, *, dry_run: bool = False) -> MigrationPlan:
        """As of the interface, and create the partitions of the coming months.

        Raises DeliveryLogBusy when a transaction in progress keeps a table locked: nothing was changed, run it again.
        """
        schema = LogSchema(self._sql)
        plan = await self._pool.run(
            schema.doing, lambda connection: migrate_async(connection, schema, dry_run=dry_run), _LONGEST_MIGRATION
        )
        if dry_run:
            return plan
        await self.prepare_ahead()
        return plan

    async def prepare_ahead(self) -> None:
        """Create the partitions of this month and the next ones. ``ready_until`` is right also when that fails."""

        async def prepare(connection: Connection) -> None:
            have = await self.partitions.months(connection)
            missing = missing_ahead(have, datetime.now(UTC), self._options.months_ahead)
            self._now_has(have)
            if missing:
                await self.partitions.ensure(connection, missing)
                self._now_has(await self.partitions.months(connection))

        await self._pool.run("creating the coming months", prepare)

    def _now_has(self, months: set[datetime]) -> None:
        self._months = months
        self.ready_until = ready_until(months, datetime.now(UTC))

    async def missing_months(self) -> list[datetime]:
        """Those of this month and the next ones that have no partition."""
        have = await self._pool.run("reading the months", self.partitions.months)
        return missing_ahead(have, datetime.now(UTC), self._options.months_ahead)

    async def apply_retention(self, days: int | None) -> None:
        """Drop every month that ended more than ``days`` days ago. Writers do not wait for it."""
        if days:
            await self.drop_months(datetime.now(UTC) - timedelta(days=days))

    async def drop_expired(self) -> list[str]:
        """As of the interface. Reads first, so that it needs no right while there is nothing to drop."""
        oldest = self._oldest
        if oldest is None:
            return []
        partitions = await self._pool.run("reading the months", self.partitions.all)
        return await self.drop_months(oldest) if any(one.expired(oldest) for one in partitions) else []

    async def drop_months(self, oldest: datetime) -> list[str]:
        """Drop every month that ended at or before ``oldest``, and what was quarantined by then; returns the tables."""
        await self.purge_quarantine(oldest)
        try:
            with translating():
                async with await connect_async(self._parameters) as connection:
                    return await self.partitions.drop_before(connection, oldest)
        finally:
            self._months.clear()

    async def _write(self, batch: list[LogRow]) -> list[Rejected]:
        months = _months(*batch)

        async def write(connection: Connection) -> list[Rejected]:
            homeless = await self._without_partition(connection, months)
            if not homeless:
                return await self._insert(connection, batch)
            homes = [(row, homeless.isdisjoint(self._needed(row))) for row in batch]
            placed = [row for row, has_home in homes if has_home]
            rejected = [
                Rejected(entry_of(row), "its month has no partition") for row, has_home in homes if not has_home
            ]
            return rejected + (await self._insert(connection, placed) if placed else [])

        return await self._pool.run("writing attempts", write)

    async def _without_partition(self, connection: Connection, months: set[datetime]) -> set[datetime]:
        """Create missing partitions; return the months beyond the retention or without the right to create them."""
        if months <= self._months:
            return set()
        self._months = await self.partitions.months(connection)
        missing = months - self._months
        missing -= self._past(missing)
        with suppress(psycopg.errors.InsufficientPrivilege):
            if missing:
                await self.partitions.ensure(connection, missing)
                self._months = await self.partitions.months(connection)
        return months - self._months

    def _past(self, months: set[datetime]) -> set[datetime]:
        """Those that the retention drops."""
        oldest = self._oldest
        return set() if oldest is None else {month for month in months if month_after(month) <= oldest}

    @property
    def _oldest(self) -> datetime | None:
        """The time before which the retention of the options drops entries; None where it keeps all."""
        days = self._options.retention_days
        return datetime.now(UTC) - timedelta(days=days) if days else None

    def _needed(self, row: LogRow) -> set[datetime]:
        """The months whose partitions a row needs: without that of an event which the retention would drop at once."""
        own, of_event = month_of(row.time), month_of(row.event_time)
        return {own} if self._past({of_event} - self._months) else {own, of_event}

    async def _insert(self, connection: Connection, batch: Sequence[LogRow]) -> list[Rejected]:
        for attempt in range(1, _TRIES + 1):
            try:
                await self._inserts.insert(connection, batch, self._past(_months(*batch) - self._months))
            except psycopg.Error as error:
                state = error.sqlstate or ""
                if state == _NO_PARTITION and attempt < _TRIES:
                    self._months.clear()  # a month was dropped since the partitions were read
                    homeless = await self._without_partition(connection, _months(*batch))
                    if homeless - self._past(homeless):
                        raise
                elif not state.startswith(_LOST_RACE) or attempt == _TRIES:
                    raise
            else:
                return []
        raise AssertionError("unreachable")

    async def _set_aside(self, rejected: list[Rejected]) -> None:
        parameters = {
            "reason": [one.reason.replace("\x00", "") for one in rejected],
            "entry": [as_text(one.entry) for one in rejected],
        }
        statement = self._sql.text("quarantine:add")
        await self._pool.run("writing to the quarantine", lambda connection: connection.execute(statement, parameters))

    async def _quarantined(self, most: int, after: QuarantinedEntry | None) -> list[QuarantinedEntry]:
        parameters: dict[str, Any] = {"most": most}
        if after is not None:
            parameters.update(after_time=after.time, after_id=after.id)
        sql = self._sql.text("quarantine:list", *(() if after is None else ("after",)))
        return await self._fetch(sql, parameters, rows.quarantined)

    async def _forget(self, ids: list[str]) -> None:
        statement = self._sql.text("quarantine:forget")
        await self._pool.run("deleting from the quarantine", lambda own: own.execute(statement, {"ids": ids}))

    async def purge_quarantine(self, before: datetime | None) -> int:
        """As of the interface."""
        statement = self._sql.text("quarantine:purge")
        cursor = await self._pool.run(
            "deleting from the quarantine", lambda own: own.execute(statement, {"before": before or LATEST})
        )
        return cursor.rowcount

    async def _scan_events(self, scan: Scan) -> PageRows[LoggedEvent]:
        return await self._listed(self._sql.list_events, scan, rows.event)

    async def _scan_attempts(self, scan: Scan) -> PageRows[AttemptRecord]:
        return await self._listed(self._sql.list_attempts, scan, rows.attempt)

    async def _listed(
        self, statement: Callable[[Scan], Statement], scan: Scan, build: Callable[[Sequence[Any]], Item]
    ) -> PageRows[Item]:
        """Read the months where the page begins first, and more months only when these do not fill it."""
        if not self._months:
            self._months = await self._pool.run("reading the months", self.partitions.months)
        now, span = datetime.now(UTC), NEAREST
        while span and (narrowed := near(scan, self._months, now, span)) is not None:
            page = await self._fetch_page(statement(narrowed), scan, build)
            if page.cut or len(page.items) == scan.fetch:
                return page
            span = wider(len(page.items), scan.fetch, self._months) if span == NEAREST else 0
        return await self._fetch_page(statement(scan), scan, build)

    async def _fetch_page(
        self, statement: Statement, scan: Scan, build: Callable[[Sequence[Any]], Item]
    ) -> PageRows[Item]:
        if not looks_large(scan):
            listed = await self._fetch(*statement, lambda row: row)
        else:

            async def fetch(connection: Connection) -> list[Sequence[Any]]:
                async with one_transaction(connection):
                    await connection.execute(self._sql.jit_off)
                    cursor = connection.cursor(binary=True)
                    await cursor.execute(*statement)
                    return await fetched(cursor)

            listed = await self._pool.read(fetch)
        cut = len(listed) > 1 and listed[-1][-1] > limits.MOST_PAGE_BYTES  # the last column counts the bytes so far
        return PageRows([build(row) for row in listed], cut)

    async def _find_event(self, event_id: str, tenant_id: str | None, destination_id: str | None) -> LoggedEvent | None:
        tags = ["tenant"] if tenant_id is not None else []
        tags += ["destination"] if destination_id is not None else []
        parameters = {"event_id": event_id, "tenant_id": tenant_id, "destination_id": destination_id}
        return await self._find("find:event", tags, parameters, event_id, rows.event)

    async def _find_attempt(self, attempt_id: str, tenant_id: str | None) -> AttemptRecord | None:
        tags = ["tenant"] if tenant_id is not None else []
        parameters = {"attempt_id": attempt_id, "tenant_id": tenant_id}
        return await self._find("find:attempt", tags, parameters, attempt_id, rows.attempt)

    async def _find(
        self,
        name: str,
        tags: list[str],
        parameters: Mapping[str, Any],
        row_id: str,
        build: Callable[[Sequence[Any]], Item],
    ) -> Item | None:
        """Search around the time of a time-ordered id first, then everywhere, the newest partition first."""
        window = time_near(row_id)
        if window is not None:
            near = {**parameters, "from": window[0], "to": window[1]}
            matches = await self._fetch(self._sql.text(name, "window", *tags), near, build)
            if matches:
                return matches[0]
        matches = await self._fetch(self._sql.text(name, *tags), parameters, build)
        return matches[0] if matches else None

    async def _combinations(self, kind: str, count: Count, most: int) -> int:
        [combinations] = await self._fetch(
            *self._sql.combine(kind, count, most), lambda row: int(row[0]), LONGEST_METRICS
        )
        return combinations

    async def _count(self, kind: str, count: Count) -> list[MeasureTally]:
        async def fetch(connection: Connection) -> list[MeasureTally]:
            async with connection.cursor(binary=True) as cursor:
                await cursor.execute(*self._sql.count(kind, count))
                columns = [column.name for column in cursor.description or ()]
                return tallies_of(columns, await fetched(cursor), count, lambda slot: to_ms(slot.astimezone(UTC)))

        return await self._pool.read(fetch, LONGEST_METRICS)

    async def _fetch(
        self,
        statement: LiteralString,
        parameters: Mapping[str, Any],
        build: Callable[[Sequence[Any]], Item],
        deadline: float = LONGEST_PAGE,
    ) -> list[Item]:
        async def fetch(connection: Connection) -> list[Item]:
            async with connection.cursor(binary=True) as cursor:
                await cursor.execute(statement, parameters)
                return [build(row) for row in await fetched(cursor)]

        return await self._pool.read(fetch, deadline)


async def _connected(connection: Connection) -> None:
    """Nothing: the connection is made before this is called."""


def _months(*batch: LogRow) -> set[datetime]:
    """The months of the rows' times, which are in UTC."""
    numbers = {(time.year, time.month) for row in batch for time in (row.event_time, row.time)}
    return {datetime(year, month, 1, tzinfo=UTC) for year, month in numbers}
