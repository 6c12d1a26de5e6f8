"""What a stream's writer refuses, and under which name its ids lie."""

from __future__ import annotations

from typing import cast
from uuid import uuid4

import pytest
from pyspark import TaskContext

from relay.core.errors import ConfigError
from relay.spark.statements import DEFAULT_SCHEMA, SparkStatements
from relay.spark.write import writers
from relay.spark.write.columns import ColumnKind, Columns
from relay.spark.write.epochs import Run
from relay.spark.write.tasks import job_of, partition_space
from relay.spark.write.write_options import Commit, WriteOptions
from relay.spark.write.writers import StreamWriter

COLUMNS = Columns(payload=0, payload_kind=ColumnKind.text)


class Properties:
    """A task's properties, as Spark or one of its forks might set them."""

    def __init__(self, **known: str) -> None:
        self.known = known

    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802 - Spark's name
        return self.known.get(name)


@pytest.fixture(autouse=True)
def no_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "_prepare_once", lambda options: SparkStatements(options.table, DEFAULT_SCHEMA))


def run_of(options: WriteOptions, **known: str) -> Run:
    return StreamWriter(options, COLUMNS)._run(cast("TaskContext", Properties(**known)))


EPOCH = {"streaming.sql.batchId": "7"}


def test_the_query_id_is_sparks_and_the_options_only_where_spark_has_none() -> None:
    named = {**EPOCH, "sql.streaming.queryId": "spark's"}
    assert run_of(WriteOptions("postgresql://"), **named).query_id == "spark's"
    assert run_of(WriteOptions("postgresql://", query_id="option's"), **named).query_id == "spark's"
    run = run_of(WriteOptions("postgresql://", query_id="option's"), **EPOCH)
    assert (run.query_id, run.epoch) == ("option's", 7)


def test_without_a_query_id_or_an_epoch_nothing_is_written() -> None:
    with pytest.raises(ConfigError, match="option txnAppId"):
        run_of(WriteOptions("postgresql://"), **EPOCH)
    with pytest.raises(ConfigError, match="option txnAppId"):
        run_of(WriteOptions("postgresql://", query_id="option's"))


def test_what_a_stream_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="option commit"):
        StreamWriter(WriteOptions("postgresql://", commit=Commit.PARTITION), COLUMNS)
    with pytest.raises(ConfigError, match="option runId"):
        StreamWriter(WriteOptions("postgresql://", run_id=uuid4()), COLUMNS)


def test_ids_of_content_lie_in_the_run_unless_the_job_has_a_name() -> None:
    first, second = (Run(uuid4(), "t", "", "atomic", "d") for _ in range(2))
    plain, named = WriteOptions("postgresql://"), WriteOptions("postgresql://", job="nightly")
    assert job_of(plain, first) != job_of(plain, second)
    assert job_of(named, first) == job_of(named, second) == "nightly"
    assert partition_space("nightly", first, 1) == partition_space("nightly", second, 1)
    assert partition_space("nightly", first, 1) != partition_space("nightly", first, 2)


def test_ids_of_a_micro_batch_are_its_own_and_those_of_its_replay() -> None:
    options = WriteOptions("postgresql://", job="nightly")
    tries = [Run(uuid4(), "t", "", "atomic", "d", "query", 7) for _ in range(2)]
    later = Run(uuid4(), "t", "", "atomic", "d", "query", 8)
    spaces = [partition_space(job_of(options, run), run, 0) for run in (*tries, later)]
    assert spaces[0] == spaces[1] != spaces[2]


def test_ids_of_a_business_key_need_no_jobs_name() -> None:
    run = Run(uuid4(), "t", "", "atomic", "d")
    assert job_of(WriteOptions("postgresql://", id_columns=("a",)), run) == ""
