"""Monthly partitions of the PostgreSQL log: created ahead and on demand, checked, and dropped by retention.

Whole months are dropped, first detached CONCURRENTLY, so writers never wait. An interrupted run is completed by the
next one. Everything here is safe to run from several processes.

What is a partition, and of which time, is read from the catalog and never from a name: an operator may attach tables
of other names and bounds, and detach months to keep them. Of detached tables the retention drops those alone that it
has detached, which their comment says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

import psycopg

from relay.deliverylog.errors import DeliveryLogError
from relay.deliverylog.postgres.statements import PostgresStatements
from relay.postgres.connect import Connection

PARENTS = ("events", "event_destinations", "attempts")

_ENDLESS = datetime(2262, 1, 1, tzinfo=UTC)  # no entry is later; the statement reads MAXVALUE as this
_BUSY = (psycopg.errors.LockNotAvailable, psycopg.errors.ObjectNotInPrerequisiteState)


def month_of(time: datetime) -> datetime:
    """The begin of the UTC month that holds an instant."""
    return time.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def month_after(month: datetime, count: int = 1) -> datetime:
    """The begin of the month ``count`` months later."""
    index = month.year * 12 + month.month - 1 + count
    return month.replace(year=index // 12, month=index % 12 + 1)


@dataclass(frozen=True, slots=True)
class Partition:
    """One table of the log's rows."""

    name: str
    parent: str | None
    """The table that it is attached to; None for one that the retention has detached and not dropped yet."""
    since: datetime | None
    """The bounds of its rows; None for a DEFAULT partition and where it is detached."""
    until: datetime | None
    pending: bool
    """Its detach was interrupted."""
    owned: bool
    """Whether the retention may drop it: it is a table in the log's schema."""

    def expired(self, oldest: datetime) -> bool:
        """Whether the retention drops it: it ended at or before ``oldest``, or was detached by an earlier run."""
        return self.owned and (self.parent is None or (self.until is not None and self.until <= oldest))


class Partitions:
    """The partitions of one schema."""

    def __init__(self, statements: PostgresStatements) -> None:
        self._sql = statements

    async def all(self, connection: Connection) -> list[Partition]:
        """Every partition, and every table that the retention has detached and not dropped yet."""
        async with connection.transaction():
            await connection.execute(self._sql.text("partitions:iso_dates"))
            cursor = await connection.execute(self._sql.text("partitions:list"), {"schema": self._sql.schema})
            return [Partition(*row) for row in await cursor.fetchall()]

    async def months(self, connection: Connection) -> set[datetime]:
        """The months that all three tables have usable partitions for."""
        partitions = await self.all(connection)
        covered = [
            set(_whole_months([one for one in partitions if one.parent == parent and not one.pending]))
            for parent in PARENTS
        ]
        return set.intersection(*covered)

    async def ensure(self, connection: Connection, months: Iterable[datetime]) -> None:
        """Create the partitions of months. Raises psycopg's InsufficientPrivilege without the right to.

        A month that overlaps a partition of the operator's is left without one; the others are created.
        """
        for month in sorted(set(months)):
            with suppress(psycopg.errors.InvalidObjectDefinition, psycopg.errors.CheckViolation):
                await connection.execute(self._sql.text("partitions:ensure_months"), {"months": [month]})

    async def drop_before(self, connection: Connection, oldest: datetime) -> list[str]:
        """Drop what ended at or before ``oldest``, on an autocommit connection; returns the tables.

        Raises DeliveryLogError when tables are still being read; the others are dropped.
        """
        await connection.execute(self._sql.text("partitions:lock_timeout"))
        dropped, busy = [], []
        for partition in await self.all(connection):
            if not partition.expired(oldest):
                continue
            try:
                await self._drop(connection, partition)
            except _BUSY:
                busy.append(partition.name)
            except psycopg.errors.UndefinedTable:
                # Each relay runs the retention: another run dropped it after ``all`` had listed it, and reports it.
                continue
            else:
                dropped.append(partition.name)
        if busy:
            raise DeliveryLogError(
                f"{', '.join(busy)}: still being read, and not dropped yet; run relay-cli log retention again"
            )
        return dropped

    async def _drop(self, connection: Connection, partition: Partition) -> None:
        name = partition.name
        if partition.parent is not None:
            await connection.execute(self._sql.on_partition("partitions:mark", partition.parent, name))
            step = "detach_finalize" if partition.pending else "detach"
            try:
                await connection.execute(self._sql.on_partition(f"partitions:{step}", partition.parent, name))
            except _BUSY:
                await connection.execute(self._sql.on_partition("partitions:unmark", partition.parent, name))
                raise
        await connection.execute(self._sql.on_partition("partitions:drop", PARENTS[0], name))


def missing_ahead(have: set[datetime], now: datetime, months_ahead: int) -> list[datetime]:
    """Those of this month and the ``months_ahead`` after it that are missing."""
    wanted = [month_after(month_of(now), count) for count in range(months_ahead + 1)]
    return [month for month in wanted if month not in have]


def ready_until(have: set[datetime], now: datetime) -> datetime:
    """The begin of the first month, from this one on, that is missing."""
    month = month_of(now)
    while month in have:
        month = month_after(month)
    return month


def _whole_months(partitions: Sequence[Partition]) -> Iterable[datetime]:
    """The months that lie within the partitions, of which several may share a month."""
    spans: list[tuple[datetime, datetime]] = []
    for since, until in sorted((one.since, one.until) for one in partitions if one.since and one.until):
        first = spans.pop()[0] if spans and since == spans[-1][1] else since  # partitions never overlap
        spans.append((first, until))
    for since, until in spans:
        month = month_of(since)
        if month < since:
            month = month_after(month)
        while month_after(month) <= min(until, _ENDLESS):
            yield month
            month = month_after(month)
