"""The two writers that Spark calls: of a batch, and of a stream's micro-batches.

Both are created on the driver, pickled, and unpickled on executors (``write``) and in another process beside the driver
(``commit``, ``abort``). So their constructors set all attributes, and the tasks' messages carry the tasks' results. A
stream's writer is created for each micro-batch, and once more for its commit.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
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
from relay.spark.write.epochs import Run, normal_location
from relay.spark.write.liveness import this_driver
from relay.spark.write.options import Commit, WriteOptions
from relay.spark.write.runs import (
    Staged,
    abort_run,
    begin_run,
    commit_run,
    prepare,
)
from relay.spark.write.tasks import Task, Written, current_task

_log = logging.getLogger(__name__)

_QUERY_ID: Final = "sql.streaming.queryId"
_EPOCH: Final = "streaming.sql.batchId"

_LONGEST_ABORT: Final = 60.0
"""Seconds that aborting waits for the database: the job has failed already, mostly because of the database."""

Messages = Sequence[WriterCommitMessage | None]


class BatchWriter(DataSourceArrowWriter):
    """Writes one ``save()``."""

    def __init__(self, options: WriteOptions, columns: Columns) -> None:
        """On the driver. Raises ConfigError and SchemaError for an error that every task would have."""
        self._options = options
        self._columns = columns
        self._statements = SparkStatements(options.table, options.staging_schema)
        prepare(options, self._statements)
        run_id = options.run_id or uuid4()
        job = options.job or str(run_id)
        self._run = Run(
            run_id=run_id,
            outbox=options.table.quoted,
            job=job,
            mode=options.commit.value,
            driver=this_driver(),
            query_id=options.txn_app_id,
            epoch=options.txn_version,
            transaction=options.txn_app_id is not None,
        )
        self._repeated = not begin_run(options, self._statements, self._run)
        if self._repeated:
            _log.warning("%s was committed before: this write changes nothing", _name(self._run))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """On an executor: one partition. Reads no row for a run that was committed before."""
        if self._repeated:
            return Written()
        context = current_task()
        first = context.attemptNumber() == 0
        task = Task(self._options, self._columns, self._statements, self._run, context.partitionId(), first)
        return replace(task.write(iterator), retries=context.attemptNumber())

    def commit(self, messages: Messages) -> None:
        """On the driver, after every partition was written."""
        if self._repeated:
            return
        staged = _staged(messages)
        rows, inserted = commit_run(self._options.url, self._statements, self._run, staged, self._options.max_wait)
        _log.info("run %s: %d rows written, %d of them new", self._run.run_id, rows, inserted)

    def abort(self, messages: Messages) -> None:  # noqa: ARG002 - Spark's signature
        """On the driver, after a partition failed. Rows that mode ``partition`` has written stay."""
        if self._repeated:
            return
        _abort(self._options, self._statements, self._run)


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
            raise ConfigError("option txnAppId: not for a stream, which has its query's id; it is for foreachBatch")
        self._options = options
        self._columns = columns
        self._statements = SparkStatements(options.table, options.staging_schema)
        self._run_id = uuid4()
        self._driver = this_driver()
        _prepare_once(options, self._statements)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """On an executor: one partition of the micro-batch."""
        context = current_task()
        run = self._run(context)
        batch = next((batch for batch in iterator if batch.num_rows), None)
        if batch is None:
            return Written()
        task = Task(self._options, self._columns, self._statements, run, context.partitionId(), first=True)
        return replace(task.write(_with(batch, iterator)), retries=context.attemptNumber())

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803 - Spark's names
        """On the driver, after every partition was written."""
        run = next((message.run for message in messages if isinstance(message, Written) and message.run), None)
        if run is None:
            return
        rows, inserted = commit_run(self._options.url, self._statements, run, _staged(messages), self._options.max_wait)
        _log.info("query %s, epoch %d: %d rows written, %d of them new", run.query_id, batchId, rows, inserted)

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: ARG002, N803 - Spark's signature
        """On the driver. A task may still be active, so the next commit of the query cleans up after all tries."""
        run = next((message.run for message in messages if isinstance(message, Written) and message.run), None)
        if run is not None:
            _abort(self._options, self._statements, run)

    def _run(self, context: TaskContext) -> Run:
        """The micro-batch's run. Raises ConfigError without a query id: the write would not be exactly once."""
        # Spark's own id is the checkpoint's; with the option's, two checkpoints would pass for one.
        query_id = context.getLocalProperty(_QUERY_ID) or self._options.query_id
        epoch = context.getLocalProperty(_EPOCH)
        if not query_id or epoch is None:
            raise ConfigError(
                "option queryId: missing, and Spark names no query in the tasks' properties; set one that stays the "
                "same over all starts of this stream"
            )
        job = self._options.job or query_id
        mode = self._options.commit.value
        return Run(
            run_id=self._run_id,
            outbox=self._options.table.quoted,
            job=job,
            mode=mode,
            driver=self._driver,
            query_id=query_id,
            epoch=int(epoch),
            checkpoint=normal_location(self._options.checkpoint),
            moved_from=normal_location(self._options.moved_from),
        )


def _abort(options: WriteOptions, statements: SparkStatements, run: Run) -> None:
    def work(wait: Wait) -> None:
        with connect(options.url, writes=True, wait=wait) as connection:
            abort_run(connection, statements, run.run_id)

    with translating("aborting the run"):
        persist(work, min(options.max_wait, _LONGEST_ABORT))


def _name(run: Run) -> str:
    return f"txnVersion {run.epoch} of txnAppId {run.query_id}" if run.transaction else f"run {run.run_id}"


def _with(batch: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield batch
    yield from rest


def _staged(messages: Messages) -> Staged:
    written = [message for message in messages if isinstance(message, Written) and message.run is not None]
    attempts = [message.attempt for message in written if message.attempt is not None]
    return Staged(
        attempts,
        rows=sum(message.rows for message in written),
        inserted=sum(message.inserted for message in written),
        bytes=sum(message.bytes for message in written),
        retries=sum(message.retries for message in written),
    )


@cache
def _prepare_once(options: WriteOptions, statements: SparkStatements) -> None:
    """Spark creates a stream's writer for every micro-batch, mostly in one process: one check is enough."""
    prepare(options, statements)
