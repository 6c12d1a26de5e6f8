"""One ``save()`` on ``local[2]``: what arrives in the table, and what is refused.

tests/spark/write/test_saves.py has more of it, without a JVM.
"""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime

import psycopg
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from relay.spark import OutboxDataSource, key_id
from tests.spark.ledger import runs, staging_tables
from tests.support.fixtures.outbox import Outbox
from tests.support.fixtures.spark import Save

BOTH = pytest.mark.parametrize("commit", ["atomic", "partition"])


def orders(spark: SparkSession, count: int = 1000, partitions: int = 3) -> DataFrame:
    """Orders with a business key ``number``."""
    return spark.range(0, count, 1, partitions).select(
        f.lit("orders.created").alias("event_type"),
        f.struct(f.col("id").alias("number"), f.concat(f.lit("customer "), f.col("id")).alias("customer")).alias(
            "payload"
        ),
        (f.col("id") % 7).cast("string").alias("partition_key"),
        f.create_map(f.lit("source"), f.lit("spark")).alias("headers"),
        f.col("id").alias("number"),
    )


@BOTH
def test_every_row_arrives_as_it_is(spark: SparkSession, outbox: Outbox, save: Save, commit: str) -> None:
    save(orders(spark), commit=commit, idColumns="number")
    rows = outbox.rows("event_id, event_type, partition_key, payload, headers, status, attempts, available_at <= now()")
    expected = {
        (
            key_id("", "orders.created", number),
            "orders.created",
            str(number % 7),
            json.dumps({"number": number, "customer": f"customer {number}"}, separators=(",", ":")).encode(),
        )
        for number in range(1000)
    }
    assert {row[:4] for row in rows} == expected
    assert len(rows) == 1000
    assert {(json.dumps(row[4]), *row[5:]) for row in rows} == {('{"source": "spark"}', "PENDING", 0, True)}
    assert runs(outbox) == [("committed", 1000, 1000)]
    assert staging_tables(outbox) == []


def test_every_column_of_an_event_is_written(spark: SparkSession, outbox: Outbox, save: Save) -> None:
    event_id = uuid.uuid4()
    binary_id = uuid.uuid4()
    due = datetime(2031, 2, 3, 4, 5, 6, 789012, tzinfo=UTC)
    columns = (
        "event_id string, event_type string, payload binary, partition_key string, headers string, "
        "available_at timestamp"
    )
    frame = spark.createDataFrame(
        [
            (str(event_id).upper(), "t.é", b"\x00\xff raw", None, '{"n": 12345678901234567890123}', due),
            (f"{{{binary_id}}}", "t", b"", "k", None, None),
        ],
        columns,
    )
    save(frame)
    first, second = outbox.row(str(event_id)), outbox.row(str(binary_id))
    assert (first["event_type"], first["payload"], first["partition_key"]) == ("t.é", b"\x00\xff raw", None)
    assert first["available_at"] == due
    assert outbox.rows("headers::text") != []
    assert sorted(outbox.rows("headers::text")) == [('{"n": 12345678901234567890123}',), ("{}",)]
    assert (second["payload"], second["partition_key"]) == (b"", "k")
    assert second["available_at"] == second["created_at"]


def test_it_can_be_registered_by_hand(spark: SparkSession, outbox: Outbox, save: Save) -> None:
    spark.dataSource.register(OutboxDataSource)
    save(orders(spark, 10), idColumns="number")
    assert len(outbox.rows("event_id")) == 10


def test_what_is_wrong_fails_on_the_driver_by_name(spark: SparkSession, outbox: Outbox, save: Save) -> None:
    with pytest.raises(PySparkException, match="column payload: missing"):
        save(spark.sql("SELECT 't' AS event_type"))
    with pytest.raises(PySparkException, match="can only be added"):
        orders(spark).write.format("openoutbox").mode("overwrite").option("url", outbox.url).save()
    assert outbox.rows("event_id") == []


def test_a_row_that_is_no_event_fails_the_job_by_the_columns_name(
    spark: SparkSession, outbox: Outbox, save: Save
) -> None:
    frame = spark.sql(
        "SELECT 't' AS event_type, 'x' AS payload, if(id = 50, '{', '{}') AS headers FROM range(0, 100, 1, 2)"
    )
    with pytest.raises(PySparkException, match=r"invalid input syntax for type json .*column headers"):
        save(frame)
    assert outbox.rows("event_id") == []
    assert staging_tables(outbox) == []
    assert [state for state, *_ in runs(outbox)] == ["aborted"]


def test_the_password_is_in_no_message(spark: SparkSession, outbox: Outbox) -> None:
    port = psycopg.conninfo.conninfo_to_dict(outbox.url)["port"]
    url = f"postgresql://postgres:s3cret@127.0.0.1:{port}/no_such_database"
    with pytest.raises(PySparkException) as caught:
        orders(spark).drop("number").write.format("openoutbox").mode("append").option("url", url).save()
    assert "no_such_database" in str(caught.value)
    assert "s3cret" not in str(caught.value)
