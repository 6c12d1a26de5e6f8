"""An archive as the steps of a run see it: the rows of each run, and which runs are published and closed.

``Archive`` is the interface. ``files`` implements it with Parquet files, ``tables`` with tables that have atomic
commits; ``formats`` knows all implementations. The rows have the same columns in every format.

``day`` is the UTC day on which the event was delivered or died, ``type`` its event type, shortened where it is too long
for a file's name.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Final, Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from relay.spark.jobs.archive.ledger import Manifest
from relay.spark.jobs.errors import ArchiveError

COLUMNS: Final = (
    "event_id string, event_type string, partition_key string, payload binary, headers string, status string, "
    "attempts int, last_error string, available_at timestamp, delivered_at timestamp, created_at timestamp, "
    "updated_at timestamp"
)
"""Columns of an archived row: all but the lease, which settled rows do not have. ``headers`` is JSON text."""

PARTITIONS: Final = "run string, day date, type string"
"""Columns by which an archive divides its rows."""

_LONGEST_TYPE: Final = 60
"""Bytes of an event type in a folder's name: escaped as three characters each they stay below 255."""

Days = tuple[date | None, date | None]
"""The first and the last day; None is no bound."""


class Archive(Protocol):
    """The archive of one outbox, in one format. Used by the driver, or by a client of Spark Connect.

    Rows of a run that is not published are no part of the archive. A run is *open* from ``publish`` to ``close``: its
    rows may still be in the outbox. Methods raise ArchiveError, or PySparkException, when files or tables cannot be
    read or written. One run writes at a time; but the last operation of a client that is dead may end at any time.
    """

    @property
    def location(self) -> str:
        """The folder or the table, for messages."""
        ...

    @property
    def file(self) -> Column:
        """The address of the file that holds a row of ``rows``."""
        ...

    def exists(self) -> bool:
        """Whether an archive was created at the location."""
        ...

    def belongs_to(self, outbox: str) -> None:
        """Create the archive of an outbox. Raises ArchiveError when it exists and belongs to another outbox."""
        ...

    def strays(self) -> list[str]:
        """Runs that have begun to write and are not published, oldest first."""
        ...

    def open_runs(self) -> list[str]:
        """Open runs, oldest first."""
        ...

    def discard(self, run: str, /) -> None:
        """Discard a run that is not published, so that it can no longer become part of the archive with its rows."""
        ...

    def withdraw(self, run: str, /) -> None:
        """Remove what a run has left that had no rows."""
        ...

    def write(self, run: str, rows: DataFrame) -> None:
        """Write rows, which have ``COLUMNS``, ``day`` and ``type``."""
        ...

    def rows(self, run: str) -> DataFrame:
        """The rows of a run, published or not, with all columns, as they can be read back."""
        ...

    def publish(self, manifest: Manifest) -> None:
        """Make the run's rows part of the archive, atomically. Paths in the manifest are values of ``file``."""
        ...

    def retain(self, run: str, by: str, remaining: DataFrame, /) -> DataFrame:
        """Evaluate ``remaining``, the ids of the run's rows that stay in the outbox; ``by`` is the current run.

        Returns a frame for ``close`` that reads the ids.
        """
        ...

    def close(self, run: str, by: str, retained: DataFrame) -> int:
        """Take the retained rows out of the archive, and close the run. Returns the number of these rows."""
        ...

    def taken_over(self, run: str, *, published: bool) -> bool:
        """Whether another run has discarded or closed this run, which has written rows."""
        ...

    def read(self, days: Days) -> DataFrame:
        """Every row of the archive once, of these days, with all columns."""
        ...


def check_owner(location: str, owner: str | None, outbox: str) -> None:
    """Raises ArchiveError for the archive of another outbox."""
    if owner not in {None, outbox}:
        raise ArchiveError(
            f"{location}: is the archive of {owner}, not of {outbox}; give each outbox an archive of its own"
        )


def day() -> Column:
    """The UTC day on which a row was delivered or died, whatever the session's time zone is."""
    return f.expr("date_from_unix_date(int(floor(unix_micros(coalesce(delivered_at, updated_at)) / 86400000000)))")


def type_folder(event_type: Column) -> Column:
    """An event type in a folder's name: shortened and marked with its hash where it is long."""
    short = f.concat(
        f.substring(event_type, 1, _LONGEST_TYPE // 4), f.lit("~"), f.substring(f.sha2(event_type, 256), 1, 16)
    )
    return f.when(f.octet_length(event_type) <= _LONGEST_TYPE, event_type).otherwise(short)


def new_run(now: datetime, suffix: str) -> str:
    """A name for a run that sorts by time."""
    return f"{now.astimezone(UTC):%Y%m%dT%H%M%SZ}-{suffix}"
