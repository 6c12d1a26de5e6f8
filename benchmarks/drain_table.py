"""The table of ``benchmarks.drain``: medians, and the spread of each ratio to the floor of the same round."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

from benchmarks.measured import Cell

_HEAD = (
    "| publisher | relay | batch | events/s | of the floor | own CPU s per million (of the floor's) "
    "| PostgreSQL CPU s per million (of the floor's) | broker CPU s per million | cores used | WAL bytes per event "
    "| peak MiB | lost | duplicates |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|---|"
)
Floors = Mapping[int, Cell]
"""The floor of each round, at one batch size."""


def table(cells: Sequence[Cell]) -> str:
    """Markdown."""
    lines = [_HEAD]
    for batch in sorted({cell.batch for cell in cells}):
        floors = {cell.round: cell for cell in cells if (cell.publisher, cell.batch) == ("floor", batch)}
        for publisher, relay in dict.fromkeys((cell.publisher, cell.relay) for cell in cells if cell.batch == batch):
            mine = [cell for cell in cells if (cell.publisher, cell.relay, cell.batch) == (publisher, relay, batch)]
            lines.append(_row(mine, floors))
    return "\n".join(lines)


def _row(mine: Sequence[Cell], floors: Floors) -> str:
    first = mine[0]
    ratios = _ratios(mine, floors, lambda cell: cell.events_per_second)
    columns = [
        first.publisher,
        first.relay,
        str(first.batch),
        f"{statistics.median(cell.events_per_second for cell in mine):,.0f}",
        f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})",
        _cost(mine, floors, lambda cell: cell.cpu_seconds_per_million),
        _cost(mine, floors, lambda cell: cell.postgres_cpu_seconds_per_million),
        _median((cell.broker_cpu_seconds_per_million for cell in mine), ".1f"),
        _median((cell.cores for cell in mine), ".1f"),
        _median((cell.wal_bytes_per_event for cell in mine), ",.0f"),
        _most(cell.peak_mebibytes for cell in mine),
        _sum(cell.lost for cell in mine),
        _sum(cell.duplicates for cell in mine),
    ]
    return f"| {' | '.join(columns)} |"


def _ratios(mine: Sequence[Cell], floors: Floors, value: Callable[[Cell], float | None]) -> list[float]:
    """The value of each cell by that of its round's floor, where both are known."""
    pairs = [(value(cell), value(floors[cell.round])) for cell in mine]
    return [of_cell / of_floor for of_cell, of_floor in pairs if of_cell is not None and of_floor]


def _cost(mine: Sequence[Cell], floors: Floors, value: Callable[[Cell], float | None]) -> str:
    ratios = _ratios(mine, floors, value)
    return f"{_median(map(value, mine), '.1f')} ({statistics.median(ratios):.2f})" if ratios else ""


def _median(values: Iterable[float | None], form: str) -> str:
    known = [value for value in values if value is not None]
    return format(statistics.median(known), form) if known else ""


def _most(values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{max(known):.0f}" if known else ""


def _sum(values: Iterable[int | None]) -> str:
    known = [value for value in values if value is not None]
    return str(sum(known)) if known else ""
