"""The table of ``benchmarks.drain``: medians, and the spread of each ratio to the floor of the same round."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from benchmarks.measured import Cell

_HEAD = (
    "| publisher | relay | batch | events/s | of the floor | own CPU s per million | PostgreSQL CPU s per million "
    "| peak MiB | lost | duplicates |\n|---|---|---|---|---|---|---|---|---|---|"
)


def table(cells: Sequence[Cell]) -> str:
    """Markdown."""
    lines = [_HEAD]
    for batch in sorted({cell.batch for cell in cells}):
        floors = [cell.events_per_second for cell in cells if (cell.publisher, cell.batch) == ("floor", batch)]
        for publisher, relay in dict.fromkeys((cell.publisher, cell.relay) for cell in cells):
            mine = [cell for cell in cells if (cell.publisher, cell.relay, cell.batch) == (publisher, relay, batch)]
            lines.append(_row(mine, floors))
    return "\n".join(lines)


def _row(mine: Sequence[Cell], floors: Sequence[float]) -> str:
    first = mine[0]
    ratios = [cell.events_per_second / floor for cell, floor in zip(mine, floors, strict=True)]
    columns = [
        first.publisher,
        first.relay,
        str(first.batch),
        f"{statistics.median(cell.events_per_second for cell in mine):,.0f}",
        f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})",
        _median(cell.cpu_seconds_per_million for cell in mine),
        _median(cell.postgres_cpu_seconds_per_million for cell in mine),
        _most(cell.peak_mebibytes for cell in mine),
        _sum(cell.lost for cell in mine),
        _sum(cell.duplicates for cell in mine),
    ]
    return f"| {' | '.join(columns)} |"


def _median(values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{statistics.median(known):.1f}" if known else ""


def _most(values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{max(known):.0f}" if known else ""


def _sum(values: Iterable[int | None]) -> str:
    known = [value for value in values if value is not None]
    return str(sum(known)) if known else ""
