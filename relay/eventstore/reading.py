"""Reads streams and the events of all tenants. For ``EventStore`` and subscriptions.

Reading over all tenants goes in three steps, each a statement with a snapshot of its own, in this order: the horizon
(how far everything has settled), the page (positions up to it, from the narrow feed), the events themselves, a few
tenants at a time and with the tenants as constants, so that each statement plans and locks a few partitions only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from relay.eventstore.database import Database, Row, execute
from relay.eventstore.model import LARGEST_VERSION, StoredEvent
from relay.eventstore.statements import EventStoreStatements
from relay.postgres.sql import PARTITIONS_AT_ONCE

_TENANTS_BY_THEMSELVES: Final = 16  # up to so many are read from their partitions instead of through the feed

Pool = AsyncConnection[TupleRow]


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events of all tenants are wanted; None means all."""

    tenants: tuple[UUID, ...] | None = None
    types: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class EventPage:
    """Some events, and how far the reader has got by reading them."""

    events: list[StoredEvent]
    position: int
    """Where the next page begins: every event up to it was delivered or filtered out."""
    newest: int
    """The last position handed out."""
    waiting: bool
    """There are positions that a transaction in flight holds back."""
    read_at: datetime
    """The database's clock."""


async def read_stream(
    database: Database, statements: EventStoreStatements, stream: tuple[UUID, UUID], versions: tuple[int, int | None],
    limit: int | None, backward: bool,
) -> list[StoredEvent]:  # fmt: skip
    """One stream's events with versions from the first to the second of ``versions``, both included."""
    values = {
        "tenant": stream[0],
        "stream": stream[1],
        "from_version": versions[0],
        "to_version": LARGEST_VERSION if versions[1] is None else versions[1],
        "limit": limit,
    }
    sql = statements.text("eventstore/read:read_stream", "backward" if backward else "forward")
    rows = await database.run(f"read stream {stream[1]}", sql, values)
    return [StoredEvent(*row) for row in rows]


async def read_page(
    database: Database, statements: EventStoreStatements, after: int, limit: int, event_filter: EventFilter
) -> EventPage:
    """The next events of all tenants, in the order of their positions."""
    async with database.connection("read events") as connection:
        horizon, newest, read_at = (await execute(connection, statements.text("eventstore/read:horizon")))[0]
        types = None if event_filter.types is None else list(event_filter.types)
        values = {"after": after, "horizon": horizon, "limit": limit, "types": types}
        if event_filter.tenants is not None and len(event_filter.tenants) <= _TENANTS_BY_THEMSELVES:
            rows = (await _from_partitions(connection, statements, event_filter.tenants, values))[:limit]
            events = [StoredEvent(*row) for row in rows]
        else:
            values["tenants"] = None if event_filter.tenants is None else list(event_filter.tenants)
            rows = await execute(connection, statements.text("eventstore/read:feed_page"), values)
            events = await _fetch(connection, statements, rows, values)
        position = int(rows[-1][0]) if len(rows) == limit else max(after, horizon)
        return EventPage(events, position, newest, horizon < newest, read_at)


async def _from_partitions(
    connection: Pool, statements: EventStoreStatements, tenants: Sequence[UUID], values: dict[str, object]
) -> list[Row]:
    """Pages of a few tenants, merged. All see everything up to the horizon, which was taken before."""
    statement = statements.text("eventstore/read:tenant_page")
    rows: list[Row] = []
    for tenant_id in tenants:
        rows += await execute(connection, statement, values | {"tenant": tenant_id})
    return sorted(rows, key=lambda row: int(row[0]))


async def _fetch(
    connection: Pool, statements: EventStoreStatements, page: Sequence[Row], values: dict[str, object]
) -> list[StoredEvent]:
    """The events of a page, in its order. One whose tenant was dropped since is left out."""
    if not page:
        return []
    statement = statements.text("eventstore/read:fetch")
    tenants = list(dict.fromkeys(row[1] for row in page))
    rows: list[Row] = []
    for start in range(0, len(tenants), PARTITIONS_AT_ONCE):
        portion = {"tenants": tenants[start : start + PARTITIONS_AT_ONCE], "last": page[-1][0]}
        rows += await execute(connection, statement, values | portion)
    return [StoredEvent(*row) for row in sorted(rows, key=lambda row: int(row[0]))]
