"""The table of ``benchmarks.drain``: medians, and the spread of each ratio to the floor of the same round."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from benchmarks.measured import Cell

Floors = Mapping[int, Cell]
"""The floor of each round, at one batch size."""
_Column = Callable[[Sequence[Cell], Floors], str]


def table(cells: Sequence[Cell], without: Collection[str] = ()) -> str:
    """Markdown, but for the columns named."""
    columns = {head: column for head, column in _COLUMNS.items() if head not in without}
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for batch in sorted({cell.batch for cell in cells}):
        floors = {cell.round: cell for cell in cells if (cell.publisher, cell.batch) == ("floor", batch)}
        for publisher, relay in dict.fromkeys((cell.publisher, cell.relay) for cell in cells if cell.batch == batch):
            mine = [cell for cell in cells if (cell.publisher, cell.relay, cell.batch) == (publisher, relay, batch)]
            lines.append(f"| {' | '.join(column(mine, floors) for column in columns.values())} |")
    return "\n".join(lines)


def _pace(mine: Sequence[Cell], floors: Floors) -> str:
    ratios = _ratios(mine, floors, lambda cell: cell.events_per_second)
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"


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


_COLUMNS: Mapping[str, _Column] = {
    "publisher": lambda mine, _: mine[0].publisher,
    "relay": lambda mine, _: mine[0].relay,
    "batch": lambda mine, _: str(mine[0].batch),
    "events/s": lambda mine, _: _median((cell.events_per_second for cell in mine), ",.0f"),
    "of the floor": _pace,
    "own CPU s per million (of the floor's)": lambda mine, floors: _cost(
        mine, floors, lambda cell: cell.cpu_seconds_per_million
    ),
    "PostgreSQL CPU s per million (of the floor's)": lambda mine, floors: _cost(
        mine, floors, lambda cell: cell.postgres_cpu_seconds_per_million
    ),
    "broker CPU s per million": lambda mine, _: _median((cell.broker_cpu_seconds_per_million for cell in mine), ".1f"),
    "cores used": lambda mine, _: _median((cell.cores for cell in mine), ".1f"),
    "WAL bytes per event": lambda mine, _: _median((cell.wal_bytes_per_event for cell in mine), ",.0f"),
    "peak MiB": lambda mine, _: _most(cell.peak_mebibytes for cell in mine),
    "lost": lambda mine, _: _sum(cell.lost for cell in mine),
    "duplicates": lambda mine, _: _sum(cell.duplicates for cell in mine),
}
