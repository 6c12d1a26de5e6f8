"""The outbox in Spark SQL: a temporary view of the format, into which INSERT INTO writes."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.support.fixtures.outbox import Outbox


def test_a_temporary_view_is_read_and_written(spark: SparkSession, outbox: Outbox) -> None:
    options = f"OPTIONS (url '{outbox.url}', eventType 'orders.created')"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW orders (payload VARCHAR(20)) USING openoutbox {options}")
    spark.sql("INSERT INTO orders VALUES ('one'), ('two')")
    assert sorted(outbox.rows("event_type, payload")) == [("orders.created", b"one"), ("orders.created", b"two")]
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW outbox USING openoutbox OPTIONS (url '{outbox.url}')")
    assert spark.sql("SELECT count(*) FROM outbox WHERE event_type = 'orders.created'").collect()[0][0] == 2


def test_a_table_of_the_catalog_is_refused_with_what_to_do(spark: SparkSession, outbox: Outbox) -> None:
    advice = "A table of the catalog cannot be one.* use CREATE TEMPORARY VIEW"
    options = f"USING openoutbox OPTIONS (url '{outbox.url}')"
    with pytest.raises(PySparkException, match=advice):
        spark.sql(f"CREATE TABLE no_outbox {options}")
    spark.sql(f"CREATE TABLE outbox_table (event_type STRING, payload STRING) {options}")
    try:
        with pytest.raises(PySparkException, match=advice):
            spark.sql("INSERT INTO outbox_table VALUES ('t', 'x')")
    finally:
        spark.sql("DROP TABLE outbox_table")
    assert outbox.rows("event_id") == []
