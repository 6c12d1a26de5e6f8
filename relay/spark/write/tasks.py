"""One task: write its partition's rows into the staging table, or into the outbox. Runs on the executors.

Spark repeats a failed task, whose transaction is rolled back. A task does not retry: its input can be read once.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from uuid import UUID, uuid5

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from relay.core.errors import StorageError
from relay.postgres.connect import SyncConnection, close_and_wait
from relay.postgres.errors import translating
from relay.spark.connection import connect
from relay.spark.slots import slot
from relay.spark.statements import SparkStatements
from relay.spark.write.columns import Columns
from relay.spark.write.epochs import Run
from relay.spark.write.frames import Frame, Framer
from relay.spark.write.identity import job_namespace
from relay.spark.write.load import Counted, DirectLoad, load_staging
from relay.spark.write.options import Commit, WriteOptions
from relay.spark.write.runs import open_run

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The message of a task to the driver. ``run`` is None for an empty partition."""

    run: Run | None = None
    attempt: int | None = None
    rows: int = 0
    inserted: int = 0
    bytes: int = 0
    retries: int = 0
    """Attempts at the partition before this one."""


@dataclass(frozen=True, slots=True)
class Task:
    """One attempt at one partition."""

    options: WriteOptions
    columns: Columns
    statements: SparkStatements
    run: Run
    partition: int
    first: bool
    """Whether this is the first attempt at the partition."""

    def write(self, batches: Batches) -> Written:
        """Write the partition. Raises EventError for invalid rows, StorageError and its subclasses."""
        first = next((batch for batch in batches if batch.num_rows), None)
        if first is None:
            return Written()
        all_batches = chain([first], batches)
        if self.options.commit is Commit.PARTITION:
            return self._write_directly(all_batches)
        return self._stage(all_batches)

    def _write_directly(self, batches: Batches) -> Written:
        with self._slot() as connection:
            ((now,),) = connection.execute(self.statements.query("slots:transaction_time")).fetchall()
            load = DirectLoad(connection, self.statements, self.options.batch_rows, careful=not self.first)
            frames = Counted(self._frames(batches, int(now).to_bytes(8, "big", signed=True), None))
            load.load(frames)
        return Written(self.run, None, load.rows, load.inserted, frames.bytes)

    def _stage(self, batches: Batches) -> Written:
        attempt = self.partition << 32 | secrets.randbits(32)  # in the order of the partitions
        with self._slot(self._open) as connection:
            statement = self.statements.query("staging:copy_staging", self.run.stage)
            frames = Counted(self._frames(batches, None, attempt))
            rows = load_staging(connection, statement, frames)
        return Written(self.run, attempt, rows, bytes=frames.bytes)

    @contextmanager
    def _slot(self, before: Callable[[SyncConnection], None] | None = None) -> Iterator[SyncConnection]:
        """One of the job's connections, in a transaction; ``before`` is called in a transaction of its own."""

        def open_connection() -> SyncConnection:
            connection = connect(self.options.url, writes=True, max_wait=self.options.max_wait)
            try:
                if before is not None:
                    before(connection)
            except BaseException:
                close_and_wait(connection)
                raise
            return connection

        doing = f"writing partition {self.partition} to {self.statements.outbox}"
        with (
            translating(doing),
            slot(self.run.run_id, self.options.max_connections, self.statements, open_connection) as connection,
        ):
            yield connection

    def _open(self, connection: SyncConnection) -> None:
        open_run(connection, self.statements, self.run, staging=True)

    def _frames(self, batches: Batches, default_time: bytes | None, attempt: int | None) -> Iterator[Frame]:
        framer = self.framer()
        for batch in batches:
            yield from framer.frames(batch, default_time, attempt)

    def framer(self) -> Framer:
        """The encoder of this partition's rows."""
        job = job_of(self.options, self.run)
        return Framer(self.columns, self.options.event_type, job, partition_space(job, self.run, self.partition))


def job_of(options: WriteOptions, run: Run) -> str:
    """The name that is part of derived ids.

    A business key is unique without a job's name, so that the same write, run twice, derives the same ids. Rows without
    a key are new ones in each run, unless the job has a name.
    """
    if options.job is not None or options.id_columns:
        return options.job or ""
    return f"{run.query_id}/{run.epoch}" if run.query_id is not None else str(run.run_id)


def partition_space(job: str, run: Run, partition: int) -> UUID:
    """The namespace of ids that are derived from a partition's content."""
    epoch = "" if run.epoch is None else f"{run.query_id}/{run.epoch}/"
    return uuid5(job_namespace(job), f"{epoch}{partition}")


def current_task() -> TaskContext:
    """The task that this process works for. Raises StorageError outside one."""
    context = TaskContext.get()
    if context is None:
        raise StorageError("no Spark task runs here; only Spark may call the writer")
    return context
