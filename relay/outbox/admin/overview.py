"""What the console shows of an outbox at a glance. Reads only, locks nothing, and examines a bounded number of rows.

``read_overview`` counts up to a bound, so that it costs the same on a table of any size. ``read_backlog`` is exact, and
costs more the more waits. A statement that takes longer than ``STATEMENT_SECONDS`` is cancelled.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final, NamedTuple

from relay.core.errors import SchemaError
from relay.core.storage import Backlog
from relay.outbox.admin.browse import Figures, read_figures
from relay.outbox.admin.connection import Connection, Moment, rows
from relay.outbox.admin.explain import read_ahead
from relay.outbox.admin.held import HeldEvents, OldestDue, read_held, read_oldest_due
from relay.outbox.admin.readings import bounded_reading, one_round_trip
from relay.outbox.admin.relays import FleetMember, read_members
from relay.outbox.admin.series import SeriesPoint, read_points
from relay.outbox.admin.why import EventAhead
from relay.outbox.outbox_options import application_name
from relay.postgres.horizon import XminHorizon
from relay.postgres.sql import TableName, statement

LATE: Final = 60.0
"""Seconds that an event may be due before that is a fault."""
MOST_COUNTED: Final = 100_000
"""Where the counts of ``read_overview`` end: this many means at least this many."""
MOST_DEAD: Final = 20_000
"""The newest dead events that are grouped."""
MOST_RECENT: Final = 10_000
"""The newest events that are counted by type."""
MOST_IN_MINUTE: Final = 2_000
"""Deliveries that are counted in one minute; a minute with more is estimated."""

_DOING: Final = "reading the outbox"
_MINUTES: Final = 60
_GROUPS: Final = 200
_TYPES: Final = 50


class DeadGroup(NamedTuple):
    """Dead events of one type with one error; the columns of ``dead_groups``."""

    event_type: str
    error: str
    """What ``last_error`` says before its first colon."""
    events: int
    first: Moment
    last: Moment
    examined: int


class TypeCount(NamedTuple):
    """What became of one type's events lately; the columns of ``recent_types``."""

    event_type: str
    delivered: int
    dead: int
    failed: int
    """Failed attempts of these, and of events that wait for their next one."""
    examined: int


class MinuteCount(NamedTuple):
    """How many events were delivered in the minute that begins then."""

    minute: datetime
    events: int
    exact: bool
    """False for an estimate."""
    failed: int | None = None
    """Attempts that failed; None where no relay has counted."""
    dead: int | None = None
    lag: float | None = None
    """The longest that a relay has seen, in seconds."""


class ConnectedRelay(NamedTuple):
    """A relay that is connected to the database."""

    relay_id: str
    connections: int


class Overview(NamedTuple):
    """The outbox at a glance, at one moment."""

    figures: Figures
    """Counts end at ``MOST_COUNTED``; an event that a pause holds is not late."""
    relays: list[ConnectedRelay]
    minutes: list[MinuteCount]
    """The last hour, a row for each minute; the last row is the current minute. No row where none was asked for."""
    types: list[TypeCount]
    """The last hour."""
    oldest_delivered_age: float
    """Seconds; 0.0 when none is DELIVERED."""
    horizon: XminHorizon
    """What keeps vacuum from removing dead rows."""
    reports: Sequence[FleetMember] = ()
    """The living relays; none without the extension fleet, or without SELECT on its table."""
    held: Sequence[HeldEvents] = ()
    """The pauses in force, the oldest first, and what each holds back."""
    ahead: Sequence[EventAhead] = ()
    """What the oldest due event waits for in its key, where it is late; an event that a pause holds is not."""


