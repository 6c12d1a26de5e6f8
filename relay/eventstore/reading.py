"""Reads streams and the events of all tenants. For ``EventStore`` and subscriptions.

Reading over all tenants goes in three steps, each a statement with a snapshot of its own, in this order: the horizon
(how far everything has settled), the page (positions up to it, from the narrow feed), the events themselves, a few
tenants at a time and with the tenants as constants, so that each statement plans and locks a few partitions only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from relay.eventstore.database import Database, Row, execute
from relay.eventstore.model import LARGEST_VERSION, StoredEvent
from relay.eventstore.statements import Statements

_TENANTS_AT_ONCE: Final = 20  # measured: planning a statement grows faster than the number of its partitions
_TENANTS_BY_THEMSELVES: Final = 16  # up to so many are read from their partitions instead of through the feed

Pool = AsyncConnection[TupleRow]


@dataclass(frozen=True, slots=True)
class Filter:
    """Which events of all tenants are wanted; None means all."""

    tenants: tuple[UUID, ...] | None = None
    types: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Page:
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
    database: Database, statements: Statements, stream: tuple[UUID, UUID], versions: tuple[int, int | None],
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
    path = "queries/read_stream_backward.sql" if backward else "queries/read_stream.sql"
    rows = await database.run(f"read stream {stream[1]}", statements.text(path), values)
    return [StoredEvent(*row) for row in rows]


async def read_page(database: Database, statements: Statements, after: int, limit: int, wanted: Filter) -> Page:
    """The next events of all tenants, in the order of their positions."""
    async with database.connection("read events") as connection:
        horizon, newest, read_at = (await execute(connection, statements.text("queries/horizon.sql")))[0]
        values = {"after": after, "horizon": horizon, "limit": limit}
        values["types"] = None if wanted.types is None else list(wanted.types)
        if wanted.tenants is not None and len(wanted.tenants) <= _TENANTS_BY_THEMSELVES:
            found = await _from_partitions(connection, statements, wanted.tenants, values)
        else:
            values["tenants"] = None if wanted.tenants is None else list(wanted.tenants)
            found = await execute(connection, statements.text("queries/feed_page.sql"), values)
            events = await _fetch(connection, statements, found)
            return Page(events, _reached(found, after, horizon, limit), newest, horizon < newest, read_at)
        return Page([StoredEvent(*row) for row in found], _reached(found, after, horizon, limit), newest,
                    horizon < newest, read_at)  # fmt: skip


def _reached(found: Sequence[Row], after: int, horizon: int, limit: int) -> int:
    return int(found[-1][0]) if len(found) == limit else max(after, horizon)


async def _from_partitions(
    connection: Pool, statements: Statements, tenants: Sequence[UUID], values: dict[str, object]
) -> list[Row]:
    """Pages of a few tenants, merged. All see everything up to the horizon, which was taken before."""
    statement = statements.text("queries/tenant_page.sql")
    rows: list[Row] = []
    for tenant_id in tenants:
        rows += await execute(connection, statement, values | {"tenant": tenant_id})
    rows.sort(key=lambda row: int(row[0]))
    limit = values["limit"]
    assert isinstance(limit, int)
    return rows[:limit]


async def _fetch(connection: Pool, statements: Statements, page: Sequence[Row]) -> list[StoredEvent]:
    """The events of a page, in its order. One whose tenant was dropped since is left out."""
    statement = statements.text("queries/fetch.sql")
    found: dict[int, StoredEvent] = {}
    for tenants, positions in _portions(page):
        rows = await execute(connection, statement, {"tenants": tenants, "positions": positions})
        found.update((row[0], StoredEvent(*row)) for row in rows)
    return [found[row[0]] for row in page if row[0] in found]


def _portions(page: Sequence[Row]) -> Iterator[tuple[list[UUID], list[int]]]:
    """The page's tenants, a few at a time, with the positions of their events."""
    of_tenant: dict[UUID, list[int]] = {}
    for position, tenant_id in page:
        of_tenant.setdefault(tenant_id, []).append(position)
    tenants = list(of_tenant)
    for start in range(0, len(tenants), _TENANTS_AT_ONCE):
        some = tenants[start : start + _TENANTS_AT_ONCE]
        yield some, [position for tenant_id in some for position in of_tenant[tenant_id]]
