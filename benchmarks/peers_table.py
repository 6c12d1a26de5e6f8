"""What ``benchmarks.peers`` measures of one peer, and the table of all."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class PeerRun:
    """One run; None for what was not measured. CPU seconds are the peer's own, or PostgreSQL's where that is said."""

    peer: str
    peak_mebibytes: float
    lost: int
    duplicates: int
    warm_up: float | None = None
    """Events before those that count."""
    events_per_second: float | None = None
    """Of a backlog."""
    cpu_per_million: float | None = None
    postgres_per_million: float | None = None
    wal_bytes: float | None = None
    """Of an event of the backlog, without the insert's own."""
    stored_p50: float | None = None
    """Milliseconds from the return of COMMIT until the broker stored it, at a steady rate."""
    stored_p99: float | None = None
    steady_cpu: float | None = None
    """CPU seconds a minute at the steady rate."""
    steady_postgres: float | None = None
    """Likewise; the inserts are in it."""
    idle_cpu: float | None = None
    """CPU seconds a minute while nothing comes."""
    idle_postgres: float | None = None
    steal: float | None = None
    """As ``benchmarks.disturbance`` measures it, as the next one."""
    others: float | None = None


_COLUMNS = {
    "warm_up": ("warmed by events", ",.0f"),
    "events_per_second": ("events/s", ",.0f"),
    "cpu_per_million": ("own CPU s per million", ".1f"),
    "postgres_per_million": ("PostgreSQL CPU s per million", ".1f"),
    "wal_bytes": ("WAL bytes per event", ",.0f"),
    "stored_p50": ("stored p50 ms", ".1f"),
    "stored_p99": ("p99 ms", ".1f"),
    "steady_cpu": ("own CPU s/min at that rate", ".1f"),
    "steady_postgres": ("PostgreSQL's", ".1f"),
    "idle_cpu": ("own CPU s/min idle", ".2f"),
    "idle_postgres": ("PostgreSQL's", ".2f"),
}


def table(runs: Sequence[PeerRun]) -> str:
    """Medians as Markdown, the most memory, and the sums of what was lost or came twice."""
    heads = ["peer", *(head for head, _ in _COLUMNS.values()), "peak MiB", "lost", "duplicates"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name in dict.fromkeys(run.peer for run in runs):
        mine = [run for run in runs if run.peer == name]
        cells = [_median([getattr(run, field) for run in mine], form) for field, (_, form) in _COLUMNS.items()]
        cells.append(f"{max(run.peak_mebibytes for run in mine):.0f}")
        cells += [str(sum(run.lost for run in mine)), str(sum(run.duplicates for run in mine))]
        lines.append(f"| {' | '.join([name, *cells])} |")
    return "\n".join(lines)


def _median(values: Sequence[float | None], form: str) -> str:
    known = [value for value in values if value is not None]
    return format(statistics.median(known), form) if known else ""
