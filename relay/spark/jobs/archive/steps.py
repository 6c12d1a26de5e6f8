"""One run of the archive, step by step; a run that stops within or between steps loses and repeats no event.

    recover   discard the rows that a killed run wrote and did not publish; complete a killed run that was published and
              not closed, since its rows may still be in the table (delete its rows, as below)
    write     write the rows above the age to the archive, not yet as a part of it; count and sum them on the way
    verify    read all rows of the run back; compare count and checksum
    publish   from here on the rows belong to the archive
    delete    delete the rows that were read back, if they did not change; note the ids of the others
    close     the rows that remain belong to the table again; the run has ended

Until ``publish`` every row is in the table, and readers of the archive skip what was written. After it every row is in
the archive and may be deleted; until ``close`` it may be in both. ``recover`` of the next run ends that. The formats of
an archive, ``files`` and ``tables``, say what they write in each step.

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

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as f

from relay.spark.jobs.archive.arguments import ArchiveArguments
from relay.spark.jobs.archive.delete import Removal
from relay.spark.jobs.archive.formats import open_archive
from relay.spark.jobs.archive.ledger import DataFile, Manifest
from relay.spark.jobs.archive.lock import ArchiveLock
from relay.spark.jobs.archive.model import COLUMNS, day, new_run, type_folder
from relay.spark.jobs.errors import ArchiveError
from relay.spark.jobs.settled import settled_rows
from relay.spark.statements import SparkStatements

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
        self._archive = open_archive(spark, job.path, job.format)
        self._outbox = outbox
        self._written: tuple[int, str] = (0, "0")  # rows and checksum
        self._manifest: Manifest | None = None
        self._retained: DataFrame | None = None
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
        for run in self._archive.strays():
            self._archive.discard(run)
            self.progress.discarded.append(run)
        if self._job.keep:
            return
        for run in self._archive.open_runs():
            self._archive.close(run, self.progress.run, self._remove(run))
            self.progress.recovered.append(run)

    def write(self) -> None:
        """Write the rows; they are no part of the archive yet."""
        observed = Observation(self.progress.run)
        rows = self.selected(_NAMES)
        for run in self._archive.open_runs():  # archived with ``keep``: its rows are still in the table
            rows = rows.join(self._archive.rows(run).select("event_id"), "event_id", "left_anti")
        partitioned = rows.withColumns({"day": day(), "type": type_folder(f.col("event_type"))}).hint(
            "rebalance", "day", "type"
        )
        self._archive.write(self.progress.run, partitioned.observe(observed, *_sums()))
        sums = observed.get
        if "rows" not in sums:  # of a write that a table's format runs in a query of its own, Spark Connect has no sums
            raise ArchiveError(
                f"{self._archive.location}: Spark has not reported count and checksum of the rows that were written; "
                "nothing was deleted; archive into tables without Spark Connect"
            )
        self._written = (int(sums["rows"]), str(sums["checksum"]))

    def verify(self) -> None:
        """Compare the rows read back with those written. Raises ArchiveError when they differ.

        The next run discards what was written.
        """
        run = self.progress.run
        if not self._written[0]:
            self._archive.withdraw(run)
            return
        read = self._archive.rows(run)
        sums = read.groupBy(f.col(self._archive.file).alias("path")).agg(*_sums()).collect()
        rows, checksum = sum(row["rows"] for row in sums), str(sum(int(row["checksum"]) for row in sums))
        events = read.select("event_id").distinct().count()
        if (rows, checksum) != self._written or events != rows:
            raise ArchiveError(
                f"{self._archive.location}, run {run}: {self._written[0]} rows of checksum {self._written[1]} were "
                f"written, {rows} rows of {events} events and checksum {checksum} were read back; nothing was deleted, "
                "run it again"
            )
        self._manifest = Manifest(
            run=run,
            rows=rows,
            checksum=checksum,
            before=self.progress.before.isoformat(),
            statuses=self._job.statuses,
            files=tuple(DataFile(row["path"], row["rows"], str(row["checksum"])) for row in sums),
        )

    def publish(self) -> None:
        """Make the rows part of the archive."""
        if self._manifest is not None:
            self._archive.publish(self._manifest)
            self.progress.archived, self.progress.files = self._manifest.rows, len(self._manifest.files)

    def delete(self) -> None:
        """Delete the rows from the table."""
        if self._manifest is not None:
            self._retained = self._remove(self.progress.run)

    def close(self) -> None:
        """End the run."""
        if self._retained is not None:
            self.progress.left = self._archive.close(self.progress.run, self.progress.run, self._retained)
            self.progress.deleted = self.progress.archived - self.progress.left

    def selected(self, names: Sequence[str]) -> DataFrame:
        """Columns of the rows above the age."""
        job = self._job
        return settled_rows(self._spark, job.url, job.table, names, job.statuses, None, self.progress.before)

    def _check_alone(self) -> None:
        """Raises ArchiveError where another run had the lock meanwhile: it has discarded or closed this run."""
        published = bool(self.progress.archived)
        if self._written[0] and self._archive.taken_over(self.progress.run, published=published):
            raise ArchiveError(
                f"run {self.progress.run} lost its lock with the database's connection, and another run has taken over "
                "its rows; no event is lost, run it again for what is left"
            )

    def _remove(self, run: str) -> DataFrame:
        """Delete the run's rows from the table; the ids of those that stay."""
        removal = Removal(self._job.url, self._lock.statements, self._job.batch_rows, self._job.max_connections)
        return self._archive.retain(run, self.progress.run, removal.remaining(self._archive.rows(run)))


@contextmanager
def archive_run(spark: SparkSession, job: ArchiveArguments) -> Iterator[ArchiveRun]:
    """A run that is the only one of its outbox. Raises StorageBusy while another one is active."""
    lock = ArchiveLock(job.url, SparkStatements(job.table))
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
