"""An archive: its files, which of them are part of it, and how it is read.

    ARCHIVE/archive.json                         the outbox that it belongs to: one archive, one outbox
    ARCHIVE/run=R/day=2026-01-31/type=T/*.parquet the rows of run R
    ARCHIVE/_runs/R.json                         R's manifest, and beside it R's other files: ``ledger``
    ARCHIVE/_kept/run=R/*.parquet                ids of the retained rows: replayed, or locked, before the deletion
    ARCHIVE/_kept/run=R.P/*.parquet              the same, where the later run P has deleted R's rows

Readers follow the manifests: a file that no manifest names, such as one of a killed run, is not part of the archive.
Readers skip R's retained rows too, since a later run archives them again as they are then. So an event is in the
archive once, or as often as it was archived after it was inserted again.

``day`` is the UTC day on which the event was delivered or died, ``type`` its event type, shortened where it is too long
for a file's name. Any Hadoop file system works on which renaming one file is atomic for its readers. Archives of
earlier releases have ``_archive.json``, which Spark's own reader, that of Spark Connect, leaves out as a hidden file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from relay.spark.jobs.archive.ledger import (
    FORMAT,
    Closed,
    DataFile,
    Manifest,
    RunLedger,
    begun_name,
    closed_name,
    discarded_name,
    manifest_name,
    parse,
)
from relay.spark.jobs.folder import ArchiveError, Folder

COLUMNS: Final = (
    "event_id string, event_type string, partition_key string, payload binary, headers string, status string, "
    "attempts int, last_error string, available_at timestamp, delivered_at timestamp, created_at timestamp, "
    "updated_at timestamp"
)
"""Columns of an archived row: all but the lease, which settled rows do not have. ``headers`` is JSON text."""

PLACES: Final = "run string, day date, type string"
"""Columns that Spark reads from the names of the folders."""

_ABOUT: Final = "archive.json"
_EARLIER_ABOUT: Final = "_archive.json"
_RUNS: Final = "_runs"
_LONGEST_TYPE: Final = 60
"""Bytes of an event type in a folder's name: escaped as three characters each they stay below 255."""

Days = tuple[date | None, date | None]
"""The first and the last day; None is no bound."""


@dataclass(frozen=True, slots=True)
class Archive:
    """The files of an archive."""

    folder: Folder

    @classmethod
    def at(cls, spark: SparkSession, path: str) -> Archive:
        """The archive in a folder, which may not exist yet."""
        return cls(Folder(spark, path.rstrip("/") or path))

    def belongs_to(self, outbox: str) -> None:
        """Record the outbox of a new archive. Raises ArchiveError when the archive belongs to another outbox."""
        owner = self.owner()
        if owner is None and self.ledger().runs():
            raise ArchiveError(
                f"{self.folder.path}: its outbox is in {_EARLIER_ABOUT}, which Spark Connect cannot read; archive into "
                f"it once without Spark Connect, which writes {_ABOUT}"
            )
        if owner not in {None, outbox}:
            raise ArchiveError(
                f"{self.folder.path}: is the archive of {owner}, not of {outbox}; give each outbox a folder of its own"
            )
        if self.folder.read(_ABOUT) is None:
            self.folder.write(_ABOUT, json.dumps({"format": FORMAT, "outbox": outbox}))

    def owner(self) -> str | None:
        """The archive's outbox; None for a folder without an archive. Raises ArchiveError for a later format."""
        text = self.folder.read(_ABOUT) or self.folder.read(_EARLIER_ABOUT)
        if text is None:
            return None
        content = parse(text, f"{self.folder.path}/{_ABOUT}")
        if content.get("format") != FORMAT:
            raise ArchiveError(
                f"{self.folder.path}: format {content.get('format')}; this release reads format {FORMAT}"
            )
        return str(content["outbox"])

    def ledger(self) -> RunLedger:
        """The runs as they are now."""
        return RunLedger(f"{self.folder.path}/{_RUNS}", self.folder.contents(_RUNS))

    def begin(self, run: str) -> None:
        """Record that the run writes files."""
        self.folder.write(f"{_RUNS}/{begun_name(run)}", run)

    def discard(self, run: str) -> None:
        """Discard the files of a run without a manifest; a manifest that appears later does not count."""
        self.folder.write(f"{_RUNS}/{discarded_name(run)}", run)
        self.folder.delete(f"run={run}")

    def withdraw(self, run: str) -> None:
        """Remove what a run has left that had no rows."""
        self.folder.delete(f"run={run}")
        self.folder.delete(f"{_RUNS}/{begun_name(run)}")

    def publish(self, manifest: Manifest) -> None:
        """Make the run's files part of the archive."""
        self.folder.write(f"{_RUNS}/{manifest_name(manifest.run)}", manifest.text())

    def close(self, run: str, closed: Closed) -> None:
        """Close the run: no later run looks for its rows in the table."""
        self.folder.write(f"{_RUNS}/{closed_name(run, closed.by)}", closed.text())

    def retained_path(self, run: str, by: str) -> str:
        """The folder with the ids of the run's rows that stayed in the table, when the run ``by`` deleted the others.

        Each run writes a folder of its own, since the write of a dead client may end after that of the next run.
        """
        return f"{self.folder.path}/_kept/run={run}" + ("" if by == run else f".{by}")

    def run_path(self, run: str) -> str:
        """The folder of its rows."""
        return f"{self.folder.path}/run={run}"

    def paths_of(self, manifest: Manifest, days: Days = (None, None)) -> list[str]:
        """The files of a run with events of those days."""
        first, last = days
        return [
            f"{self.run_path(manifest.run)}/{each.path}"
            for each in manifest.files
            if (first is None or _day_of(each) >= first) and (last is None or _day_of(each) <= last)
        ]

    def read(self, paths: Sequence[str]) -> DataFrame:
        """Files or folders of rows, with the columns of ``PLACES``."""
        reader = self.folder.spark.read.schema(f"{COLUMNS}, {PLACES}").option("basePath", self.folder.path)
        return reader.parquet(*paths)


def read_archive(
    spark: SparkSession, path: str, first_day: date | None = None, last_day: date | None = None
) -> DataFrame:
    """Every archived row once: the outbox's columns (``COLUMNS``), and ``run``, ``day`` and ``type`` of its file.

    The days are those on which events were delivered or died, UTC, both included; files of others are not touched.
    Raises ArchiveError for a folder without an archive.
    """
    archive = Archive.at(spark, path)
    ledger = archive.ledger()
    runs = ledger.runs()
    if archive.owner() is None and not runs:
        raise ArchiveError(f"{path}: there is no archive; relay-cli spark archive creates one")
    whole: list[str] = []
    frames: list[DataFrame] = []
    for run in runs:
        closed = ledger.closed(run)
        paths = archive.paths_of(ledger.manifest(run), (first_day, last_day))
        if paths and closed is not None and closed.retained:
            frames.append(_without_retained(archive, archive.retained_path(run, closed.by), paths))
        else:
            whole += paths
    if whole or not frames:
        frames.append(archive.read(whole) if whole else spark.createDataFrame([], f"{COLUMNS}, {PLACES}"))
    return reduce(DataFrame.unionAll, frames)


def _without_retained(archive: Archive, retained_path: str, paths: Sequence[str]) -> DataFrame:
    """Rows of a run without those that stayed in the table."""
    retained = archive.folder.spark.read.schema("event_id string").parquet(retained_path)
    return archive.read(paths).join(retained, "event_id", "left_anti")


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


def _day_of(file: DataFile) -> date:
    return date.fromisoformat(file.path.partition("/")[0].removeprefix("day="))
