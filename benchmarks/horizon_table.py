"""What ``benchmarks.horizon`` measures, its table and its picture: horizon free and held side by side."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

_PARTS: Final = 25
"""Of a drain, each of them one point of the picture."""
_COLOURS: Final = {"drain": "#3182bd", "SKIP LOCKED": "#e6550d"}
_HEADS: Final = {
    "pace": "events/s",
    "pace_at_the_end": "at the end",
    "claim_p50": "claim p50, ms",
    "claim_p99": "p99",
    "stored_p50": "stored p50, ms",
    "stored_p99": "p99",
    "postgres_microseconds": "PostgreSQL, us an event",
}
_NAMES: Final = {"drain": "relay", "SKIP LOCKED": "bare loop of SKIP LOCKED"}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One run."""

    what: str
    on_delivered: str
    ordering: str
    held: bool
    pace: float
    pace_at_the_end: float
    claim_p50: float = float("nan")
    """Milliseconds, as the other times."""
    claim_p99: float = float("nan")
    stored_p50: float = float("nan")
    stored_p99: float = float("nan")
    postgres_microseconds: float = float("nan")
    curve: list[tuple[float, float]] = field(default_factory=list)
    """Seconds, and events delivered by then."""


def pace_from(curve: list[tuple[float, float]], share: float) -> float:
    """Events a second, from that share of all events on."""
    total = curve[-1][1]
    since, first = next(point for point in curve if point[1] >= share * total)
    return (total - first) / (curve[-1][0] - since) if curve[-1][0] > since else float("nan")


def table(cells: Sequence[Cell], names: Sequence[str] = tuple(_HEADS)) -> str:
    """Medians of the rounds, free and held side by side; a column for each of these fields."""
    groups: dict[tuple[str, str, str], dict[bool, Sequence[Cell]]] = {}
    for cell in cells:
        sides = groups.setdefault((cell.what, cell.on_delivered, cell.ordering), {False: [], True: []})
        sides[cell.held].append(cell)
    lines = [f"| | {' | '.join(_HEADS[name] for name in names)} |", "|---" * (len(names) + 1) + "|"]
    for group, sides in groups.items():
        row = [", ".join(group)]
        for name in names:
            free, held = (_median(sides[side], name) for side in (False, True))
            known = not math.isnan(free + held) and free > 0
            row.append(f"{_figure(free)} / {_figure(held)} ({held / free:.2f})" if known else "-")
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def _median(cells: Sequence[Cell], name: str) -> float:
    return statistics.median([getattr(one, name) for one in cells] or [math.nan])


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def draw_drain(cells: Sequence[Cell], axes: Any) -> None:  # noqa: ANN401  # matplotlib's axes
    """The pace of each part of a drain against what was delivered before: the relay, and the bare loop."""
    for what, name in _NAMES.items():
        for held in (False, True):
            curves = [
                one.curve
                for one in cells
                if (one.what, one.on_delivered, one.ordering, one.held) == (what, "keep", "none", held)
            ]
            if curves:
                delivered, paces = zip(*_medians(curves), strict=True)
                label = f"{name}, {'held' if held else 'free'}"
                axes.plot(delivered, paces, "-" if held else ":", color=_COLOURS[what], label=label)
    axes.set_ylim(bottom=0)
    axes.locator_params(axis="x", nbins=5)
    axes.set_xlabel("events delivered before")
    axes.set_ylabel("events/s")
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def draw_steady(cells: Sequence[Cell], axes: Any) -> None:  # noqa: ANN401  # matplotlib's axes
    """How long an event is stored before the relay has its acknowledgement, p50 and p99, at a steady rate."""
    steady = [one for one in cells if one.what == "steady"]
    groups = list(dict.fromkeys((one.on_delivered, one.ordering) for one in steady))
    for place, (name, held) in enumerate(
        (name, held) for name in ("stored_p50", "stored_p99") for held in (False, True)
    ):
        heights = [
            _median([one for one in steady if (one.on_delivered, one.ordering, one.held) == (*group, held)], name)
            for group in groups
        ]
        at = [number + (place - 1.5) * 0.2 for number in range(len(groups))]
        label = f"{name[-3:]}, {'held' if held else 'free'}"
        axes.bar(at, heights, 0.2, label=label, color="#3182bd" if held else "#9ecae1", alpha=1.0 if place > 1 else 0.6)
    axes.set_xticks(range(len(groups)), [f"{mode}\n{ordering}" for mode, ordering in groups])
    axes.set_xlabel("ON_DELIVERED, ORDERING")
    axes.set_yscale("log")  # p50 and p99 lie a hundredfold apart
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_ylabel("stored, ms")
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))


def _medians(curves: Sequence[Sequence[tuple[float, float]]]) -> list[tuple[float, float]]:
    """Events delivered before each part, and the median over the rounds of the pace in it."""
    total = min(curve[-1][1] for curve in curves)
    bounds = [total * part / _PARTS for part in range(_PARTS + 1)]
    points = []
    for first, last in pairwise(bounds):
        paces = [(last - first) / max(_time(curve, last) - _time(curve, first), 1e-9) for curve in curves]
        points.append((first, statistics.median(paces)))
    return points[1:-1]  # the first and the last part are not whole


def _time(curve: Sequence[tuple[float, float]], delivered: float) -> float:
    """When so many were delivered, between two readings in proportion."""
    before = (0.0, 0.0)
    for at, count in curve:
        if count >= delivered:
            gap = count - before[1]
            return before[0] + (at - before[0]) * ((delivered - before[1]) / gap if gap else 1.0)
        before = (at, count)
    return before[0]
