"""Latency, histograms and bars over time, for the pages and results of several jobs.

Percentiles are Spark's ``percentile_approx`` with an accuracy of 1/10,000 of the rank. Hours are UTC whatever the
session's time zone is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

QUANTILES: Final = (0.5, 0.95, 0.99)
LATENCIES: Final = ("latency_p50", "latency_p95", "latency_p99", "latency_max")
BARS_A_DECADE: Final = 5

_ACCURACY: Final = 10_000
MOST_BARS: Final = 120
"""Bars of a plot over time, at most."""

_WIDTHS: Final = (60, 300, 900, 3600, 4 * 3600, 86_400, 7 * 86_400)
_HOUR: Final = 3600

PLOTTED: Final = "{0} >= TIMESTAMP '1970-01-02' AND {0} < TIMESTAMP '3000-01-01'"
"""The times that are plotted; PostgreSQL's infinities are not."""


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
    percentiles = f.percentile_approx(seconds, list(QUANTILES), _ACCURACY)
    columns = [f.get(percentiles, index).alias(name) for index, name in enumerate(LATENCIES[:-1])]
    return [*columns, f.max(seconds).alias(LATENCIES[-1])]


def hour(time: str) -> Column:
    """The hour of a time, as a timestamp."""
    return f.timestamp_seconds(start_of(time, _HOUR))


def start_of(time: str, width: int) -> Column:
    """The start of a time's bar of ``width`` seconds, in seconds since 1970."""
    return (f.floor(f.unix_micros(time) / (width * 1_000_000)) * width).cast("long")


def bucket_width(first: int, last: int) -> int:
    """The seconds of a bar with which a plot has at most 120 bars."""
    span = max(last - first, 1)
    fitting = [width for width in _WIDTHS if span / width <= MOST_BARS]
    return fitting[0] if fitting else -(-span // (MOST_BARS * 86_400)) * 86_400


def histogram(frame: DataFrame, seconds: Column) -> list[tuple[float, float, int]]:
    """Bars: lower and upper bound in seconds, and how many durations lie between them; a few dozen at most."""
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
