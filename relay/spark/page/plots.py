"""Plots as SVG inside a page. They contain no text from data: names of types and keys are for tables.

Axes and text have the page's colour, so that they are readable on dark pages too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC
from io import StringIO
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

_INK: Final = "#010203"  # replaced by the page's own colour
_GRID: Final = "#8888884d"
_COLOURS: Final = ("#2f7ec2", "#e0772f", "#b5405c", "#2c9a6c")
_SIZE: Final = (7.2, 2.9)
_STYLE: Final[Any] = {
    "svg.fonttype": "none",  # text stays text: small, and searchable in the page
    "svg.hashsalt": "openoutbox",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "legend.frameon": False,
}
_REPLACEMENTS: Final = (
    (r"<metadata>.*?</metadata>", ""),
    (r"<style[^>]*>.*?</style>", ""),
    (r'<g id="[^"]*"', "<g"),  # several plots of one page would share these
    (r"font-family: [^;]*", "font-family: inherit"),
)
_DAY: Final = 86_400


@dataclass(frozen=True, slots=True)
class Series:
    """Values, one for each point of the axis; None for no value."""

    name: str
    values: Sequence[float | None]


def stacked(starts: Sequence[int], width: int, series: Sequence[Series]) -> str:
    """Stacked counts over time; ``starts`` are seconds since 1970, each bar ``width`` seconds wide."""

    def draw(axes: Axes) -> None:
        below = [0.0] * len(starts)
        for colour, each in zip(_COLOURS, series, strict=False):
            heights = [value or 0.0 for value in each.values]
            axes.bar(_middles(starts), heights, width * 0.92 / _DAY, below, align="edge",
                     color=colour, label=each.name)  # fmt: skip
            below = [low + height for low, height in zip(below, heights, strict=True)]
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _count(value)))
        _time_axis(axes)

    return _svg(draw, len(series) > 1)


def lines(starts: Sequence[int], series: Sequence[Series]) -> str:
    """Durations in seconds over time, on a logarithmic axis."""

    def draw(axes: Axes) -> None:
        for colour, each in zip(_COLOURS, series, strict=False):
            shown = [max(value, 1e-6) if value is not None else float("nan") for value in each.values]
            axes.plot(_middles(starts), shown, color=colour, label=each.name, marker="o", markersize=3, linewidth=1.6)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: duration(value)))
        axes.yaxis.set_minor_locator(NullLocator())
        _time_axis(axes)

    return _svg(draw, legend=True)


def distribution(edges: Sequence[tuple[float, float]], counts: Sequence[int]) -> str:
    """The number of durations, in seconds, between the edges of each bar; logarithmic, as the bars are."""

    def draw(axes: Axes) -> None:
        lefts = [low for low, _ in edges]
        axes.bar(lefts, counts, [high - low for low, high in edges], align="edge", color=_COLOURS[0], linewidth=0)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: duration(value)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _count(value)))

    return _svg(draw, legend=False)


def duration(seconds: float) -> str:
    """Seconds with a fitting unit: ``1.5 ms``, ``12 s``, ``3 h``."""
    for limit, size, unit in (
        (1e-3, 1e-6, "µs"),
        (1, 1e-3, "ms"),
        (120, 1, "s"),
        (7200, 60, "min"),
        (172800, 3600, "h"),
    ):
        if abs(seconds) < limit:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 86400:,.3g} d" if seconds < 1e8 else f"{seconds / 86400:,.0f} d"


def _count(value: float) -> str:
    return f"{value:,.0f}" if value < 1e5 else f"{value / 1e6:,.3g} M"


def _middles(starts: Sequence[int]) -> list[float]:
    """Days since 1970, as Matplotlib counts."""
    return [start / _DAY for start in starts]


def _time_axis(axes: Axes) -> None:
    # With its default, at least five ticks, it has no interval for 84 hours to five days, nor for 210 to 300 minutes.
    locator: Any = AutoDateLocator(tz=UTC, minticks=3, maxticks=8)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))  # type: ignore[no-untyped-call]


def _svg(draw: Callable[[Axes], None], legend: bool) -> str:
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=_SIZE, layout="constrained")
        figure.patch.set_alpha(0)
        axes = figure.subplots()
        axes.patch.set_alpha(0)
        draw(axes)
        axes.set_ylim(bottom=0) if axes.get_yscale() == "linear" else None
        if legend:
            figure.legend(loc="outside upper left", ncols=4)
        output = StringIO()
        figure.savefig(output, format="svg", metadata={"Date": None, "Creator": None})
    return _inline(output.getvalue())


def _inline(svg: str) -> str:
    """The SVG without the parts of a separate file, as wide as its place, in the page's colours and fonts."""
    head, body = svg[svg.index("<svg") :].split(">", 1)
    head = re.sub(r' (?:width|height)="[^"]*"', "", head).replace("<svg", '<svg aria-hidden="true" focusable="false"')
    for pattern, instead in _REPLACEMENTS:
        body = re.sub(pattern, instead, body, flags=re.DOTALL)
    return f"{head}>{body}".replace(_INK, "currentColor")
