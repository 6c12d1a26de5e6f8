"""The first table of docs/design/performance.md: a user's first questions, answered from all benchmarks."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence

from benchmarks.growth_table import Growth, medians
from benchmarks.latency import Latency
from benchmarks.measured import Cell
from benchmarks.peers_table import PeerRun

_NAMES = {
    "kafka": "Kafka",
    "nats": "NATS JetStream",
    "redis": "Redis",
    "rabbitmq": "RabbitMQ",
    "http": "Webhooks",
    "sqs": "SQS (emulated)",
}
_TARGET = 100_000  # events/s of the estimate


def summary(
    drains: Sequence[Cell], latencies: Sequence[Latency], growth: Sequence[Growth], peers: Sequence[PeerRun]
) -> str:
    """Markdown; a question without figures is left out."""
    known = medians(growth)
    rows = [
        ("How fast does a backlog drain, at batch 1000?", "draining-a-backlog", _pace(drains)),
        ("How soon does the broker have an event?", "on-the-way-and-idle", _latency(latencies)),
        ("What does a relay use?", "draining-a-backlog", _own_cost(drains, latencies)),
        ("What does it cost the database?", "growth", _database_cost(drains, known)),
        ("Do more relays deliver more?", "growth", _relays(known)),
        ("Do many rows make it slower?", "growth", _sizes(known)),
        (f"What would {_TARGET:,} events/s take?", "growth", _estimate(known)),
        ("And Debezium Server?", "beside-the-others", _peers(peers)),
    ]
    lines = [f"| [{question}](#{section}) | {answer} |" for question, section, answer in rows if answer]
    return "\n".join(["| | |", "|---|---|", *lines]) + "\n"


def _median(cells: Sequence[Cell], value: Callable[[Cell], float | None]) -> float:
    return statistics.median(known for cell in cells if (known := value(cell)) is not None)


def _ours(drains: Sequence[Cell], publisher: str, batch: int = 1000) -> list[Cell]:
    return [cell for cell in drains if (cell.publisher, cell.relay, cell.batch) == (publisher, "openoutbox", batch)]


def _list(parts: Iterable[str]) -> str:
    return "; ".join(parts)


def _pace(drains: Sequence[Cell]) -> str:
    paces = [
        f"{name} {_median(cells, lambda cell: cell.events_per_second):,.0f}"
        for publisher, name in _NAMES.items()
        if (cells := _ours(drains, publisher))
    ]
    return f"events/s: {_list(paces)}" if paces else ""


def _latency(latencies: Sequence[Latency]) -> str:
    runs = [run for run in latencies if not run.wake_up]
    return _list(
        f"{_NAMES[run.publisher]} {run.stored_p50:.1f} ms after COMMIT (p99 {run.stored_p99:.0f})" for run in runs
    )


def _own_cost(drains: Sequence[Cell], latencies: Sequence[Latency]) -> str:
    each = [
        f"{name} {_median(cells, lambda cell: cell.cpu_seconds_per_million):.0f}"
        for publisher, name in _NAMES.items()
        if (cells := _ours(drains, publisher))
    ]
    costs = [f"us of CPU an event: {', '.join(each)}"] if each else []
    peaks = [cell.peak_mebibytes for cell in drains if cell.relay == "openoutbox" and cell.peak_mebibytes]
    if peaks:
        costs.append(f"at most {max(peaks):.0f} MiB")
    if latencies:
        idle = max(run.idle_cpu_seconds_per_minute for run in latencies)
        statements = max(run.idle_statements_per_second for run in latencies)
        costs.append(f"idle at most {idle:.2f} s of CPU a minute and {statements:.1f} statements/s")
    return _list(costs)


def _database_cost(drains: Sequence[Cell], growth: Sequence[Growth]) -> str:
    cells = _ours(drains, "kafka")
    parts = (
        [f"{_median(cells, lambda cell: cell.postgres_cpu_seconds_per_million):.0f} us of CPU an event"]
        if cells
        else []
    )
    logs = {cell.on_delivered: cell.wal_bytes for cell in growth if cell.relays == 1 and cell.batch == 1000}
    return _list(parts + [f"{size:,.0f} bytes of WAL with ON_DELIVERED={mode}" for mode, size in logs.items()])


def _relays(growth: Sequence[Growth]) -> str:
    cells = [cell for cell in growth if cell.series == "batch"]
    return f"events/s: {_list(f'{cell.relays}: {cell.events_per_second:,.0f}' for cell in cells)}" if cells else ""


def _sizes(growth: Sequence[Growth]) -> str:
    parts = []
    for series, label in (("delivered", "delivered before"), ("waiting", "waiting")):
        sizes = sorted((getattr(cell, series), cell.postgres_microseconds) for cell in growth if cell.series == series)
        ends = dict.fromkeys([*sizes[:1], *sizes[-1:]])
        parts += [f"{cost:.0f} with {rows:,} {label}" for rows, cost in ends]
    return f"us of PostgreSQL's CPU an event: {_list(parts)}" if parts else ""


def _estimate(growth: Sequence[Growth]) -> str:
    known = {cell.series: cell for cell in growth if cell.relays <= 1}
    if not {"insert", "delete"} <= known.keys():
        return ""
    cores, wal = (
        sum(getattr(known[series], name) for series in ("insert", "delete")) * _TARGET / 1e6
        for name in ("postgres_microseconds", "wal_bytes")
    )
    mode = "the inserts included, with ON_DELIVERED=delete"
    return f"on paper {cores:.0f} cores of PostgreSQL and {wal:.0f} MB/s of WAL, {mode}"


def _peers(runs: Sequence[PeerRun]) -> str:
    def median(name: str, peer: str) -> float | None:
        values = [value for run in runs if run.peer == peer and (value := getattr(run, name)) is not None]
        return statistics.median(values) if values else None

    parts = []
    for peer, label in (("debezium", "Debezium"), ("openoutbox", "ours"), ("openoutbox-1000", "ours at batch 1000")):
        pace, own, postgres = (
            median(name, peer) for name in ("events_per_second", "cpu_per_million", "postgres_per_million")
        )
        if pace is not None and own is not None and postgres is not None:
            parts.append(
                f"{label} {pace:,.0f} events/s into Kafka, {own:.0f} us of CPU an event and PostgreSQL's {postgres:.0f}"
            )
    return _list(parts)
