"""Latency and hours, for the results of several jobs.

Percentiles are Spark's ``percentile_approx`` with an accuracy of 1/10,000 of the rank. Hours are UTC whatever the
session's time zone is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as f

QUANTILES: Final = (0.5, 0.95, 0.99)
LATENCIES: Final = ("latency_p50", "latency_p95", "latency_p99", "latency_max")

_ACCURACY: Final = 10_000
_HOUR: Final = 3600


def seconds_between(earlier: str, later: str) -> Column:
    """Seconds from one time to another."""
    return (f.unix_micros(later) - f.unix_micros(earlier)) / 1_000_000


def latencies(seconds: Column) -> list[Column]:
    """Aggregates: the percentiles of ``LATENCIES`` and the maximum."""
    percentiles = f.percentile_approx(seconds, list(QUANTILES), _ACCURACY)
    columns = [f.get(percentiles, index).alias(name) for index, name in enumerate(LATENCIES[:-1])]
    return [*columns, f.max(seconds).alias(LATENCIES[-1])]


def latency_seconds(totals: Mapping[str, Any]) -> dict[str, Any]:
    """``latencies`` in a summary."""
    return {name.removeprefix("latency_"): totals[name] for name in LATENCIES}


def hour(time: str) -> Column:
    """The hour of a time, as a timestamp."""
    return f.timestamp_seconds((f.floor(f.unix_micros(time) / (_HOUR * 1_000_000)) * _HOUR).cast("long"))


def lasting(seconds: float) -> str:
    """Seconds with a fitting unit: ``1.5 ms``, ``12 s``, ``3 h``."""
    units = ((1e-3, 1e-6, "µs"), (1, 1e-3, "ms"), (120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h"))
    for limit, size, unit in units:
        if abs(seconds) < limit:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 86_400:,.3g} d" if seconds < 1e8 else f"{seconds / 86_400:,.0f} d"
