"""What ``why`` and ``causes`` judge, read from the outbox: one event with what is in its way, and why events fail.

Reads only, and locks nothing. The database user needs SELECT on the outbox. Without it on the tables of pauses and
relays the answer says what it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from relay.core.errors import SchemaError, StorageBusy
from relay.core.event import EventId, OutboxEvent, Status
from relay.core.heartbeats import LIVING
from relay.core.places import Places, Router
from relay.outbox.admin.browse import ShownEvent, read_event
from relay.outbox.admin.causes import LONGEST, Cause, ErrorGroup, causes
from relay.outbox.admin.connection import Connection, database_time, operating, rows
from relay.outbox.admin.readings import bounded_reading, limit_statements, rows_beside
from relay.outbox.admin.relays import read_members
from relay.outbox.admin.why import EventAhead, Facts, Why, why
from relay.outbox.outbox_options import application_name
from relay.outbox.pauses import pauses_in_force
from relay.outbox.table_check import ORDER_COLUMN
from relay.postgres.errors import translating
from relay.postgres.sql import TableName, statement

T = TypeVar("T")

MOST_READ: Final = 5_000
"""The newest dead events that are read for their causes, those that are tried again next, and those that are due."""
MOST_GROUPS: Final = 5_000
"""The groups of one type and one error that are read, the largest, then the newest: each error is folded on its own."""


class ExplainedEvent(NamedTuple):
    """An event, and what is in its way."""

    event: ShownEvent
    why: Why


class FailureReading(NamedTuple):
    """Why events fail."""

    causes: list[Cause]
    """The one with the most events first."""
    sample: str
    """What was read of more than was read, as a sentence; empty when nothing was left out."""

    @property
    def complete(self) -> bool:
        """Whether every event that fails was read."""
        return not self.sample

    def answer(self) -> dict[str, object]:
        """As JSON."""
        return {
            "causes": [cause.answer() for cause in self.causes],
            "complete": self.complete,
            "sample": self.sample,
        }


def read_causes(url: str, table: TableName) -> FailureReading:
    """The causes of the newest ``MOST_READ`` dead events, and of as many that wait. Raises as ``bounded_reading``."""
    with bounded_reading(url, table, "reading why events fail") as connection:
        connection.execute(statement("outbox/claim:guard"))
        bounds = {"most": MOST_READ, "longest": LONGEST, "groups": MOST_GROUPS}
        read = rows(connection, "outbox/causes:failing", table, bounds)
    if not read:
        return FailureReading([], "")
    groups = [ErrorGroup(*row[:9]) for row in read if row[0] is not None]
    return FailureReading(causes(groups), _sample(*read[0][9:]))


def _sample(dead: int, later: int, due: int, groups: int) -> str:
    """What was left out, from the numbers of what was examined."""
    parts = [
        f"the newest {MOST_READ} dead events" if dead >= MOST_READ else "",
        f"the next {MOST_READ} events that wait for a later time" if later >= MOST_READ else "",
        f"the oldest {MOST_READ} due events" if due >= MOST_READ else "",
        f"the {MOST_GROUPS} most frequent errors" if groups > MOST_GROUPS else "",
    ]
    read = " and ".join(filter(None, parts))
    return f"A sample: {read} were read, and there may be more." if read else ""


def explain_event(
    url: str, table: TableName, event_id: UUID, read_routes: Callable[[str], Router]
) -> ExplainedEvent | None:
    """None when there is no event of that id. ``read_routes`` reads what relays report of their routes.

    Raises StorageBusy when the table is locked.
    """
    with operating(url, table, "reading the outbox") as connection:
        event = read_event(connection, table, event_id)
        return (
            None
            if event is None
            else ExplainedEvent(event, why(event, _read_facts(connection, table, event, read_routes)))
        )


def _read_facts(
    connection: Connection, table: TableName, event: ShownEvent, read_routes: Callable[[str], Router]
) -> Facts:
    """What may be in the way of the event; nothing is read for one that is in its last status."""
    now = database_time(connection)
    if event.status in (Status.DELIVERED, Status.DEAD):
        return Facts(now)
    unknown: list[str] = []

    def read(what: Callable[[], T]) -> T | None:
        try:
            with translating("reading what is in the event's way"), connection.transaction():
                limit_statements(connection)
                connection.execute(statement("outbox/claim:guard"))
                return what()
        except (SchemaError, StorageBusy) as error:
            unknown.append(str(error))
            return None

    pauses = read(lambda: pauses_in_force(connection, table))
    relays = read(lambda: read_members(connection, table))
    connected = read(lambda: rows(connection, "outbox/search:relays", table, {"prefix": application_name("")}))
    ahead = None if event.partition_key is None else read(lambda: read_ahead(connection, table, event.event_id))
    routes = read(lambda: rows_beside(connection, table, "relays", "outbox/fleet:routes", {"living": LIVING}))
    places = dict(_placed(event, routes or (), read_routes))
    return Facts(now, pauses or (), relays, [name for name, _ in connected or ()], ahead or (), places, unknown)


def _placed(
    event: ShownEvent, routes: Iterable[tuple[Any, ...]], read_routes: Callable[[str], Router]
) -> Iterator[tuple[str, Places]]:
    """Where the routes of each relay send the event; nothing of a relay of another version, which writes others."""
    one = OutboxEvent(EventId(str(event.event_id)), event.event_type, None, b"", event.headers, event.attempts, 0.0)
    for relay_id, text in routes:
        with suppress(ValueError):
            yield relay_id, read_routes(text).places(one)


def read_ahead(connection: Connection, table: TableName, event_id: UUID) -> list[EventAhead]:
    """Events before this one in its key; none without the extension key-order."""
    [(_, _, columns, *_)] = rows(connection, "outbox/table:describe", table, {"table": table.quoted})
    if ORDER_COLUMN not in columns:
        return []
    return [EventAhead(*row) for row in rows(connection, "outbox/why:ahead", table, {"event_id": event_id})]
