"""Counts and latencies of matched events (``compare``): by topic and hour, and in total.

Latency is from ``created_at`` to ``delivered_at``, both the database's clock.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from relay.spark.jobs.measures import hour, latencies, seconds_between
from relay.spark.jobs.reconcile.arguments import KINDS


def totals(matched: DataFrame) -> dict[str, int]:
    """Counts over all matched events, and latencies."""
    sums = matched.agg(
        *_events("rows"),
        f.count_if(f.col("known") & (f.col("copies") > 0) & (f.col("status") == "DEAD")).alias("dead_arrived"),
        f.coalesce(f.sum("copies"), f.lit(0)).alias("copies"),
        *latencies(_latency()),
    )
    return dict(sums.collect()[0].asDict())


def by_topic(matched: DataFrame, findings: DataFrame) -> DataFrame:
    """A row for each topic: events by status, copies, findings by kind, latency."""
    kinds: list[Any] = [kind for kind in KINDS if kind != "missing"]  # ``_events`` counts it
    counted = findings.groupBy("topic").pivot("kind", kinds).count()
    own = f.coalesce("topic", f.col("anywhere.m_topic"))
    return (
        matched.withColumn("topic", own)
        .groupBy("topic")
        .agg(*_events(), f.sum("copies").alias("copies"), *latencies(_latency()))
        .join(counted, "topic", "full_outer")
        .na.fill(0, ["events", "delivered", "waiting", "dead", "arrived", "missing", "copies", *kinds])
    )


def by_hour(matched: DataFrame) -> DataFrame:
    """A row for each topic and hour of ``created_at``: events by status, those that arrived, latency."""
    return (
        matched.where("known")
        .groupBy("topic", hour("created_at").alias("hour"))
        .agg(*_events(), *latencies(_latency()))
    )


def _latency() -> Column:
    return seconds_between("created_at", "delivered_at")


def _events(name: str = "events") -> list[Column]:
    known = f.col("known")
    status = f.col("status")
    return [
        f.count_if(known).alias(name),
        f.count_if(known & (status == "DELIVERED")).alias("delivered"),
        f.count_if(known & status.isin("PENDING", "DELIVERING")).alias("waiting"),
        f.count_if(known & (status == "DEAD")).alias("dead"),
        f.count_if(known & (f.col("copies") > 0)).alias("arrived"),
        f.count_if(known & (status == "DELIVERED") & (f.col("copies") == 0)).alias("missing"),
    ]
