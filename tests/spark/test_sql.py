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
    """Spark 4.1 refuses it by itself."""
    advice = "A table of the catalog cannot be one.* use CREATE TEMPORARY VIEW|not a valid Spark SQL Data Source"
    options = f"USING openoutbox OPTIONS (url '{outbox.url}')"

    def insert_into_a_table() -> None:
        spark.sql(f"CREATE TABLE outbox_table (event_type STRING, payload STRING) {options}")
        spark.sql("INSERT INTO outbox_table VALUES ('t', 'x')")

    with pytest.raises(PySparkException, match=advice):
        spark.sql(f"CREATE TABLE no_outbox {options}")
    try:
        with pytest.raises(PySparkException, match=advice):
            insert_into_a_table()
    finally:
        spark.sql("DROP TABLE IF EXISTS outbox_table")
    assert outbox.rows("event_id") == []
