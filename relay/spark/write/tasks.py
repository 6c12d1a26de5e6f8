"""One task: write its partition's rows into the staging table, or into the outbox. Runs on the executors.

Spark repeats a failed task, whose transaction is rolled back. A task does not retry: its input can be read once.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, TypeAlias
from uuid import UUID, uuid5

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from relay.core.errors import StorageError
from relay.postgres.connect import SyncConnection, close_and_wait
from relay.postgres.errors import translating
from relay.spark.connection import Wait, connect
from relay.spark.slots import slot
from relay.spark.statements import SparkStatements
from relay.spark.write.columns import Columns
from relay.spark.write.epochs import Run
from relay.spark.write.frames import Frame, Framer
from relay.spark.write.identity import job_namespace
from relay.spark.write.load import DirectLoad, load_staging
from relay.spark.write.runs import open_run
from relay.spark.write.write_options import Commit, WriteOptions

Batches = Iterator[pa.RecordBatch]
ArrowStream: TypeAlias = bytes

_CARRIED_BYTES: Final = 64 << 10
"""Arrow data of a partition that its task hands to the driver, instead of staging it."""
_CARRIED_PARTITIONS: Final = 256
"""Only the first ones may, so that all messages together stay small."""
QUERY_ID: Final = "sql.streaming.queryId"
"""The property of a task that names the streaming query it works for."""
_JOB_GROUP: Final = "spark.jobGroup.id"


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The message of a task to the driver. ``run`` is None for an empty partition."""

    run: Run | None = None
    partition: int = 0
    attempt: int | None = None
    """The number under which the rows are staged."""
    rows: int = 0
    inserted: int = 0
    unchecked: int = 0
    """Rows that exist already and were not compared."""
    bytes: int = 0
    retries: int = 0
    """Attempts at the partition before this one."""
    id_sum: int = 0
    carried: ArrowStream | None = None
    """The rows themselves, where they are few."""
    stream_run: str | None = None
    """The run of the streaming query in whose ``foreachBatch`` the task works."""


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
        carries = self.options.commit is Commit.ATOMIC and self.partition < _CARRIED_PARTITIONS
        most = _CARRIED_BYTES if carries else 0
        first: list[pa.RecordBatch] = []
        while sum(batch.nbytes for batch in first) <= most:
            batch = next((batch for batch in batches if batch.num_rows), None)
            if batch is None:
                return replace(self.count(first), carried=_carried(first)) if first else Written()
            first.append(batch)
        all_batches = chain(first, batches)
        if self.options.commit is Commit.PARTITION:
            return self._write_directly(all_batches)
        return self._stage(all_batches)

    def count(self, batches: Iterable[pa.RecordBatch]) -> Written:
        """Check, count and sum the rows. Raises EventError for invalid ones."""
        framer = self.framer()
        for _ in self._frames(framer, batches, None, 0):
            pass
        return Written(self.run, self.partition, rows=framer.staged, bytes=framer.size, id_sum=framer.id_sum)

    def frames(self, carried: ArrowStream, default_time: bytes | None) -> Iterator[Frame]:
        """On the driver: carried rows, for the outbox with a time, or for the staging table without."""
        attempt = self.attempt if default_time is None else None
        yield from self._frames(self.framer(), pa.ipc.open_stream(carried), default_time, attempt)

    @property
    def attempt(self) -> int:
        """The number of an attempt whose rows are carried: in the order of the partitions, as all of them."""
        return self.partition << 32

    def _write_directly(self, batches: Batches) -> Written:
        with self._slot() as connection:
            ((now,),) = connection.execute(self.statements.query("slots:transaction_time")).fetchall()
            load = DirectLoad(connection, self.statements, self.options.batch_rows, careful=not self.first)
            framer = self.framer()
            load.load(self._frames(framer, batches, int(now).to_bytes(8, "big", signed=True), None))
        return Written(
            self.run,
            self.partition,
            rows=load.rows,
            inserted=load.inserted,
            unchecked=load.unchecked,
            bytes=framer.size,
            id_sum=framer.id_sum,
        )

    def _stage(self, batches: Batches) -> Written:
        attempt = self.attempt | secrets.randbits(32)
        framer = self.framer()
        with self._slot(self._open) as connection:
            statement = self.statements.query("staging:copy_staging", self.run.stage)
            rows = load_staging(connection, statement, self._frames(framer, batches, None, attempt))
        return Written(self.run, self.partition, attempt, rows, bytes=framer.size, id_sum=framer.id_sum)

    @contextmanager
    def _slot(self, before: Callable[[SyncConnection], None] | None = None) -> Iterator[SyncConnection]:
        """One of the job's connections, in a transaction; ``before`` is called in a transaction of its own."""

        def open_connection() -> SyncConnection:
            connection = connect(self.options.url, writes=True, wait=Wait(self.options.max_wait))
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
        open_run(connection, self.statements, self.run)

    @staticmethod
    def _frames(
        framer: Framer, batches: Iterable[pa.RecordBatch], default_time: bytes | None, attempt: int | None
    ) -> Iterator[Frame]:
        for batch in batches:
            yield from framer.frames(batch, default_time, attempt)

    def framer(self) -> Framer:
        """The encoder of this partition's rows."""
        job = job_of(self.options, self.run)
        space = partition_space(job, self.run, self.partition)
        return Framer(self.columns, self.options.event_type, job, space, summed=self.run.epoch is not None)


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


def _carried(batches: Sequence[pa.RecordBatch]) -> ArrowStream:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    data: ArrowStream = sink.getvalue().to_pybytes()
    return data


def stream_run(context: TaskContext) -> str | None:
    """The run of the streaming query that the task works for: another one after each start of the query."""
    return context.getLocalProperty(_JOB_GROUP) if context.getLocalProperty(QUERY_ID) else None


def current_task() -> TaskContext:
    """The task that this process works for. Raises StorageError outside one."""
    context = TaskContext.get()
    if context is None:
        raise StorageError("no Spark task runs here; only Spark may call the writer")
    return context
