"""One run of the archive, step by step; a run that stops between two steps, or within one, loses and repeats nothing.

    recover   what a killed run left: files without a manifest are discarded, a manifest whose rows may still be in the
              table is completed (its rows are deleted, as below)
    write     rows that are old enough to the run's own folder; what goes in is counted and summed on the way
    verify    read all files back; count and checksum must be those of what went in
    publish   the manifest: from here on the files are the archive's
    delete    the rows that were read back, each only while it is what was archived; what is left is noted
    close     the rows that are left are the table's again, and the run is over

Until ``publish`` every row is in the table, and the files count for nothing. After it every row is in the archive, so a
row may be deleted; until ``close`` it may be in both. The next run's ``recover`` comes first, and ends that.

One run of an outbox at a time: the driver holds an advisory lock in a transaction that does nothing else, and looks
before each step whether it still does.
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

from relay.core.errors import StorageBusy
from relay.postgres.connect import SyncConnection
from relay.postgres.errors import translating
from relay.postgres.sql import statement
from relay.spark.connection import connect
from relay.spark.jobs.archive.arguments import ArchiveArguments
from relay.spark.jobs.archive.delete import Removal
from relay.spark.jobs.archive.files import COLUMNS, Archive, Closed, DataFile, Manifest, day, new_run, type_folder
from relay.spark.jobs.folder import ArchiveError
from relay.spark.jobs.outbox import Outbox, identify
from relay.spark.jobs.parquet import kept, writing
from relay.spark.jobs.settled import SettledTable, settled_rows
from relay.spark.statements import DEFAULT_SCHEMA, SparkStatements

Step = Callable[[], None]

_NAMES: Final = tuple(column.split()[0] for column in COLUMNS.split(", "))
_NULLABLE: Final = ("partition_key", "last_error", "delivered_at")


@dataclass(slots=True)
class Done:
    """What a run has done so far."""

    run: str
    before: datetime
    archived: int = 0
    files: int = 0
    deleted: int = 0
    left: int = 0
    """Archived rows that stay in the table since they changed meanwhile; the archive does without them."""
    recovered: list[str] = field(default_factory=list)
    """Earlier runs whose rows have been deleted now."""
    discarded: list[str] = field(default_factory=list)
    """Earlier runs that had not come as far as a manifest."""


class Archiving:
    """A run; its steps are to be taken in order, each once, while ``connection`` holds the lock."""

    def __init__(self, spark: SparkSession, job: ArchiveArguments, connection: SyncConnection, outbox: Outbox) -> None:
        self._spark = spark
        self._job = job
        self._connection = connection
        self._statements = SparkStatements(job.table, DEFAULT_SCHEMA)
        self._archive = Archive.at(spark, job.path)
        self._outbox = outbox
        self._written: tuple[int, str] = (0, "0")
        self._manifest: Manifest | None = None
        self.done = Done(new_run(outbox.now, secrets.token_hex(4)), outbox.now - timedelta(seconds=job.older_than))

    def steps(self) -> Sequence[Step]:
        """All of them."""
        ends = () if self._job.keep else (self.delete, self.close)
        return (self.recover, self.write, self.verify, self.publish, *ends)

    def run(self) -> Done:
        """Take them all."""
        for step in self.steps():
            with translating("looking whether this still is the only archiving"):
                self._connection.execute(statement("session:ping"))
            step()
        return self.done

    def recover(self) -> None:
        """Finish, or discard, what earlier runs have begun."""
        self._archive.belongs_to(self._outbox.name)
        for run in self._archive.strays():
            self._archive.discard(run)
            self.done.discarded.append(run)
        if self._job.keep:
            return
        for run in self._archive.open_runs():
            self._remove(run)
            self._close(run)
            self.done.recovered.append(run)

    def write(self) -> None:
        """The rows, to files that no manifest names yet."""
        observed = Observation(self.done.run)
        rows = self.selected(_NAMES)
        for run in self._archive.open_runs():  # archived with ``keep``, and in the table still
            rows = rows.join(
                self._archive.read(self._archive.paths_of(run)).select("event_id"), "event_id", "left_anti"
            )
        placed = rows.withColumns({"day": day(), "type": type_folder(f.col("event_type"))}).hint(
            "rebalance", "day", "type"
        )
        placed = placed.observe(observed, *_sums())
        writing(placed).partitionBy("day", "type").option("compression", "zstd").parquet(
            self._archive.run_path(self.done.run)
        )
        found = observed.get
        self._written = (int(found["rows"]), str(found["checksum"]))

    def verify(self) -> None:
        """The files hold what went in. Raises ArchiveError, and leaves them to be discarded, if not."""
        if not self._written[0]:
            self._archive.discard(self.done.run)
            return
        read = self._archive.read([self._archive.run_path(self.done.run)])
        found = read.groupBy(f.col("_metadata.file_path").alias("path")).agg(*_sums()).collect()
        there = sum(row["rows"] for row in found), str(sum(int(row["checksum"]) for row in found))
        events = read.select("event_id").distinct().count()
        if there != self._written or events != there[0]:
            raise ArchiveError(
                f"{self._archive.run_path(self.done.run)}: {self._written[0]} rows of checksum {self._written[1]} were "
                f"written, {there[0]} rows of {events} events and checksum {there[1]} are there; nothing was deleted, "
                "run it again"
            )
        mark = f"/run={self.done.run}/"
        files = [DataFile(unquote(row["path"]).partition(mark)[2], row["rows"], str(row["checksum"])) for row in found]
        self._manifest = Manifest(
            run=self.done.run,
            rows=self._written[0],
            checksum=self._written[1],
            before=self.done.before.isoformat(),
            statuses=self._job.statuses,
            files=tuple(sorted(files, key=lambda file: file.path)),
        )

    def publish(self) -> None:
        """The files become the archive's."""
        if self._manifest is not None:
            self._archive.publish(self._manifest)
            self.done.archived, self.done.files = self._manifest.rows, len(self._manifest.files)

    def delete(self) -> None:
        """The rows leave the table."""
        if self._manifest is not None:
            self._remove(self.done.run)

    def close(self) -> None:
        """The run is over."""
        if self._manifest is not None:
            self.done.left = self._close(self.done.run)
            self.done.deleted = self.done.archived - self.done.left

    def selected(self, names: Sequence[str]) -> DataFrame:
        """Columns of the rows that are old enough."""
        outbox = SettledTable(self._job.url, self._job.table)
        return settled_rows(self._spark, outbox, names, self._job.statuses, None, self.done.before)

    def _remove(self, run: str) -> None:
        removal = Removal(self._job.url, self._statements, self._job.batch_rows, self._job.max_connections)
        archived = self._archive.read(self._archive.paths_of(run))
        kept(removal.rows_left(archived), self._archive.kept_path(run))

    def _close(self, run: str) -> int:
        left = self._spark.read.schema("event_id string").parquet(self._archive.kept_path(run)).count()
        self._archive.close(run, Closed(left))
        return left


