"""What the relays of an outbox did, step by step: the rows of the extension ``series``, for the console and its API."""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple

from relay.outbox.admin.connection import Connection
from relay.outbox.admin.readings import bounded_reading, rows_beside
from relay.postgres.sql import TableName

MOST_STEPS: Final = 360
"""Steps of one reading."""


class SeriesPoint(NamedTuple):
    """What all relays did in one step."""

    start: datetime
    delivered: int
    failed: int
    """Attempts."""
    dead: int
    lag: float
    """The longest that a relay has seen, in seconds; of all event types."""
    counted: int
    """Minutes of the step in which a relay has counted; 0 says that nothing is known."""


def read_points(
    connection: Connection, table: TableName, steps: int, minutes: int = 1, event_type: str | None = None
) -> list[SeriesPoint] | None:
    """The last ``steps`` steps of ``minutes`` each, and the one that goes on; None without the extension.

    Raises SchemaError without SELECT on its table.
    """
    parameters: dict[str, object] = {"steps": steps, "minutes": minutes, "event_type": event_type}
    rows = rows_beside(connection, table, "series", "outbox/series:read", parameters)
    return None if rows is None else [SeriesPoint(*row) for row in rows]


def read_series(
    url: str, table: TableName, steps: int, minutes: int, event_type: str | None = None
) -> list[SeriesPoint] | None:
    """As ``read_points``, over a connection of its own."""
    with bounded_reading(url, table, "reading the series") as connection:
        return read_points(connection, table, steps, minutes, event_type)
