"""What pauses hold back: the pauses in force, each with the number of events that wait because of it.

Reads only. The database user needs SELECT on the outbox and on the table of the pauses.
"""

from __future__ import annotations

from typing import Final, NamedTuple

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


class HeldBacklog(NamedTuple):
    """What the pauses in force hold back, and how late the other events are."""

    pauses: list[HeldEvents]
    """The oldest pause first."""
    oldest_due_age: float
    """Seconds for which the oldest event that no pause holds has been due; 0.0 if all that were looked at are held."""


def read_held(connection: Connection, table: TableName) -> HeldBacklog | None:
    """Over a connection of ``operating``; None without a pause in force, and without the extension.

    Raises SchemaError without SELECT on the table of the pauses; the message names the GRANT.
    """
    pauses = pauses_in_force(connection, table)
    if not pauses:
        return None
    parameters = {"paused": [pause.target.pattern for pause in pauses], "sample": MOST_LOOKED_AT}
    with connection.transaction():
        connection.execute(statement("outbox/claim:guard"))
        counts = rows(connection, "outbox/pause:held", table, parameters)
    held = [
        HeldEvents(pause, events, looked_at == MOST_LOOKED_AT)
        for pause, (events, looked_at, _) in zip(pauses, counts, strict=True)
    ]
    return HeldBacklog(held, counts[0][2])
