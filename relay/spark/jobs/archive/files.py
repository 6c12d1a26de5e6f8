"""An archive: where its files are, which of them count, and how it is read.

    ARCHIVE/_archive.json                        of which outbox it is; one archive is of one outbox
    ARCHIVE/run=R/day=2026-01-31/type=T/*.parquet the rows that run R has written
    ARCHIVE/_runs/R.json                         R's manifest: its files are complete, read back and counted
    ARCHIVE/_runs/R.closed.json                  R's rows are gone from the table, but for those that are kept there
    ARCHIVE/_kept/run=R/*.parquet                their ids: they were replayed, or held, before they could be deleted

Readers go by manifests: a file that no manifest names is not part of the archive, so what a killed run has written
counts for nothing. Rows that R wrote and that the table kept are left out too, since a later run archives them again as
they are then. So an event is in the archive once, or as often as it was archived after it was inserted again.

``day`` is the UTC day on which the event was delivered or died, ``type`` its event type, shortened where it is too long
for a file's name. Any Hadoop file system will do; renaming one file must be atomic for those who read it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from functools import reduce
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from relay.spark.jobs.folder import ArchiveError, Folder

COLUMNS: Final = (
    "event_id string, event_type string, partition_key string, payload binary, headers string, status string, "
    "attempts int, last_error string, available_at timestamp, delivered_at timestamp, created_at timestamp, "
    "updated_at timestamp"
)
"""What is kept of a row: all but the lease, which neither DELIVERED nor DEAD rows have. ``headers`` is JSON text."""

PLACES: Final = "run string, day date, type string"
"""Columns that come from the files' folders."""

FORMAT: Final = 1

_ABOUT: Final = "_archive.json"
_RUNS: Final = "_runs"
_LONGEST_TYPE: Final = 60
"""Bytes of an event type in a folder's name: three characters for each that must be escaped stay below 255."""

Days = tuple[date | None, date | None]
"""The first and the last; None is no bound."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """One Parquet file, its path below the run's folder as the file system has it."""

    path: str
    rows: int
    checksum: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a run has written and read back. ``before`` are the moments up to which rows were taken, ISO 8601."""

    run: str
    rows: int
    checksum: str
    before: str
    statuses: tuple[str, ...]
    files: tuple[DataFile, ...]
    format: int = FORMAT


@dataclass(frozen=True, slots=True)
class Closed:
    """What became of a run's rows: how many the table kept, of those that were archived."""

    kept: int


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive as its writer sees it."""

    folder: Folder

    @classmethod
    def at(cls, spark: SparkSession, path: str) -> Archive:
        """The archive in a folder, which need not be there yet."""
        return cls(Folder(spark, path.rstrip("/") or path))

    def belongs_to(self, outbox: str) -> None:
        """Record the outbox of a new archive. Raises ArchiveError when the archive belongs to another outbox."""
        found = self.about()
        if found is None:
            self.folder.write(_ABOUT, json.dumps({"format": FORMAT, "outbox": outbox}))
        elif found != outbox:
            raise ArchiveError(f"{self.folder.path}: is the archive of {found}, not of {outbox}; give each its own")

    def about(self) -> str | None:
        """Whose archive it is; None where there is none. Raises ArchiveError for one of a later format."""
        text = self.folder.read(_ABOUT)
        if text is None:
            return None
        found = _parsed(text, f"{self.folder.path}/{_ABOUT}")
        if found.get("format") != FORMAT:
            raise ArchiveError(f"{self.folder.path}: its format is {found.get('format')}; this release knows {FORMAT}")
        return str(found["outbox"])

    def runs(self) -> list[str]:
        """Runs that count, oldest first."""
        names = self.folder.names(_RUNS)
        return [
            name.removesuffix(".json")
            for name in names
            if name.endswith(".json") and not name.startswith(".") and not name.endswith(".closed.json")
        ]

    def open_runs(self) -> list[str]:
        """Runs whose rows may still be in the table."""
        closed = {name.removesuffix(".closed.json") for name in self.folder.names(_RUNS)}
        return [run for run in self.runs() if run not in closed]

    def strays(self) -> list[str]:
        """Runs that have written files and no manifest."""
        written = [name.removeprefix("run=") for name in self.folder.names("") if name.startswith("run=")]
        known = set(self.runs())
        return [run for run in written if run not in known]

    def discard(self, run: str) -> None:
        """Delete what a run without a manifest has written."""
        self.folder.delete(f"run={run}")

    def manifest(self, run: str) -> Manifest:
        """A run's manifest."""
        where = f"{_RUNS}/{run}.json"
        found = _parsed(self.folder.read(where) or "", f"{self.folder.path}/{where}")
        files = tuple(DataFile(**each) for each in found.pop("files"))
        return Manifest(**{**found, "statuses": tuple(found["statuses"]), "files": files})

    def publish(self, manifest: Manifest) -> None:
        """From here on the run counts."""
        self.folder.write(f"{_RUNS}/{manifest.run}.json", json.dumps(asdict(manifest)))

    def close(self, run: str, closed: Closed) -> None:
        """Close the run: no later run looks for its rows in the table."""
        self.folder.write(f"{_RUNS}/{run}.closed.json", json.dumps(asdict(closed)))

    def closed(self, run: str) -> Closed | None:
        """What became of its rows; None while they may be in the table."""
        where = f"{_RUNS}/{run}.closed.json"
        text = self.folder.read(where)
        return None if text is None else Closed(**_parsed(text, f"{self.folder.path}/{where}"))

    def kept_path(self, run: str) -> str:
        """Where the ids of rows are that the table kept."""
        return f"{self.folder.path}/_kept/run={run}"

    def run_path(self, run: str) -> str:
        """Where its files are."""
        return f"{self.folder.path}/run={run}"

    def paths_of(self, run: str, days: Days = (None, None)) -> list[str]:
        """The files that a run has written on those days."""
        first, last = days
        return [
            f"{self.run_path(run)}/{each.path}"
            for each in self.manifest(run).files
            if (first is None or _day_of(each) >= first) and (last is None or _day_of(each) <= last)
        ]

    def read(self, paths: Sequence[str]) -> DataFrame:
        """Files or folders of rows, with the columns that come from their places."""
        reader = self.folder.spark.read.schema(f"{COLUMNS}, {PLACES}").option("basePath", self.folder.path)
        return reader.parquet(*paths)


