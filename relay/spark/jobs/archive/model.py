"""The rows of an archive, which have the same columns in every format.

``day`` is the UTC day on which the event was delivered or died, ``type`` its event type, shortened where it is too long
for a file's name.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as f

from relay.spark.jobs.errors import ArchiveError

COLUMNS: Final = (
    "event_id string, event_type string, partition_key string, payload binary, headers string, status string, "
    "attempts int, last_error string, available_at timestamp, delivered_at timestamp, created_at timestamp, "
    "updated_at timestamp"
)
"""Columns of an archived row: all but the lease, which settled rows do not have. ``headers`` is JSON text."""

PARTITIONS: Final = "run string, day date, type string"
"""Columns by which an archive divides its rows."""

EVENT_COLUMNS: Final = f"{COLUMNS}, {PARTITIONS}"
EVENT_NAMES: Final = tuple(column.split()[0] for column in EVENT_COLUMNS.split(", "))

EVENTS: Final = "events"
RUNS: Final = "runs"
"""The two tables of an archive in tables."""
CREATED: Final = "created"
"""The state of the first row of ``RUNS``, which belongs to no run."""

_LONGEST_TYPE: Final = 60
"""Bytes of an event type in a folder's name: escaped as three characters each they stay below 255."""

Days = tuple[date | None, date | None]
"""The first and the last day; None is no bound."""


def check_owner(location: str, owner: str | None, outbox: str) -> None:
    """Raises ArchiveError for the archive of another outbox."""
    if owner not in {None, outbox}:
        raise ArchiveError(
            f"{location}: is the archive of {owner}, not of {outbox}; give each outbox an archive of its own"
        )


def day() -> Column:
    """The UTC day on which a row was delivered or died, whatever the session's time zone is."""
    return f.expr("date_from_unix_date(int(floor(unix_micros(coalesce(delivered_at, updated_at)) / 86400000000)))")


def utc_day(moment: datetime | None) -> date | None:
    """The day in an archive of a bound, whose own zone may be another one."""
    return None if moment is None else moment.astimezone(UTC).date()


def type_folder(event_type: Column) -> Column:
    """An event type in a folder's name: shortened and marked with its hash where it is long."""
    short = f.concat(
        f.substring(event_type, 1, _LONGEST_TYPE // 4), f.lit("~"), f.substring(f.sha2(event_type, 256), 1, 16)
    )
    return f.when(f.octet_length(event_type) <= _LONGEST_TYPE, event_type).otherwise(short)


def new_run(now: datetime, suffix: str) -> str:
    """A name for a run that sorts by time."""
    return f"{now.astimezone(UTC):%Y%m%dT%H%M%SZ}-{suffix}"
