"""The result of ``report``: a sentence, and a summary for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from relay.spark.jobs.measures import LATENCIES, lasting
from relay.spark.jobs.report.arguments import ReportArguments
from relay.spark.jobs.report.outcomes import COUNTS


@dataclass(frozen=True, slots=True)
class ReportResult:
    """The result of a run."""

    totals: Mapping[str, Any]
    type_count: int
    hour_count: int
    seconds: float


def sentence(result: ReportResult) -> str:
    """The result in a line."""
    totals = result.totals
    counts = ", ".join(f"{totals[name]} {name}" for name in COUNTS)
    if totals["latency_p50"] is None:
        return counts
    return f"{counts}; latency p50 {lasting(totals['latency_p50'])}, p99 {lasting(totals['latency_p99'])}"


def summary(job: ReportArguments, result: ReportResult) -> dict[str, object]:
    """For programs."""
    return {
        **{name: result.totals[name] for name in COUNTS},
        "latency_seconds": {name.removeprefix("latency_"): result.totals[name] for name in LATENCIES},
        "types": result.type_count,
        "hours": result.hour_count,
        "output": job.output,
        "seconds": round(result.seconds, 1),
    }
