"""Counts and latencies of matched events (``relay.spark.compare``): for programs by topic and hour, for a page in all.

Latency is from ``created_at`` to ``delivered_at``, both the database's clock. Percentiles are Spark's
``percentile_approx`` with an accuracy of 1/10,000 of the rank. Hours are UTC whatever the session's time zone is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from relay.spark.compare import KINDS

QUANTILES: Final = (0.5, 0.95, 0.99)
LATENCIES: Final = ("latency_p50", "latency_p95", "latency_p99", "latency_max")
BARS_A_DECADE: Final = 5

_ACCURACY: Final = 10_000
MOST_BARS: Final = 120
"""Of a plot over time."""

_WIDTHS: Final = (60, 300, 900, 3600, 4 * 3600, 86_400, 7 * 86_400)
_HOUR: Final = 3600

PLOTTED: Final = "{0} >= TIMESTAMP '1970-01-02' AND {0} < TIMESTAMP '3000-01-01'"
"""Which times are plotted; PostgreSQL knows infinity too."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """One bar of a plot over time."""

    start: int
    counts: dict[str, int]
    latencies: dict[str, float | None]


def seconds_between(earlier: str, later: str) -> Column:
    """Seconds from one time to another."""
    return (f.unix_micros(later) - f.unix_micros(earlier)) / 1_000_000


def latencies(seconds: Column) -> list[Column]:
    """Aggregates: the percentiles of ``LATENCIES`` and the maximum."""
    found = f.percentile_approx(seconds, list(QUANTILES), _ACCURACY)
    columns = [f.get(found, place).alias(name) for place, name in enumerate(LATENCIES[:-1])]
    return [*columns, f.max(seconds).alias(LATENCIES[-1])]


def hour(time: str) -> Column:
    """The hour in which a time lies, as a timestamp."""
    return f.timestamp_seconds(start_of(time, _HOUR))


def start_of(time: str, width: int) -> Column:
    """Seconds since 1970 at which the ``width`` seconds begin that a time lies in."""
    return (f.floor(f.unix_micros(time) / (width * 1_000_000)) * width).cast("long")


def bucket_width(first: int, last: int) -> int:
    """Seconds of a bar, so that a plot has at most 120."""
    span = max(last - first, 1)
    fitting = [width for width in _WIDTHS if span / width <= MOST_BARS]
    return fitting[0] if fitting else -(-span // (MOST_BARS * 86_400)) * 86_400


def histogram(frame: DataFrame, seconds: Column) -> list[tuple[float, float, int]]:
    """How many lie between two durations; at most a few dozen rows, whatever the data."""
    low, high = 1e-4, 1e9
    bounded = f.least(f.greatest(seconds, f.lit(low)), f.lit(high))
    rows = (
        frame.select(f.floor(f.log10(bounded) * BARS_A_DECADE).cast("int").alias("bar"))
        .where("bar IS NOT NULL")
        .groupBy("bar")
        .count()
        .orderBy("bar")
        .collect()
    )
    return [(10 ** (bar / BARS_A_DECADE), 10 ** ((bar + 1) / BARS_A_DECADE), count) for bar, count in rows]


def totals(matched: DataFrame) -> dict[str, int]:
    """Counts over all matched events, and the seconds since 1970 between which rows were created."""
    known = f.col("known")
    row = matched.agg(
        _count_if(known).alias("rows"),
        _count_if(known & (f.col("status") == "DELIVERED")).alias("delivered"),
        _count_if(known & f.col("status").isin("PENDING", "DELIVERING")).alias("waiting"),
        _count_if(known & (f.col("status") == "DEAD")).alias("dead"),
        _count_if(known & (f.col("copies") > 0)).alias("arrived"),
        _count_if(known & (f.col("copies") > 0) & (f.col("status") == "DEAD")).alias("dead_arrived"),
        f.coalesce(f.sum("copies"), f.lit(0)).alias("copies"),
        f.min(f.when(f.expr(PLOTTED.format("created_at")), start_of("created_at", 1))).alias("first"),
        f.max(f.when(f.expr(PLOTTED.format("created_at")), start_of("created_at", 1))).alias("last"),
        *latencies(_latency()),
    ).first()
    return dict(row.asDict()) if row is not None else {}


def by_topic(matched: DataFrame, findings: DataFrame) -> DataFrame:
    """A row for each topic: events by status, copies, findings by kind, latency."""
    kinds: list[Any] = [kind for kind in KINDS if kind != "missing"]  # counted with the events already
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


def curve(matched: DataFrame, width: int) -> list[Bucket]:
    """Events by the time at which they were created, over all topics; as many rows as a plot has bars."""
    rows = (
        matched.where("known")
        .where(PLOTTED.format("created_at"))
        .groupBy(start_of("created_at", width).alias("start"))
        .agg(*_events(), *latencies(_latency()))
        .orderBy("start")
        .limit(2 * MOST_BARS)
        .collect()
    )
    names = ("events", "delivered", "waiting", "dead", "arrived", "missing")
    return [
        Bucket(row["start"], {name: row[name] for name in names}, {name: row[name] for name in LATENCIES})
        for row in rows
    ]


def latency_histogram(matched: DataFrame) -> list[tuple[float, float, int]]:
    """``histogram`` of the events' latencies."""
    return histogram(matched.where("known AND delivered_at IS NOT NULL"), _latency())


def _latency() -> Column:
    return seconds_between("created_at", "delivered_at")


def _events() -> list[Column]:
    known = f.col("known")
    status = f.col("status")
    return [
        _count_if(known).alias("events"),
        _count_if(known & (status == "DELIVERED")).alias("delivered"),
        _count_if(known & status.isin("PENDING", "DELIVERING")).alias("waiting"),
        _count_if(known & (status == "DEAD")).alias("dead"),
        _count_if(known & (f.col("copies") > 0)).alias("arrived"),
        _count_if(known & (status == "DELIVERED") & (f.col("copies") == 0)).alias("missing"),
    ]


def _count_if(condition: Column) -> Column:
    return f.count(f.when(condition, f.lit(1)))
