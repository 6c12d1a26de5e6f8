"""What Spark does to a task more than once is in the outbox once, and a write that fails leaves nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from tests.spark.faults import FaultySource
from tests.spark.ledger import runs, staging_tables
from tests.spark.write.test_batch import orders
from tests.spark.write.test_runs import DEAD, Staging
from tests.support.fixtures.outbox import Outbox
from tests.support.fixtures.spark import Save


@pytest.fixture
def small_batches(spark: SparkSession) -> Iterator[None]:
    """Partitions of a few thousand rows come in several Arrow batches."""
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(name)
    spark.conf.set(name, "1000")
    yield
    spark.conf.set(name, str(before))


@pytest.mark.parametrize(("commit", "fault"), [("atomic", "raise-within"), ("partition", "raise-after")])
def test_a_task_that_is_repeated_writes_its_rows_once(
    small_batches: None, spark: SparkSession, outbox: Outbox, save: Save, tmp_path: Path, commit: str, fault: str
) -> None:
    """test_attempts.py has the other pairs, and more, without Spark."""
    spark.dataSource.register(FaultySource)
    frame = orders(spark, 3000, 2).drop("number").withColumn("payload", f.lit("the same in every row"))
    save(frame, format="openoutbox_faulty", fault=fault, marks=tmp_path, commit=commit, batchsize=1000)
    assert (tmp_path / "raised").exists()
    assert len(outbox.rows("event_id")) == 3000
    assert staging_tables(outbox) == []
    ((state, written, inserted),) = runs(outbox)
    assert (state, written) == ("committed", 3000)
    assert inserted == (1500 if commit == "partition" else 3000)


def test_nothing_is_visible_before_everything_is_in(spark: SparkSession, outbox: Outbox, save: Save) -> None:
    frame = spark.sql(
        "SELECT 't' AS event_type, if(id = 99, raise_error('bad source'), 'x') AS payload FROM range(100)"
    )
    with pytest.raises(PySparkException, match="bad source"):
        save(frame)
    assert outbox.rows("event_id") == []
    assert staging_tables(outbox) == []
    assert runs(outbox) == [("aborted", None, None)]


def test_the_next_save_cleans_up(spark: SparkSession, outbox: Outbox, save: Save) -> None:
    Staging(outbox, DEAD).stage(1, 10)
    save(orders(spark, 10), idColumns="number")
    assert staging_tables(outbox) == []
    assert len(outbox.rows("event_id")) == 10