def read_archive(
    spark: SparkSession, path: str, first_day: date | None = None, last_day: date | None = None
) -> DataFrame:
    """Every archived row once: the outbox's columns (``COLUMNS``), and ``run``, ``day`` and ``type`` of its file.

    The days are those on which events were delivered or died, UTC, both included; files of others are not touched.
    Raises ArchiveError where there is no archive.
    """
    archive = Archive.at(spark, path)
    if archive.about() is None:
        raise ArchiveError(f"{path}: there is no archive; relay-cli spark archive makes one")
    whole: list[str] = []
    frames: list[DataFrame] = []
    for run in archive.runs():
        closed = archive.closed(run)
        paths = archive.paths_of(run, (first_day, last_day))
        if paths and closed is not None and closed.kept:
            frames.append(_without_kept(archive, run, paths))
        else:
            whole += paths
    if whole or not frames:
        frames.append(archive.read(whole) if whole else spark.createDataFrame([], f"{COLUMNS}, {PLACES}"))
    return reduce(DataFrame.unionAll, frames)


def _without_kept(archive: Archive, run: str, paths: Sequence[str]) -> DataFrame:
    """Rows of a run but for those that the table kept."""
    kept = archive.folder.spark.read.schema("event_id string").parquet(archive.kept_path(run))
    return archive.read(paths).join(kept, "event_id", "left_anti")


def day() -> Column:
    """The UTC day on which a row was delivered or died, whatever the session's time zone is."""
    return f.expr("date_from_unix_date(int(floor(unix_micros(coalesce(delivered_at, updated_at)) / 86400000000)))")


def type_folder(event_type: Column) -> Column:
    """An event type as it stands in a folder's name: shortened and marked with its hash where it is long."""
    short = f.concat(
        f.substring(event_type, 1, _LONGEST_TYPE // 4), f.lit("~"), f.substring(f.sha2(event_type, 256), 1, 16)
    )
    return f.when(f.octet_length(event_type) <= _LONGEST_TYPE, event_type).otherwise(short)


def new_run(now: datetime, suffix: str) -> str:
    """A name for a run that sorts by time."""
    return f"{now.astimezone(UTC):%Y%m%dT%H%M%SZ}-{suffix}"


def _day_of(file: DataFile) -> date:
    return date.fromisoformat(file.path.partition("/")[0].removeprefix("day="))


def _parsed(text: str, where: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        raise ArchiveError(f"{where}: is no JSON; was it changed by hand?") from None
    if not isinstance(found, dict):
        raise ArchiveError(f"{where}: is not a manifest of an archive")
    return found