def read_overview(url: str, table: TableName, *, timeline: bool = True) -> Overview:
    """Over one connection, ``timeline`` with the minutes. Raises StorageBusy as the module says."""
    recent = {"seconds": 3600.0, "most": MOST_RECENT, "types": _TYPES}
    with bounded_reading(url, table, _DOING) as connection:
        _, _, figures, relays, types, age, horizon = one_round_trip(
            connection,
            table,
            ("outbox/claim:guard", {}),
            ("outbox/search:index_scans", {}),
            ("outbox/search:figures", {"most": MOST_COUNTED}),
            ("outbox/search:relays", {"prefix": application_name("")}),
            ("outbox/search:recent_types", recent),
            ("outbox/backlog:oldest_delivered_age", {}),
            ("horizon:held", {}),
        )
        held = read_held(connection, table)
        minutes = _read_minutes(connection, table) if timeline else []
        reports: list[FleetMember] = []
        with suppress(SchemaError), connection.transaction():
            reports = [member for member in read_members(connection, table) or () if member.living]
        [(*counts, in_flight)] = figures
        backlog = Backlog(*counts)
        oldest = read_oldest_due(connection, table, held) if held or backlog.oldest_due_age >= LATE else None
        if held:
            backlog = backlog._replace(oldest_due_age=oldest.age if oldest else 0.0)
        ahead = _read_ahead(connection, table, oldest)
    return Overview(
        Figures(backlog, in_flight),
        [ConnectedRelay(*row) for row in relays],
        minutes,
        [TypeCount(*row) for row in types],
        float(age[0][0]),
        XminHorizon.of(horizon[0]),
        reports,
        held,
        ahead,
    )


def read_present(
    connection: Connection,
    table: TableName,
    figures: Figures,
    held: Sequence[HeldEvents],
    reports: Sequence[FleetMember],
) -> Overview:
    """The overview of what was read already: without the last hour, the age of what is delivered, and the horizon."""
    relays = rows(connection, "outbox/search:relays", table, {"prefix": application_name("")})
    late = figures.backlog.oldest_due_age >= LATE
    ahead = _read_ahead(connection, table, read_oldest_due(connection, table, held) if late else None)
    connected = [ConnectedRelay(*row) for row in relays]
    return Overview(figures, connected, [], [], 0.0, XminHorizon(0, None), reports, held, ahead)


def _read_ahead(connection: Connection, table: TableName, oldest: OldestDue | None) -> Sequence[EventAhead]:
    """What it waits for in its key, where it is late."""
    if oldest is not None and oldest.age >= LATE:
        with suppress(SchemaError), connection.transaction():
            return read_ahead(connection, table, oldest.event_id)
    return ()


def _read_minutes(connection: Connection, table: TableName) -> list[MinuteCount]:
    """The minutes with what the relays counted of each: also deliveries whose rows are deleted, or were estimated."""
    bounds = {"minutes": _MINUTES, "most": MOST_IN_MINUTE}
    minutes = [MinuteCount(*row) for row in rows(connection, "outbox/search:delivered_by_minute", table, bounds)]
    points: list[SeriesPoint] | None = None
    with suppress(SchemaError), connection.transaction():
        points = read_points(connection, table, _MINUTES)
    by_start = {point.start: point for point in points or () if point.counted}
    return [_with(minute, by_start.get(minute.minute)) for minute in minutes]


def _with(minute: MinuteCount, point: SeriesPoint | None) -> MinuteCount:
    if point is None:
        return minute
    if not minute.exact or point.delivered > minute.events:
        minute = minute._replace(events=point.delivered, exact=True)
    return minute._replace(failed=point.failed, dead=point.dead, lag=point.lag)


def read_backlog(url: str, table: TableName) -> Figures:
    """The figures of the backlog alone. Raises StorageBusy when they take longer than ``STATEMENT_SECONDS``."""
    with bounded_reading(url, table, _DOING) as connection:
        return read_figures(connection, table)


def dead_groups(url: str, table: TableName) -> list[DeadGroup]:
    """The newest ``MOST_DEAD`` dead events by type and error, the largest groups first."""
    with bounded_reading(url, table, _DOING) as connection:
        connection.execute(statement("outbox/claim:guard"))
        groups = rows(connection, "outbox/search:dead_groups", table, {"most": MOST_DEAD, "groups": _GROUPS})
        return [DeadGroup(*row) for row in groups]
