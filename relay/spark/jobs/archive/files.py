"""An archive of Parquet files: which of them are part of it, and how it is read.

    ARCHIVE/archive.json                         the format, and the outbox: ``record``
    ARCHIVE/run=R/day=2026-01-31/type=T/*.parquet the rows of run R
    ARCHIVE/_runs/R.json                         R's manifest, and beside it R's other files: ``ledger``
    ARCHIVE/_kept/run=R/*.parquet                ids of the retained rows: replayed, or locked, before the deletion
    ARCHIVE/_kept/run=R.P/*.parquet              the same, where the later run P has deleted R's rows

Readers follow the manifests: a file that no manifest names, such as one of a killed run, is not part of the archive.
Readers skip R's retained rows too, since a later run archives them again as they are then. So an event is in the
archive once, or as often as it was archived after it was inserted again.

Any Hadoop file system works on which renaming one file is atomic for its readers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import reduce
from typing import ClassVar, Final
from urllib.parse import unquote

from pyspark.sql import DataFrame

from relay.spark.jobs.archive.ledger import (
    BEGUN,
    DISCARDED,
    MANIFEST,
    Closed,
    DataFile,
    Manifest,
    RunLedger,
    closed_name,
)
from relay.spark.jobs.archive.model import EVENT_COLUMNS, Days, check_owner
from relay.spark.jobs.archive.record import EARLIER_RECORD, PARQUET, RECORD, ArchiveRecord, read_record, write_record
from relay.spark.jobs.errors import ArchiveError
from relay.spark.jobs.folder import Folder
from relay.spark.jobs.parquet import materialize, parquet_writer

_RUNS: Final = "_runs"


@dataclass(frozen=True, slots=True)
class ParquetArchive:
    """The files of an archive."""

    folder: Folder

    @property
    def location(self) -> str:
        """The folder."""
        return self.folder.path

    file: ClassVar = "_metadata.file_path"
    """The column with the address of a row's file."""

    def exists(self) -> bool:
        """Whether the folder has a record, or manifests where Spark Connect cannot read an earlier record."""
        return read_record(self.folder) is not None or bool(self.ledger().runs())

    def belongs_to(self, outbox: str) -> None:
        """Record the outbox of a new archive."""
        record = read_record(self.folder)
        if record is None and self.ledger().runs():
            raise ArchiveError(
                f"{self.folder.path}: its outbox is in {EARLIER_RECORD}, which Spark Connect cannot read; archive into "
                f"it once without Spark Connect, which writes {RECORD}"
            )
        check_owner(self.folder.path, None if record is None else record.outbox, outbox)
        write_record(self.folder, ArchiveRecord(PARQUET, outbox))

    def ledger(self) -> RunLedger:
        """The runs as they are now."""
        return RunLedger(f"{self.folder.path}/{_RUNS}", self.folder.contents(_RUNS))

    def strays(self) -> list[str]:
        """Runs that have begun and have no manifest."""
        return self.ledger().strays()

    def open_runs(self) -> list[str]:
        """Runs with a manifest that is not closed."""
        return self.ledger().open_runs()

    def discard(self, run: str) -> None:
        """Delete the run's files; a manifest that appears later does not count."""
        self.folder.write(f"{_RUNS}/{run}.{DISCARDED}", run)
        self.folder.delete(f"run={run}")

    def withdraw(self, run: str) -> None:
        """Delete the run's folder, and that it has begun."""
        self.folder.delete(f"run={run}")
        self.folder.delete(f"{_RUNS}/{run}.{BEGUN}")

    def write(self, run: str, rows: DataFrame) -> None:
        """Write files, each of one day and type, that no manifest names yet."""
        self.folder.write(f"{_RUNS}/{run}.{BEGUN}", run)
        parquet_writer(rows).partitionBy("day", "type").option("compression", "zstd").parquet(self._run_path(run))

    def rows(self, run: str) -> DataFrame:
        """The rows of the manifest's files; of all files in the run's folder where it has no manifest yet."""
        ledger = self.ledger()
        published = run in ledger.runs()
        return self._read(self._paths_of(ledger.manifest(run)) if published else [self._run_path(run)])

    def publish(self, manifest: Manifest) -> None:
        """Make the rows part of the archive: write the manifest, with the files' paths below the run's folder."""
        mark = f"/run={manifest.run}/"
        files = [replace(file, path=unquote(file.path).partition(mark)[2]) for file in manifest.files]
        relative = replace(manifest, files=tuple(sorted(files, key=lambda file: file.path)))
        self.folder.write(f"{_RUNS}/{manifest.run}.{MANIFEST}", relative.text())

    def retain(self, run: str, by: str, remaining: DataFrame) -> DataFrame:
        """Evaluate the ids of the run's rows that stay in the outbox, into a folder below ``_kept``; for ``close``."""
        return materialize(remaining, self._retained_path(run, by))

    def close(self, run: str, by: str, retained: DataFrame) -> int:
        """Write how many rows the readers must leave out."""
        closed = Closed(retained.count(), by)
        self.folder.write(f"{_RUNS}/{closed_name(run, by)}", closed.text())
        return closed.retained

    def taken_over(self, run: str, *, published: bool) -> bool:
        """Whether the ledger says that the run was discarded or closed."""
        ledger = self.ledger()
        return run not in (ledger.open_runs() if published else ledger.strays())

    def read(self, days: Days) -> DataFrame:
        """The rows of the manifests' files; files of other days are not touched."""
        ledger = self.ledger()
        whole: list[str] = []
        frames: list[DataFrame] = []
        for run in ledger.runs():
            closed = ledger.closed(run)
            paths = self._paths_of(ledger.manifest(run), days)
            if paths and closed is not None and closed.retained:
                frames.append(self._without_retained(self._retained_path(run, closed.by), paths))
            else:
                whole += paths
        if whole or not frames:
            empty = self.folder.spark.createDataFrame([], EVENT_COLUMNS)
            frames.append(self._read(whole) if whole else empty)
        return reduce(DataFrame.unionAll, frames)

    def _retained_path(self, run: str, by: str) -> str:
        """The folder with the ids of the run's rows that stayed in the table, when the run ``by`` deleted the others.

        Each run writes a folder of its own, since the write of a dead client may end after that of the next run.
        """
        return f"{self.folder.path}/_kept/run={run}" + ("" if by == run else f".{by}")

    def _run_path(self, run: str) -> str:
        return f"{self.folder.path}/run={run}"

    def _paths_of(self, manifest: Manifest, days: Days = (None, None)) -> list[str]:
        """The files of a run with events of those days."""
        first, last = days
        return [
            f"{self._run_path(manifest.run)}/{each.path}"
            for each in manifest.files
            if (first is None or _day_of(each) >= first) and (last is None or _day_of(each) <= last)
        ]

    def _read(self, paths: Sequence[str]) -> DataFrame:
        """Files or folders of rows, with the columns of ``PARTITIONS`` from the names of the folders."""
        reader = self.folder.spark.read.schema(EVENT_COLUMNS).option("basePath", self.folder.path)
        return reader.parquet(*paths)

    def _without_retained(self, retained_path: str, paths: Sequence[str]) -> DataFrame:
        """Rows of a run without those that stayed in the table."""
        retained = self.folder.spark.read.schema("event_id string").parquet(retained_path)
        return self._read(paths).join(retained, "event_id", "left_anti")


def _day_of(file: DataFile) -> date:
    return date.fromisoformat(file.path.partition("/")[0].removeprefix("day="))
