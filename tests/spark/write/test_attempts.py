"""Attempts at one partition, without Spark: killed, repeated, side by side. The rows are in the outbox once.

tests/spark/test_cluster.py has Spark make such attempts; here the database's part stands alone.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pytest

from relay.postgres.sql import TableName
from relay.spark.connection import connect
from relay.spark.setup import create_ledger
from relay.spark.statements import SparkStatements
from relay.spark.write.columns import ColumnKind, Columns
from relay.spark.write.epochs import Run
from relay.spark.write.liveness import this_driver
from relay.spark.write.runs import commit_run, open_run
from relay.spark.write.staging import Staged
from relay.spark.write.tasks import Batches, Task, Written
from relay.spark.write.write_options import Commit, WriteOptions
from tests.spark.ledger import staging_tables
from tests.support.fixtures.outbox import Outbox
from tests.support.waiting import wait_until

pytestmark = pytest.mark.process
BOTH = pytest.mark.parametrize("commit", Commit)
ROWS = 300


def batches() -> Batches:
    """The partition's rows, in three batches."""
    for start in range(0, ROWS, 100):
        yield pa.RecordBatch.from_pydict({"payload": [body(number) for number in range(start, start + 100)]})


def body(number: int) -> str:
    """One that is large enough for the rows to be staged, and not carried to the driver."""
    return f"body {number}".ljust(1000)


@dataclass(frozen=True)
class Partition:
    """A run with one partition; travels to a process that writes it."""

    options: WriteOptions
    run: Run

    @property
    def statements(self) -> SparkStatements:
        return SparkStatements(self.options.table, self.options.staging_schema)

    def write(self, rows: Batches, *, first: bool) -> Written:
        """One attempt."""
        columns = Columns(payload=0, payload_kind=ColumnKind.text)
        return Task(self.options, columns, self.statements, self.run, 0, first).write(rows)

    def write_and_die(self) -> None:
        """An attempt whose process is killed when the first batch has gone to the server."""
        self.write(dying(), first=True)

    def commit(self, written: Written) -> tuple[int, int]:
        """Commit the run with this attempt alone."""
        attempts = [] if written.attempt is None else [written.attempt]
        return commit_run(self.options.url, self.statements, self.run, Staged(attempts, written.rows, written.inserted))


def dying() -> Batches:
    yield next(batches())
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture
def partition(outbox: Outbox, commit: Commit) -> Partition:
    options = WriteOptions(outbox.url, event_type="t", commit=commit, batch_rows=100)
    run = Run(uuid.uuid4(), TableName().quoted, "", commit.value, this_driver())
    partition = Partition(options, run)
    with connect(outbox.url) as connection:
        create_ledger(connection, partition.statements)
        open_run(connection, partition.statements, run)
    return partition


def each_row_once(outbox: Outbox) -> bool:
    """Whether the outbox has exactly the partition's rows, and no staging table is left."""
    bodies = sorted(bytes(body) for (body,) in outbox.rows("payload"))
    return bodies == sorted(body(number).encode() for number in range(ROWS)) and staging_tables(outbox) == []


@BOTH
def test_an_attempt_that_is_killed_leaves_nothing_to_the_next(outbox: Outbox, partition: Partition) -> None:
    process = multiprocessing.get_context("spawn").Process(target=partition.write_and_die)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert outbox.rows("event_id") == []
    assert partition.commit(partition.write(batches(), first=False)) == (ROWS, ROWS)
    assert each_row_once(outbox)


@BOTH
def test_an_attempt_after_one_whose_reply_was_lost_adds_nothing(
    outbox: Outbox, partition: Partition, commit: Commit
) -> None:
    partition.write(batches(), first=True)
    again = partition.write(batches(), first=False)
    assert partition.commit(again) == (ROWS, ROWS if commit is Commit.ATOMIC else 0)
    assert each_row_once(outbox)


@BOTH
def test_a_repeated_task_keeps_the_order_of_its_rows(outbox: Outbox, partition: Partition) -> None:
    partition.commit(partition.write(batches(), first=False))
    bodies = outbox.database.run("SELECT convert_from(payload, 'UTF8') FROM openoutbox_events ORDER BY ctid")
    assert bodies == [(body(number),) for number in range(ROWS)]


@pytest.mark.parametrize("commit", [Commit.PARTITION])
def test_an_attempt_beside_one_that_still_writes_waits_and_adds_nothing(outbox: Outbox, partition: Partition) -> None:
    """In mode ``atomic`` each attempt has rows of its own, so there they do not meet."""

    def slow() -> Batches:
        rows = batches()
        yield next(rows)
        other = pool.submit(partition.write, batches(), first=False)
        others.append(other)
        wait_until(lambda: other.done() or waiting(outbox), what="the other attempt to wait for this one")
        assert not other.done()
        yield from rows

    others: list[Future[Written]] = []
    with ThreadPoolExecutor(1) as pool:
        slower = partition.write(slow(), first=True)
        (other,) = (future.result() for future in others)
    assert (slower.inserted, other.inserted) == (ROWS, 0)
    assert partition.commit(slower) == (ROWS, ROWS)
    assert each_row_once(outbox)


def waiting(outbox: Outbox) -> bool:
    """Whether a connection of the outbox waits for another transaction."""
    ((count,),) = outbox.database.run(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'transactionid'"
    )
    return bool(count)
