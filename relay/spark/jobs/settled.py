"""Settled rows of the table, DELIVERED or DEAD, by the data source ``openoutbox``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from relay.postgres.sql import TableName


@dataclass(frozen=True, slots=True)
class SettledTable:
    """An outbox, for reading."""

    url: str = field(repr=False)
    table: TableName = field(default_factory=TableName)


def settled_rows(
    spark: SparkSession,
    outbox: SettledTable,
    names: Sequence[str],
    statuses: Sequence[str],
    since: datetime | None,
    until: datetime,
) -> DataFrame:
    """Columns of the rows that were delivered, or died, at ``since`` or after it and before ``until``.

    Each status is read by a scan of its own, with a condition that the database has an index for. Each scan needs a
    ``load()`` of its own: Spark keeps the conditions that it pushed last, for all scans of one ``load()``.
    """
    first, *others = (_settled(spark, outbox, names, status, since, until) for status in statuses)
    for other in others:
        first = first.unionAll(other)
    return first


def settled_at() -> Column:
    """When a row was delivered or died."""
    return f.coalesce(f.col("delivered_at"), f.col("updated_at"))


def in_time(since: datetime | None, until: datetime) -> Column:
    """Whether a row was delivered, or died, between the two."""
    return _between(settled_at(), since, until)


def _settled(
    spark: SparkSession,
    outbox: SettledTable,
    names: Sequence[str],
    status: str,
    since: datetime | None,
    until: datetime,
) -> DataFrame:
    reader = (
        spark.read.format("openoutbox")
        .option("url", outbox.url)
        .option("table", str(outbox.table))
        .option("pushdown", "true")
    )
    rows = reader.option("columns", ",".join(names)).load().select(*names)
    time = f.col("delivered_at" if status == "DELIVERED" else "updated_at")
    return rows.where((f.col("status") == status) & _between(time, since, until))


def _between(time: Column, since: datetime | None, until: datetime) -> Column:
    before = time < f.lit(until)
    return before if since is None else before & (time >= f.lit(since))
