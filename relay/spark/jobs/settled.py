"""Settled rows of the table, DELIVERED or DEAD, by the data source ``openoutbox``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from relay.postgres.sql import TableName


def settled_rows(
    spark: SparkSession,
    url: str,
    table: TableName,
    names: Sequence[str],
    statuses: Sequence[str],
    since: datetime | None,
    until: datetime,
) -> DataFrame:
    """Columns of the rows that were delivered, or died, at ``since`` or after it and before ``until``.

    Each status is read by a scan of its own, with a condition that the database has an index for. Each scan needs a
    ``load()`` of its own: Spark keeps the conditions that it pushed last, for all scans of one ``load()``.
    """
    scans = []
    for status in statuses:
        reader = spark.read.format("openoutbox").options(url=url, table=str(table), pushdown="true")
        rows = reader.option("columns", ",".join(names)).load().select(*names).where(f.col("status") == status)
        scans.append(within(rows, f.col("delivered_at" if status == "DELIVERED" else "updated_at"), since, until))
    return reduce(DataFrame.unionAll, scans)


def settled_at() -> Column:
    """When a row was delivered or died."""
    return f.coalesce(f.col("delivered_at"), f.col("updated_at"))


def within(rows: DataFrame, time: Column, since: datetime | None, until: datetime | None) -> DataFrame:
    """The rows whose time is ``since`` or after it, and before ``until``; None is no bound."""
    rows = rows if since is None else rows.where(time >= f.lit(since))
    return rows if until is None else rows.where(time < f.lit(until))
