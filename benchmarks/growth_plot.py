"""The pictures of ``benchmarks.growth``: the pace, and what an event costs PostgreSQL, against what grows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from benchmarks.growth_table import SERIES, Growth, medians

PICTURES: Final = {
    "growth-relays": "relays on one table",
    "growth-rows": "rows that wait, or were delivered before",
    "growth-keys": "keys of the rows that wait",
}
"""By the name of the file, and the label of what grows."""
_COLOURS: Final = ("#9ecae1", "#3182bd", "#e6550d")
_Points = list[tuple[int, Growth]]


def lines(cells: Sequence[Growth], picture: str) -> dict[str, _Points]:
    """The lines of a picture by their labels; one is empty where it was not measured."""
    known = medians(cells)
    if picture == "growth-relays":
        return {label: _points(known, series, "relays") for series, label in SERIES.items()}
    if picture == "growth-rows":
        return {
            "waiting": _points(known, "waiting", "waiting"),
            "delivered before": _points(known, "delivered", "delivered"),
        }
    return {
        f"ORDERING={order}": _points([cell for cell in known if cell.ordering == order], "keys", "keys")
        for order in ("none", "key")
    }


def _points(cells: Sequence[Growth], series: str, grows: str) -> _Points:
    return sorted(((getattr(cell, grows), cell) for cell in cells if cell.series == series), key=lambda point: point[0])


def draw(cells: Sequence[Growth], picture: str, axes: Sequence[Any]) -> None:
    """Draw on two axes of matplotlib: events a second, and the processor time of PostgreSQL an event."""
    shown = lines(cells, picture)
    for (label, points), colour in zip(shown.items(), _COLOURS, strict=False):
        numbers = [number for number, _ in points]
        paces = [cell.events_per_second for _, cell in points]
        costs = [cell.postgres_microseconds for _, cell in points]
        for axis, heights in zip(axes, (paces, costs), strict=True):
            axis.plot(numbers, heights, marker="o", color=colour, label=label)
    for axis, height in zip(axes, ("events/s", "PostgreSQL CPU, us an event"), strict=True):
        axis.set_xscale("log")
        if picture == "growth-relays":
            ticks = sorted({number for points in shown.values() for number, _ in points})
            axis.set_xticks(ticks, [f"{number}" for number in ticks])
            axis.minorticks_off()
        axis.set_ylim(0, 1.1 * max(max(line.get_ydata(), default=0) for line in axis.get_lines()))
        axis.set_xlabel(PICTURES[picture])
        axis.set_ylabel(height)
    axes[0].yaxis.set_major_formatter("{x:,.0f}")
    axes[1].legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
