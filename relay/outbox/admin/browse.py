"""Look at the outbox: its backlog, its events, one event. Reads only, and locks nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from relay.core.event import Status
from relay.core.pause import Pause, PauseScope
from relay.core.storage import Backlog
from relay.outbox.admin.connection import Connection, Moment, database_time, operating, rows, short_transaction
from relay.outbox.span import EVERYWHERE
from relay.postgres.sql import TableName

_DOING = "reading the outbox"


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Filters; None means no filter. Ages are seconds in the status an event is in."""

    statuses: tuple[Status, ...] = tuple(Status)
    event_type: str | None = None
    partition_key: str | None = None
    error: str | None = None
    """Part of ``last_error``, in whatever case."""
    older_than: float | None = None
    newer_than: float | None = None
    limit: int = 20
    oldest_first: bool = False


class ListedEvent(NamedTuple):
    """One line of a list; the columns of ``list`` in ``sql/outbox/admin.sql``."""

    event_id: UUID
    event_type: str
    partition_key: str | None
    status: str
    attempts: int
    since: Moment | None
    """When it came into its status; None in a row that breaks the contract."""
    created_at: Moment
    available_at: Moment
    locked_by: str | None
    payload_bytes: int
    last_error: str | None


class ShownEvent(NamedTuple):
    """One event, whole; the columns of the table."""

    event_id: UUID
    event_type: str
    partition_key: str | None
    status: str
    attempts: int
    last_error: str | None
    created_at: Moment
    available_at: Moment
    locked_by: str | None
    locked_at: Moment | None
    delivered_at: Moment | None
    updated_at: Moment
    headers: str
    """PostgreSQL's JSON text."""
    payload: bytes


class Figures(NamedTuple):
    """The backlog, and what all relays have in their hands."""

    backlog: Backlog
    in_flight: int


def list_events(url: str, table: TableName, row_filter: RowFilter) -> list[ListedEvent]:
    """The newest (or oldest) events that pass the filter."""
    with operating(url, table, _DOING) as connection:
        now = database_time(connection)
        parameters = {
            "statuses": [str(status) for status in row_filter.statuses],
            "event_type": row_filter.event_type,
            "partition_key": row_filter.partition_key,
            "error": row_filter.error,
            "older": None if row_filter.older_than is None else now - timedelta(seconds=row_filter.older_than),
            "newer": None if row_filter.newer_than is None else now - timedelta(seconds=row_filter.newer_than),
            "limit": row_filter.limit,
        }
        tag = "oldest" if row_filter.oldest_first else "newest"
        return [ListedEvent(*row) for row in rows(connection, "outbox/admin:list", table, parameters, tag)]


def read_time(url: str, table: TableName) -> datetime:
    """The database's time. Raises as ``operating``."""
    with operating(url, table, _DOING) as connection:
        return database_time(connection)


def read_event(connection: Connection, table: TableName, event_id: UUID) -> ShownEvent | None:
    """One event, or None when there is none of that id. Raises StorageBusy when the table is locked."""
    with short_transaction(connection):
        matches = rows(connection, "outbox/admin:show", table, {"event_id": event_id})
        return ShownEvent(*matches[0]) if matches else None


def read_figures(connection: Connection, table: TableName, pauses: Sequence[Pause] = ()) -> Figures:
    """The figures of now, over a connection of ``operating``, so that they can be read again and again.

    What ``pauses`` hold counts, and is not late; all of it is read to find the oldest event that they do not hold.
    """
    patterns = [pause.target.pattern for pause in pauses]
    if any(pause.target.scope is PauseScope.ALL for pause in pauses):
        patterns = []  # nothing is late, and no row needs to be read for it
    tags = ("paused",) if patterns else ()
    [row] = rows(connection, "outbox/backlog:backlog", table, {**EVERYWHERE.parameters(), "paused": patterns}, *tags)
    backlog = Backlog(*row)
    if pauses and not patterns:
        backlog = backlog._replace(oldest_due_age=0.0)
    [(in_flight,)] = rows(connection, "outbox/backlog:delivering_count", table, {})
    return Figures(backlog, in_flight)
