"""What pauses hold back: the pauses in force, each with the number of events that wait because of it.

Reads only. The database user needs SELECT on the outbox and on the table of the pauses.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple
from uuid import UUID

from relay.core.pause import Pause
from relay.outbox.admin.connection import Connection, rows
from relay.outbox.pauses import pauses_in_force
from relay.postgres.sql import TableName, statement

MOST_LOOKED_AT: Final = 100_000
"""The oldest due events that are looked at."""


class HeldEvents(NamedTuple):
    """One pause, and the due events that it holds back. An event that two pauses hold counts for both."""

    pause: Pause
    events: int
    at_least: bool
    """More events are due than were looked at, so there may be more of them."""


class OldestDue(NamedTuple):
    """The event that has been due longest of those that no pause holds."""

    event_id: UUID
    age: float
    """Seconds."""


def read_held(connection: Connection, table: TableName) -> list[HeldEvents]:
    """The oldest pause first, over a connection of ``operating``; none without the extension.

    Raises SchemaError without SELECT on the table of the pauses; the message names the GRANT.
    """
    pauses = pauses_in_force(connection, table)
    if not pauses:
        return []
    counts = _looked_at(connection, table, "outbox/pause:held", pauses)
    return [
        HeldEvents(pause, events, looked_at == MOST_LOOKED_AT)
        for pause, (events, looked_at) in zip(pauses, counts, strict=True)
    ]


def read_oldest_due(connection: Connection, table: TableName, held: Iterable[HeldEvents]) -> OldestDue | None:
    """None if these pauses hold all that were looked at."""
    found = _looked_at(connection, table, "outbox/pause:oldest_due", [each.pause for each in held])
    return OldestDue(*found[0]) if found else None


def _looked_at(connection: Connection, table: TableName, query: str, pauses: Iterable[Pause]) -> list[tuple[Any, ...]]:
    parameters = {"paused": [pause.target.pattern for pause in pauses], "sample": MOST_LOOKED_AT}
    with connection.transaction():
        connection.execute(statement("outbox/claim:guard"))
        return rows(connection, query, table, parameters)
