"""The result of ``reconcile``: a sentence, and a summary for programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from relay.spark.jobs.measures import LATENCIES
from relay.spark.jobs.reconcile.arguments import ReconcileArguments


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """The result of a run."""

    totals: Mapping[str, Any]
    kinds: Mapping[str, int]
    compared: tuple[str, ...]
    ordered: bool
    seconds: float


def sentence(result: ReconcileResult) -> str:
    """The result in a line."""
    totals = result.totals
    scope = f"{totals['delivered']} delivered events, {totals['copies']} messages"
    if not any(result.kinds.values()):
        return f"no findings: {scope}"
    kinds = ", ".join(f"{number} {kind.replace('_', ' ')}" for kind, number in result.kinds.items() if number)
    return f"{kinds}: {scope}"


def summary(job: ReconcileArguments, result: ReconcileResult) -> dict[str, object]:
    """For programs."""
    names = ("rows", "delivered", "waiting", "dead", "arrived", "dead_arrived", "copies")
    return {
        "findings": dict(result.kinds),
        "tolerated": sorted(job.tolerated),
        **{("messages" if name == "copies" else name): result.totals[name] for name in names},
        "latency_seconds": {name.removeprefix("latency_"): result.totals[name] for name in LATENCIES},
        "compared": list(result.compared),
        "ordered": result.ordered,
        "output": job.output,
        "seconds": round(result.seconds, 1),
    }
