"""Outcomes of deliveries, from the delivery log or from an archive, and their counts. Pure functions of DataFrames.

Both sources get one form: a row for each outcome with its event ``type``, its ``time``, the numbers ``delivered``,
``failed``, ``retries`` and ``dead`` that it stands for, the ``latency`` of a delivery in seconds, and the ``code`` of a
failure.

- The log has a row for each attempt. A retry is an attempt with a number above 1. An event whose failure is not
  retried counts as dead; one that used up its attempts does not, since the log does not have their limit.
- An archive has a row for each event. Its failed attempts are ``attempts``, all counted at the time at which the event
  was delivered or died; attempts beyond the first are retries. Only the last failure of an event has a code.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from relay.spark.jobs.measures import hour, latencies, seconds_between
from relay.spark.jobs.settled import settled_at

COUNTS: Final = ("delivered", "failed", "retries", "dead")
LOG_COLUMNS: Final = ("topic", "status", "time", "attempt_number", "event_time", "eligible_for_retry", "code")


def from_log(attempts: DataFrame) -> DataFrame:
    """Outcomes of the delivery log's attempts."""
    success = f.col("status") == "success"
    return attempts.select(
        f.col("topic").alias("type"),
        "time",
        success.cast("long").alias("delivered"),
        (~success).cast("long").alias("failed"),
        (f.col("attempt_number") > 1).cast("long").alias("retries"),
        (~success & ~f.col("eligible_for_retry")).cast("long").alias("dead"),
        f.when(success, seconds_between("event_time", "time")).alias("latency"),
        f.when(~success, f.col("code")).alias("code"),
    )


def from_archive(rows: DataFrame) -> DataFrame:
    """Outcomes of archived events."""
    delivered = f.col("status") == "DELIVERED"
    attempts = f.col("attempts").cast("long")
    return rows.select(
        f.col("event_type").alias("type"),
        settled_at().alias("time"),
        delivered.cast("long").alias("delivered"),
        attempts.alias("failed"),
        f.when(delivered, attempts).otherwise(f.greatest(attempts - 1, f.lit(0))).alias("retries"),
        (~delivered).cast("long").alias("dead"),
        f.when(delivered, seconds_between("created_at", "delivered_at")).alias("latency"),
        f.when(attempts > 0, f.regexp_extract(f.coalesce("last_error", f.lit("")), r"^(\w{1,60})(?::|$)", 1)).alias(
            "code"
        ),
    )


def by_type(outcomes: DataFrame) -> DataFrame:
    """A row for each event type."""
    return outcomes.groupBy("type").agg(*_measures())


def by_type_and_hour(outcomes: DataFrame) -> DataFrame:
    """A row for each event type and hour."""
    return outcomes.groupBy("type", hour("time").alias("hour")).agg(*_measures())


def failures(outcomes: DataFrame) -> DataFrame:
    """A row for each code of a failure, with the number of its outcomes."""
    named = outcomes.where("failed > 0").select(f.coalesce(f.nullif("code", f.lit("")), f.lit("none")).alias("code"))
    return named.groupBy("code").count()


def totals(outcomes: DataFrame) -> dict[str, float | None]:
    """Sums over all outcomes, and latencies."""
    values = outcomes.agg(*_measures()).collect()[0].asDict()
    return {**values, **{name: values.get(name) or 0 for name in COUNTS}}


def _measures() -> list[Column]:
    return [*(f.sum(name).alias(name) for name in COUNTS), *latencies(f.col("latency"))]
