"""What ``benchmarks.growth`` measures, its table, and what it says about a larger database."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

_SERIES = {
    "batch 100": "relays",
    "batch 1000": "batch",
    "batch 1000, ON_DELIVERED=delete": "delete",
    "batch 1000, a table for each relay": "tables",
}
_NEARLY = 0.95  # of the most events/s: more relays are not worth their cost
_HEAD = (
    "| series | relays | tables | batch | on delivery | waiting rows | delivered rows | events/s "
    "| relays' CPU us an event | PostgreSQL CPU us an event | WAL bytes an event |\n|" + "---|" * 11
)


@dataclass(frozen=True)
class Growth:
    """One cell; CPU time and write-ahead log are an event's."""

    series: str
    relays: int
    waiting: int
    """Rows to deliver when it begins, over all tables."""
    delivered: int = 0
    """Rows delivered before, in each table."""
    tables: int = 1
    batch: int = 100
    on_delivered: str = "keep"
    events_per_second: float = 0.0
    relay_microseconds: float = 0.0
    """Of all relays together."""
    postgres_microseconds: float = 0.0
    wal_bytes: float = 0.0
    steal: float | None = None
    """As ``benchmarks.disturbance`` measures it, as the next one."""
    others: float | None = None


def medians(cells: Sequence[Growth]) -> list[Growth]:
    """One cell for each that was measured, with the medians of its rounds."""
    groups: dict[Growth, list[Growth]] = {}
    for cell in cells:
        figures = {"events_per_second", "relay_microseconds", "postgres_microseconds", "wal_bytes", "steal", "others"}
        plan = Growth(**{name: value for name, value in asdict(cell).items() if name not in figures})
        groups.setdefault(plan, []).append(cell)
    return [
        replace(
            plan,
            events_per_second=statistics.median(cell.events_per_second for cell in rounds),
            relay_microseconds=statistics.median(cell.relay_microseconds for cell in rounds),
            postgres_microseconds=statistics.median(cell.postgres_microseconds for cell in rounds),
            wal_bytes=statistics.median(cell.wal_bytes for cell in rounds),
        )
        for plan, rounds in groups.items()
    ]


def table(cells: Sequence[Growth]) -> str:
    """Medians as Markdown."""
    lines = [_HEAD]
    for cell in medians(cells):
        plan = f"{cell.series} | {cell.relays} | {cell.tables} | {cell.batch} | {cell.on_delivered}"
        rows = f"{cell.waiting:,} | {cell.delivered:,} | {cell.events_per_second:,.0f}"
        costs = f"{cell.relay_microseconds:.1f} | {cell.postgres_microseconds:.1f} | {cell.wal_bytes:,.0f}"
        lines.append(f"| {plan} | {rows} | {costs} |")
    return "\n".join(lines)


def estimate(cells: Sequence[Growth], target: float = 100_000.0) -> str:
    """What ``target`` events a second would take, as Markdown: every figure is one relay's, times the target."""
    known = {cell.series: cell for cell in medians(cells) if cell.relays <= 1}
    lines = [
        f"| at {target:,.0f} events/s | PostgreSQL cores | WAL MB/s | cores of the relays |",
        "|---|---|---|---|",
    ]
    for label, series in (
        ("the application's inserts, one a transaction", "insert"),
        ("claim and settle, batch 100", "relays"),
        ("claim and settle, batch 1000", "batch"),
        ("the same with ON_DELIVERED=delete", "delete"),
    ):
        if cell := known.get(series):
            cores, wal, own = (
                value * target / 1e6 for value in (cell.postgres_microseconds, cell.wal_bytes, cell.relay_microseconds)
            )
            lines.append(f"| {label} | {cores:.1f} | {wal:.0f} | {own:.1f} |")
    return "\n".join(lines)


def knees(cells: Sequence[Growth]) -> str:
    """How many relays are enough in each series, as Markdown."""
    heads = [
        "",
        f"relays for {_NEARLY:.0%} of the most events/s",
        "their events/s, of one relay's",
        "events/s with more relays, of one relay's",
        "PostgreSQL CPU an event with more relays, of one relay's",
    ]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for label, series in _SERIES.items():
        line = sorted((cell for cell in medians(cells) if cell.series == series), key=lambda cell: cell.relays)
        if len(line) < 2:
            continue
        most = max(cell.events_per_second for cell in line)
        enough = next(cell for cell in line if cell.events_per_second >= _NEARLY * most)
        pace, last = (cell.events_per_second / line[0].events_per_second for cell in (enough, line[-1]))
        cost = line[-1].postgres_microseconds / line[0].postgres_microseconds
        lines.append(f"| {label} | {enough.relays} | {pace:.2f} | {last:.2f} ({line[-1].relays}) | {cost:.2f} |")
    return "\n".join(lines)
