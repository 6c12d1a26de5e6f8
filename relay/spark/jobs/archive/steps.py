"""One run of the archive, step by step; a run that stops within or between steps loses and repeats no event.

    recover   discard the files of a killed run that has no manifest; complete a killed run whose manifest says that its
              rows may still be in the table (delete its rows, as below)
    write     write the rows above the age to the run's own folder; count and sum them on the way
    verify    read all files back; compare count and checksum
    publish   write the manifest: from here on the files belong to the archive
    delete    delete the rows that were read back, if they did not change; note the ids of the others
    close     the rows that remain belong to the table again; the run has ended

Until ``publish`` every row is in the table, and the files are not part of the archive. After it every row is in the
archive and may be deleted; until ``close`` it may be in both. ``recover`` of the next run ends that.

One run of an outbox at a time: the driver holds an advisory lock, and checks it before each step. After a restart of
the database it takes the lock again, and goes on if no other run has discarded or closed this one meanwhile.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as f

from relay.spark.jobs.archive.arguments import ArchiveArguments
from relay.spark.jobs.archive.delete import Removal
from relay.spark.jobs.archive.files import COLUMNS, Archive, day, new_run, type_folder
from relay.spark.jobs.archive.ledger import Closed, DataFile, Manifest
from relay.spark.jobs.archive.lock import ArchiveLock
from relay.spark.jobs.folder import ArchiveError
from relay.spark.jobs.parquet import materialize, parquet_writer
from relay.spark.jobs.settled import SettledTable, settled_rows
from relay.spark.statements import DEFAULT_SCHEMA, SparkStatements

Step = Callable[[], None]

_NAMES: Final = tuple(column.split()[0] for column in COLUMNS.split(", "))
_NULLABLE: Final = ("partition_key", "last_error", "delivered_at")


@dataclass(slots=True)
class ArchiveProgress:
    """The work that a run has done."""

    run: str
    before: datetime
    archived: int = 0
    files: int = 0
    deleted: int = 0
    left: int = 0
    """Archived rows that stay in the table since they changed meanwhile; readers of the archive skip them."""
    recovered: list[str] = field(default_factory=list)
    """Earlier runs whose rows this run has deleted."""
    discarded: list[str] = field(default_factory=list)
    """Earlier runs that had no manifest."""


class ArchiveRun:
    """A run. Call its steps in order, each once, while ``lock`` is held."""

    def __init__(self, spark: SparkSession, job: ArchiveArguments, lock: ArchiveLock) -> None:
        outbox = lock.outbox
        self._spark = spark
        self._job = job
        self._lock = lock
        self._statements = SparkStatements(job.table, DEFAULT_SCHEMA)
        self._archive = Archive.at(spark, job.path)
        self._outbox = outbox
        self._written: tuple[int, str] = (0, "0")  # rows and checksum
        self._manifest: Manifest | None = None
        self.progress = ArchiveProgress(
            new_run(outbox.now, secrets.token_hex(4)), outbox.now - timedelta(seconds=job.older_than)
        )

    def steps(self) -> Sequence[Step]:
        """The steps of this run."""
        ends = () if self._job.keep else (self.delete, self.close)
        return (self.recover, self.write, self.verify, self.publish, *ends)

    def run(self) -> ArchiveProgress:
        """Do all steps."""
        for step in self.steps():
            if not self._lock.still_held():
                self._check_alone()
            step()
        return self.progress

    def recover(self) -> None:
        """Complete, or discard, earlier runs that did not end."""
        self._archive.belongs_to(self._outbox.name)
        ledger = self._archive.ledger()
        for run in ledger.strays():
            self._archive.discard(run)
            self.progress.discarded.append(run)
        if self._job.keep:
            return
        for run in ledger.open_runs():
            self._remove(ledger.manifest(run))
            self._close(run)
            self.progress.recovered.append(run)

    def write(self) -> None:
        """Write the rows to files that no manifest names yet."""
        observed = Observation(self.progress.run)
        rows = self.selected(_NAMES)
        ledger = self._archive.ledger()
        for run in ledger.open_runs():  # archived with ``keep``: its rows are still in the table
            archived = self._archive.read(self._archive.paths_of(ledger.manifest(run)))
            rows = rows.join(archived.select("event_id"), "event_id", "left_anti")
        placed = rows.withColumns({"day": day(), "type": type_folder(f.col("event_type"))}).hint(
            "rebalance", "day", "type"
        )
        placed = placed.observe(observed, *_sums())
        self._archive.begin(self.progress.run)
        parquet_writer(placed).partitionBy("day", "type").option("compression", "zstd").parquet(
            self._archive.run_path(self.progress.run)
        )
        sums = observed.get
        self._written = (int(sums["rows"]), str(sums["checksum"]))

    def verify(self) -> None:
        """Compare the files with the rows. Raises ArchiveError when they differ; the next run discards the files."""
        if not self._written[0]:
            self._archive.withdraw(self.progress.run)
            return
        read = self._archive.read([self._archive.run_path(self.progress.run)])
        sums = read.groupBy(f.col("_metadata.file_path").alias("path")).agg(*_sums()).collect()
        rows, checksum = sum(row["rows"] for row in sums), str(sum(int(row["checksum"]) for row in sums))
        events = read.select("event_id").distinct().count()
        if (rows, checksum) != self._written or events != rows:
            raise ArchiveError(
                f"{self._archive.run_path(self.progress.run)}: {self._written[0]} rows of checksum {self._written[1]} "
                f"were written, {rows} rows of {events} events and checksum {checksum} were read back; nothing was "
                "deleted, run it again"
            )
        mark = f"/run={self.progress.run}/"
        files = [DataFile(unquote(row["path"]).partition(mark)[2], row["rows"], str(row["checksum"])) for row in sums]
        self._manifest = Manifest(
            run=self.progress.run,
            rows=self._written[0],
            checksum=self._written[1],
            before=self.progress.before.isoformat(),
            statuses=self._job.statuses,
            files=tuple(sorted(files, key=lambda file: file.path)),
        )

    def publish(self) -> None:
        """Make the files part of the archive."""
        if self._manifest is not None:
            self._archive.publish(self._manifest)
            self.progress.archived, self.progress.files = self._manifest.rows, len(self._manifest.files)

    def delete(self) -> None:
        """Delete the rows from the table."""
        if self._manifest is not None:
            self._remove(self._archive.ledger().manifest(self.progress.run))

    def close(self) -> None:
        """End the run."""
        if self._manifest is not None:
            self.progress.left = self._close(self.progress.run)
            self.progress.deleted = self.progress.archived - self.progress.left

    def selected(self, names: Sequence[str]) -> DataFrame:
        """Columns of the rows above the age."""
        outbox = SettledTable(self._job.url, self._job.table)
        return settled_rows(self._spark, outbox, names, self._job.statuses, None, self.progress.before)

    def _check_alone(self) -> None:
        """Raises ArchiveError where another run had the lock meanwhile: it has discarded or closed this run."""
        ledger = self._archive.ledger()
        runs = ledger.open_runs() if self.progress.archived else ledger.strays()
        if self._written[0] and self.progress.run not in runs:
            raise ArchiveError(
                f"run {self.progress.run} lost its lock with the database's connection, and another run has taken over "
                "its files; no event is lost, run it again for what is left"
            )

    def _remove(self, manifest: Manifest) -> None:
        removal = Removal(self._job.url, self._statements, self._job.batch_rows, self._job.max_connections)
        archived = self._archive.read(self._archive.paths_of(manifest))
        materialize(removal.remaining(archived), self._archive.retained_path(manifest.run, self.progress.run))

    def _close(self, run: str) -> int:
        retained = self._archive.retained_path(run, self.progress.run)
        left = self._spark.read.schema("event_id string").parquet(retained).count()
        self._archive.close(run, Closed(left, self.progress.run))
        return left


@contextmanager
def archive_run(spark: SparkSession, job: ArchiveArguments) -> Iterator[ArchiveRun]:
    """A run that is the only one of its outbox. Raises StorageBusy while another one is active."""
    statements = SparkStatements(job.table, DEFAULT_SCHEMA)
    lock = ArchiveLock(job.url, statements)
    try:
        outbox = lock.outbox
        outbox.require("archive from", outbox.may_read and (job.keep or (outbox.may_delete and outbox.may_lock)))
        yield ArchiveRun(spark, job, lock)
    finally:
        lock.close()


def _sums() -> tuple[Column, Column]:
    """The number of rows, and a checksum of all their columns that does not depend on their order."""
    nulls = f.concat(*(f.col(name).isNull().cast("string") for name in _NULLABLE))
    each = f.xxhash64(*(f.col(name) for name in _NAMES), nulls).cast("decimal(38,0)")
    return f.count(f.lit(1)).alias("rows"), f.coalesce(f.sum(each), f.lit(0)).cast("string").alias("checksum")
