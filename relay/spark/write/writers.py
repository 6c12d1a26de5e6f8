"""The two writers that Spark calls: of a batch, and of a stream's micro-batches.

Both are created on the driver, pickled, and unpickled on executors (``write``) and in another process beside the driver
(``commit``, ``abort``). So their constructors set all attributes, and the tasks' messages carry the tasks' results. A
stream's writer is created for each micro-batch, and once more for its commit.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from relay.core.errors import ConfigError
from relay.postgres.errors import translating
from relay.spark.connection import Wait, connect, persist
from relay.spark.statements import SparkStatements
from relay.spark.write.columns import Columns
from relay.spark.write.epochs import Run, check_rows, normal_location
from relay.spark.write.frames import LARGEST_SUM, Frame
from relay.spark.write.liveness import this_driver
from relay.spark.write.runs import abort_run, begin_run, commit_run, prepare
from relay.spark.write.staging import Staged
from relay.spark.write.tasks import QUERY_ID, Task, Written, current_task, stream_run
from relay.spark.write.write_options import Commit, WriteOptions

_log = logging.getLogger(__name__)

_EPOCH: Final = "streaming.sql.batchId"

_LONGEST_ABORT: Final = 60.0
"""Seconds that aborting waits for the database: the job has failed already, mostly because of the database."""

_COUNTS: Final = ("rows", "inserted", "unchecked", "bytes", "retries")
"""Numbers of ``Staged``, each the sum of the tasks' numbers."""

Messages = Sequence[WriterCommitMessage | None]


@dataclass(frozen=True, slots=True)
class _Write:
    """What both writers have, and what they do on the driver at the end."""

    options: WriteOptions
    columns: Columns
    statements: SparkStatements

    def task(self, run: Run, partition: int, *, first: bool = True) -> Task:
        """One attempt at a partition."""
        return Task(self.options, self.columns, self.statements, run, partition, first)

    def commit(self, run: Run, staged: Staged) -> None:
        """Make the rows visible."""
        rows, inserted = commit_run(self.options.url, self.statements, run, staged, self.options.max_wait)
        _log.info("%s: %d rows written, %d of them new", _name(run), rows, inserted)

    def abort(self, run: Run) -> None:
        """Record that the run has ended, and remove its staged rows."""

        def work(wait: Wait) -> None:
            with connect(self.options.url, writes=True, wait=wait) as connection:
                abort_run(connection, self.statements, run.run_id)

        with translating("aborting the run"):
            persist(work, min(self.options.max_wait, _LONGEST_ABORT))

    def staged(self, messages: Messages) -> Staged:
        """What the tasks have written, in the order of their partitions."""
        written = sorted((each for each in messages if isinstance(each, Written)), key=lambda each: each.partition)
        carried = [
            (self.task(each.run, each.partition), each.carried)
            for each in written
            if each.run is not None and each.carried is not None
        ]

        def frames(default_time: bytes | None) -> Iterator[Frame]:
            for task, rows in carried:
                yield from task.frames(rows, default_time)

        return Staged(
            [each.attempt for each in written if each.attempt is not None],
            **{name: sum(getattr(each, name) for each in written) for name in _COUNTS},
            id_sum=sum(each.id_sum for each in written) % LARGEST_SUM,
            stream_run=next((each.stream_run for each in written if each.stream_run is not None), None),
            carried=[task.attempt for task, _ in carried],
            frames=frames if carried else None,
        )


