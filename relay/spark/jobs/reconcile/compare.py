"""The comparison of rows with arrived messages, by DataFrames only.

``match`` joins the two sides' fingerprints to one row for each event; ``findings`` names the differences. The executors
join; no row comes to the driver.

- **missing**: DELIVERED, and no message was read. PENDING, DELIVERING and DEAD rows need no message.
- **duplicated**: more copies than one, and than one for each ``replay_id`` of its replays.
- **changed**: a copy whose body, key, headers or topic is not the row's.
- **out_of_order**: its first copy, by offset in a partition, follows that of a later event of its key.
- **unexpected**: a message whose id no row has, or that has no event id.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

COMPARED: Final = ("payload", "key", "headers", "topic")


def match(rows: DataFrame, messages: DataFrame, compared: Collection[str]) -> DataFrame:
    """One row for each event id of either side; ``compared`` names the fields that the messages have.

    ``known`` says whether the outbox has it, ``copies`` how often it arrived; ``first`` and ``changed_at`` are places.
    """
    arrived = messages.where("event_id IS NOT NULL").withColumnsRenamed(
        {name: f"m_{name}" for name in messages.columns if name != "event_id"}
    )
    arrived = arrived.withColumn("arrived", f.lit(True))
    joined = rows.withColumn("known", f.lit(True)).join(arrived, "event_id", "full_outer")
    both = f.col("known") & f.col("arrived")
    parts = [f.when(both & _differs(name), f.lit(name)) for name in COMPARED if name in compared]
    differing = f.array_compact(f.array(*parts)) if parts else f.array().cast("array<string>")
    place = f.struct(f.col("m_offset").alias("offset"), f.col("m_partition").alias("partition"), "m_topic", "m_time")
    right = f.col("arrived") & (
        f.col("m_topic").isNull() | f.col("topic").isNull() | f.col("m_topic").eqNullSafe(f.col("topic"))
    )
    each = joined.withColumn("differing", differing).withColumn("arrival", f.when(f.col("arrived"), place))
    carried = ("topic", "status", "key", "created_at", "delivered_at", "place")
    return each.groupBy("event_id").agg(
        *(f.first(name).alias(name) for name in carried),
        f.coalesce(f.first("known"), f.lit(False)).alias("known"),
        f.count("arrived").alias("copies"),
        f.size(f.collect_set(f.when(f.col("arrived"), f.col("m_replay_id")))).alias("sendings"),
        f.min("arrival").alias("anywhere"),
        f.min(f.when(right, f.col("arrival"))).alias("first"),
        f.array_sort(f.array_distinct(f.flatten(f.collect_set("differing")))).alias("changed"),
        f.min(f.when(f.size("differing") > 0, f.col("arrival"))).alias("changed_at"),
    )


def findings(matched: DataFrame, messages: DataFrame, *, ordered: bool, unknown: DataFrame) -> DataFrame:
    """The findings, one row for each event and kind.

    ``ordered`` says whether offsets show the order. ``unknown`` are the matched events that are to be reported as
    unexpected; messages without an id are reported with them.
    """
    parts = [
        _finding(matched.where("known AND status = 'DELIVERED' AND copies = 0"), "missing", "", "first"),
        _finding(matched.where("known AND copies > sendings"), "duplicated", "", "first"),
        _finding(matched.where("size(changed) > 0"), "changed", f.array_join("changed", ","), "changed_at"),
    ]
    if ordered:
        parts.append(_finding(_overtaken(matched), "out_of_order", f.col("detail"), "first"))
    parts.append(_finding(unknown, "unexpected", "no row of the outbox has this id", "anywhere"))
    parts.append(_without_id(messages))
    return reduce(DataFrame.unionByName, parts)


def without_row(unknown: DataFrame, later_rows: DataFrame) -> DataFrame:
    """Those of the unknown events that have no row among ``later_rows`` either, which were read after the messages."""
    return unknown.join(later_rows.select(f.lower("event_id").alias("event_id")), "event_id", "left_anti")


def _differs(name: str) -> Column:
    column = f"{name}_sum" if name in ("payload", "headers") else name
    return ~f.col(column).eqNullSafe(f.col(f"m_{column}"))


def _overtaken(matched: DataFrame) -> DataFrame:
    """Events of a key that arrived after one that was inserted later."""
    keyed = matched.where("known AND key IS NOT NULL AND first IS NOT NULL")
    before = (
        Window.partitionBy("topic", f.col("first.partition"), "key")
        .orderBy(f.col("first.offset"))
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    newest = f.max(f.struct("place", f.col("first.offset").alias("offset"), "event_id")).over(before)
    late = keyed.withColumn("newest", newest).where("place < newest.place")
    return late.withColumn("detail", f.concat(f.lit("after "), "newest.event_id")).drop("newest")


def _finding(events: DataFrame, kind: str, detail: Column | str, where: str) -> DataFrame:
    return events.select(
        f.lit(kind).alias("kind"),
        f.coalesce("topic", f.col(f"{where}.m_topic")).alias("topic"),
        "event_id",
        _readable(f.col("key")).alias("partition_key"),
        (f.lit(detail) if isinstance(detail, str) else detail).alias("detail"),
        "copies",
        f.col(f"{where}.partition").alias("partition"),
        f.col(f"{where}.offset").alias("offset"),
        "created_at",
        "delivered_at",
        f.col(f"{where}.m_time").alias("arrived_at"),
    )


def _without_id(messages: DataFrame) -> DataFrame:
    return messages.where("event_id IS NULL").select(
        f.lit("unexpected").alias("kind"),
        "topic",
        "event_id",
        _readable(f.col("key")).alias("partition_key"),
        f.lit("no event id").alias("detail"),
        f.lit(1).cast("long").alias("copies"),
        "partition",
        "offset",
        f.lit(None).cast("timestamp").alias("created_at"),
        f.lit(None).cast("timestamp").alias("delivered_at"),
        f.col("time").alias("arrived_at"),
    )


def _readable(key: Column) -> Column:
    return f.make_valid_utf8(key.cast("string"))