@contextmanager
def archiving(spark: SparkSession, job: ArchiveArguments) -> Iterator[Archiving]:
    """A run that is the only one of its outbox. Raises StorageBusy when there is one already."""
    statements = SparkStatements(job.table, DEFAULT_SCHEMA)
    with connect(job.url) as connection, connection.transaction():
        outbox = identify(connection, statements)
        outbox.require("archive from", outbox.may_read and (job.keep or (outbox.may_delete and outbox.may_lock)))
        with translating("becoming the only archiving of this outbox"):
            row = connection.execute(statements.query("archive:lock_archive"), {"outbox": job.table.quoted}).fetchone()
        if row is None or not row[0]:
            raise StorageBusy(f"{job.table}: is being archived already; wait for that run, or stop it")
        yield Archiving(spark, job, connection, outbox)


def _sums() -> tuple[Column, Column]:
    """Rows, and a checksum of all their columns that does not depend on their order."""
    nulls = f.concat(*(f.col(name).isNull().cast("string") for name in _NULLABLE))
    each = f.xxhash64(*(f.col(name) for name in _NAMES), nulls).cast("decimal(38,0)")
    return f.count(f.lit(1)).alias("rows"), f.coalesce(f.sum(each), f.lit(0)).cast("string").alias("checksum")