class BatchWriter(DataSourceArrowWriter):
    """Writes one ``save()``."""

    def __init__(self, options: WriteOptions, columns: Columns) -> None:
        """On the driver. Raises ConfigError and SchemaError for an error that every task would have."""
        self._write = _Write(options, columns, prepare(options))
        run_id = options.run_id or uuid4()
        self._run = Run(
            run_id=run_id,
            outbox=self._write.statements.outbox.quoted,
            job=options.job or str(run_id),
            mode=options.commit.value,
            driver=this_driver(),
            query_id=options.txn_app_id,
            epoch=options.txn_version,
            transaction=options.txn_app_id is not None,
        )
        self._repeated = begin_run(options, self._write.statements, self._run)
        if self._repeated is not None:
            _log.warning("%s was committed before: this write changes nothing", _name(self._run))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """On an executor: one partition.

        Reads no row for a run that was committed before, unless by the same micro-batch: there may be two save() in it.
        """
        if self._repeated is not None and self._repeated.stream_run is None:
            return Written()
        context = current_task()
        task = self._write.task(self._run, context.partitionId(), first=context.attemptNumber() == 0)
        within = stream_run(context) if self._run.transaction else None
        if self._repeated is None:
            written = task.write(iterator)
        else:
            written = task.count(iterator) if within == self._repeated.stream_run else Written()
        return replace(written, retries=context.attemptNumber(), stream_run=within)

    def commit(self, messages: Messages) -> None:
        """On the driver, after every partition was written."""
        staged = self._write.staged(messages)
        if self._repeated is None:
            self._write.commit(self._run, staged)
        elif staged.rows:
            check_rows(self._run, self._repeated, staged.rows, staged.id_sum, self._write.statements.runs)

    def abort(self, messages: Messages) -> None:  # noqa: ARG002 - Spark's signature
        """On the driver, after a partition failed. Rows that mode ``partition`` has written stay."""
        if self._repeated is None:
            self._write.abort(self._run)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes one micro-batch, exactly once by query id and epoch."""

    def __init__(self, options: WriteOptions, columns: Columns) -> None:
        """On the driver. Raises ConfigError and SchemaError for an error that every task would have."""
        if options.commit is Commit.PARTITION:
            raise ConfigError(
                "option commit: a stream needs commit=atomic; only a whole micro-batch can be written exactly once"
            )
        if options.run_id is not None:
            raise ConfigError("option runId: not for a stream; each micro-batch is a run of its own")
        if options.txn_app_id is not None:
            raise ConfigError(
                "option txnVersion: not for a stream, which counts its micro-batches; it is for foreachBatch"
            )
        self._write = _Write(options, columns, _prepare_once(options))
        self._run_id = uuid4()
        self._driver = this_driver()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """On an executor: one partition of the micro-batch."""
        context = current_task()
        task = self._write.task(self._run(context), context.partitionId())
        return replace(task.write(iterator), retries=context.attemptNumber())

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: ARG002, N803 - Spark's signature
        """On the driver, after every partition was written."""
        run = _run_of(messages)
        if run is not None:
            self._write.commit(run, self._write.staged(messages))

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: ARG002, N803 - Spark's signature
        """On the driver. A task may still be active, so the next commit of the query cleans up after all tries."""
        run = _run_of(messages)
        if run is not None:
            self._write.abort(run)

    def _run(self, context: TaskContext) -> Run:
        """The micro-batch's run. Raises ConfigError without a query id: the write would not be exactly once."""
        # Spark's own id is the checkpoint's; with the option's, two checkpoints would pass for one.
        options = self._write.options
        query_id = context.getLocalProperty(QUERY_ID) or options.query_id
        epoch = context.getLocalProperty(_EPOCH)
        if not query_id or epoch is None:
            raise ConfigError(
                "option txnAppId: missing, and Spark names no query in the tasks' properties; set one that stays the "
                "same over all starts of this stream"
            )
        return Run(
            run_id=self._run_id,
            outbox=self._write.statements.outbox.quoted,
            job=options.job or query_id,
            mode=options.commit.value,
            driver=self._driver,
            query_id=query_id,
            epoch=int(epoch),
            checkpoint=normal_location(options.checkpoint),
            moved_from=normal_location(options.moved_from),
        )


def _name(run: Run) -> str:
    if run.transaction:
        return f"txnVersion {run.epoch} of txnAppId {run.query_id}"
    return f"run {run.run_id}" if run.epoch is None else f"query {run.query_id}, epoch {run.epoch}"


def _run_of(messages: Messages) -> Run | None:
    """The run of a micro-batch; None for one without rows."""
    return next((message.run for message in messages if isinstance(message, Written) and message.run), None)


@cache
def _prepare_once(options: WriteOptions) -> SparkStatements:
    """Spark creates a stream's writer for every micro-batch, mostly in one process: one check is enough."""
    return prepare(options)
