"""A ``save()`` that is repeated with its ``txnAppId`` and ``txnVersion``, or its ``runId``, without Spark."""

from __future__ import annotations

import logging
import uuid
from dataclasses import replace

import pyarrow as pa
import pytest

from relay.core.errors import ConfigError, StorageError
from relay.spark import run_summary
from relay.spark.connection import connect
from relay.spark.statements import SparkStatements
from relay.spark.write.columns import ColumnKind, Columns
from relay.spark.write.runs import abort_run
from relay.spark.write.tasks import Batches, Task
from relay.spark.write.write_options import Commit, WriteOptions, write_options
from relay.spark.write.writers import BatchWriter
from tests.spark import plain
from tests.spark.ledger import runs
from tests.support.fixtures.outbox import Outbox

COLUMNS = Columns(payload=0, payload_kind=ColumnKind.text)
BOTH = pytest.mark.parametrize("commit", Commit)


def rows(count: int) -> Batches:
    yield pa.RecordBatch.from_pydict({"payload": [str(number) for number in range(count)]})


def unread() -> Batches:
    def compute() -> pa.RecordBatch | None:
        raise AssertionError("the rows of a repeated run are computed")

    return iter(compute, None)


def save(options: WriteOptions, count: int) -> None:
    """One ``save()`` with one partition, as Spark calls its writer."""
    writer = BatchWriter(options, COLUMNS)
    statements = SparkStatements(options.table, options.staging_schema)
    writer.commit([Task(options, COLUMNS, statements, writer._run, 0, first=True).write(rows(count))])


def repeat(options: WriteOptions) -> None:
    """The same ``save()`` again."""
    writer = BatchWriter(options, COLUMNS)
    writer.commit([writer.write(unread())])


def version(outbox: Outbox, number: int, commit: Commit = Commit.ATOMIC) -> WriteOptions:
    return WriteOptions(outbox.url, event_type="t", commit=commit, txn_app_id="app", txn_version=number)


@BOTH
def test_a_committed_version_is_written_once_and_says_so(
    outbox: Outbox, commit: Commit, caplog: pytest.LogCaptureFixture
) -> None:
    save(version(outbox, 7, commit), 10)
    with caplog.at_level(logging.WARNING):
        repeat(version(outbox, 7, commit))
    assert caplog.messages == ["txnVersion 7 of txnAppId app was committed before: this write changes nothing"]
    assert len(outbox.rows("event_id")) == 10
    save(version(outbox, 8, commit), 5)
    assert len(outbox.rows("event_id")) == 15
    assert runs(outbox) == [("committed", 10, 10), ("committed", 5, 5)]


@BOTH
def test_a_version_that_was_not_committed_is_written_again(outbox: Outbox, commit: Commit) -> None:
    """Its driver died when the rows were staged, or, with ``partition``, visible: they have the same ids again."""
    options = version(outbox, 7, commit)
    writer = BatchWriter(options, COLUMNS)
    statements = SparkStatements(options.table, options.staging_schema)
    Task(options, COLUMNS, statements, writer._run, 0, first=True).write(rows(10))
    save(options, 10)
    assert len(outbox.rows("event_id")) == 10


@BOTH
def test_each_version_stands_for_itself(outbox: Outbox, commit: Commit) -> None:
    """A backfill may come in any order."""
    for number in (7, 5, 6):
        save(version(outbox, number, commit), 10)
    for number in (5, 6, 7):
        repeat(version(outbox, number, commit))
    assert len(outbox.rows("event_id")) == 30


def frame(count: int) -> pa.Table:
    return pa.table({"event_type": ["t"] * count, "payload": [f"of {count}" for _ in range(count)]})


@BOTH
def test_a_second_save_of_one_micro_batch_with_other_rows_is_refused(outbox: Outbox, commit: Commit) -> None:
    """The same rows again, or the version in a later run of the stream, change nothing."""
    stream = {"sql.streaming.queryId": "query", "spark.jobGroup.id": "run 1"}
    options = {"url": outbox.url, "commit": commit.value, "txnAppId": "query", "txnVersion": "7"}
    plain.save(frame(10), 2, properties=stream, **options)
    with pytest.raises(ConfigError, match=r"these 5 are others.* give each save"):
        plain.save(frame(5), 2, properties=stream, **options)
    plain.save(frame(10), 2, properties=stream, **options)
    plain.save(frame(5), 2, properties={**stream, "spark.jobGroup.id": "run 2"}, **options)
    plain.save(frame(5), 2, properties=stream, **{**options, "txnAppId": "query/others"})
    assert len(outbox.rows("event_id")) == 15


def test_old_versions_are_forgotten_but_the_last(outbox: Outbox) -> None:
    for number in (1, 2):
        save(version(outbox, number), 1)
    outbox.database.run("UPDATE openoutbox_spark.runs SET started_at = now() - interval '91 days'")
    save(WriteOptions(outbox.url, event_type="t"), 1)
    assert outbox.database.run("SELECT epoch FROM openoutbox_spark.runs ORDER BY epoch") == [(2,), (None,)]


def test_a_committed_run_id_is_written_once_and_an_aborted_one_is_refused(
    outbox: Outbox, caplog: pytest.LogCaptureFixture
) -> None:
    options = WriteOptions(outbox.url, event_type="t", run_id=uuid.uuid4())
    save(options, 10)
    repeat(options)
    assert caplog.messages == [f"run {options.run_id} was committed before: this write changes nothing"]
    assert len(outbox.rows("event_id")) == 10
    aborted = WriteOptions(outbox.url, event_type="t", run_id=uuid.uuid4())
    writer = BatchWriter(aborted, COLUMNS)
    with connect(outbox.url) as connection:
        abort_run(connection, SparkStatements(aborted.table, aborted.staging_schema), writer._run.run_id)
    with pytest.raises(StorageError, match="was aborted; take a new id"):
        BatchWriter(aborted, COLUMNS)


@pytest.mark.parametrize("options", [{"txnVersion": "1"}, {"txnAppId": "a", "txnVersion": "-1"}, {"txnAppId": ""}])
def test_a_version_is_a_name_and_a_number(options: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="txn"):
        write_options({"url": "postgresql://u@h/d", **options})


@BOTH
def test_the_ledger_sums_up_a_run(outbox: Outbox, commit: Commit) -> None:
    options = WriteOptions(outbox.url, event_type="t", commit=commit, job="nightly", run_id=uuid.uuid4())
    save(WriteOptions(outbox.url, event_type="t", commit=commit, job="nightly"), 10)
    writer = BatchWriter(options, COLUMNS)
    assert run_summary(outbox.url, str(options.run_id)).state == "writing"
    statements = SparkStatements(options.table, options.staging_schema)
    written = Task(options, COLUMNS, statements, writer._run, 0, first=True).write(rows(25))
    writer.commit([replace(written, retries=2)])
    summary = run_summary(outbox.url, str(options.run_id))
    assert (summary.state, summary.rows, summary.new, summary.skipped) == ("committed", 25, 15, 10)
    assert summary.retries == 2
    assert 25 * 40 < summary.bytes < 25 * 100
    assert summary.seconds > 0
    with pytest.raises(StorageError, match="the ledger has no run"):
        run_summary(outbox.url, uuid.uuid4())
