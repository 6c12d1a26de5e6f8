"""What pauses hold back: the pauses in force, each with the number of events that wait because of it.

Reads only. The database user needs SELECT on the outbox and on the table of the pauses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from relay.core.errors import SchemaError
from relay.core.pause import Pause
from relay.outbox.admin.connection import Connection, fetch, naming_the_grant, rows
from relay.outbox.extensions import PAUSES, pauses_of
from relay.outbox.paused import read_pause
from relay.outbox.tablecheck import UNDEFINED_TABLE
from relay.postgres.errors import translating
from relay.postgres.sql import TableName, statement

MOST_LOOKED_AT: Final = 100_000
"""The oldest due events that are looked at."""

_DOING: Final = "reading the pauses"


class HeldEvents(NamedTuple):
    """One pause, and the due events that it holds back. An event that two pauses hold counts for both."""

    pause: Pause
    events: int
    at_least: bool
    """More events are due than were looked at, so there may be more of them."""


def read_held(connection: Connection, table: TableName) -> list[HeldEvents]:
    """The pauses in force over a connection of ``operating``, the oldest first; empty without the extension.

    Raises SchemaError without SELECT on the table of the pauses; the message names the GRANT.
    """
    pauses = _pauses(connection, table)
    if not pauses:
        return []
    parameters = {"paused": [pause.target.pattern for pause in pauses], "sample": MOST_LOOKED_AT}
    with connection.transaction():
        connection.execute(statement("outbox/claim:guard"))
        counts = rows(connection, "outbox/pause:held", table, parameters)
    return [
        HeldEvents(pause, events, looked_at == MOST_LOOKED_AT)
        for pause, (events, looked_at) in zip(pauses, counts, strict=True)
    ]


def _pauses(connection: Connection, table: TableName) -> Sequence[Pause]:
    place = pauses_of(table)
    grant = f'run as the owner of the table: GRANT SELECT ON {place.quoted} TO "{connection.info.user}"'
    try:
        with naming_the_grant(grant), translating(_DOING):
            return [
                read_pause(row) for row in fetch(connection, statement("outbox/pause:read", table, {PAUSES: place}), {})
            ]
    except SchemaError as error:
        if error.sqlstate != UNDEFINED_TABLE:
            raise
        return []
