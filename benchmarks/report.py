"""Write docs/design/performance.md's tables and plots from what was measured: ``python -m benchmarks.report``.

It reads ``docs/design/performance/{drain,latency,scaling,growth,horizon,peers}.json``, which the benchmarks
write with ``--json``, and replaces what is between the markers of ``docs/design/performance.md``. A file that is
missing leaves its part as it is.
"""

from __future__ import annotations

import re
import statistics
from dataclasses import asdict
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt

from benchmarks.disturbance import MOST_OTHERS, MOST_STEAL
from benchmarks.drain_table import table
from benchmarks.growth_plot import PICTURES, draw, lines
from benchmarks.growth_table import Growth, estimate, knees, places, rounds
from benchmarks.horizon_table import Cell as HorizonCell
from benchmarks.horizon_table import draw_drain, draw_steady
from benchmarks.latency import Latency
from benchmarks.latency import table as latency_table
from benchmarks.measured import Cell, load
from benchmarks.peers_table import PeerRun
from benchmarks.peers_table import table as peers_table
from benchmarks.summary import summary

_DOCS = Path(__file__).parents[1] / "docs"
_FOLDER = _DOCS / "design/performance"
_NOT_SHOWN = ("broker CPU s per million", "cores used", "peak MiB", "lost", "duplicates")
_COLOURS = {100: "#9ecae1", 1000: "#3182bd"}

mpl.use("svg")
mpl.rcParams |= {"svg.hashsalt": "openoutbox", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}


def _ran_on(figures: dict[str, Any]) -> str:
    machine = figures["machine"]
    parameters = ", ".join(f"{name} {value}" for name, value in machine["parameters"].items())
    return f"Ran on {machine['cores']} cores and {machine['memory_gib']} GiB, shared by all; {parameters}.\n"


def _drain(figures: dict[str, Any]) -> str:
    cells = _counted(figures)
    _plot_drain(cells)
    rows = table([cell for cell in cells if cell.relay != "broker's floor" and cell.publisher != "null"], _NOT_SHOWN)
    versions = ", ".join(f"{name} {number}" for name, number in figures["machine"]["versions"].items())
    ran_on = f"{_ran_on(figures)}{_disturbances(figures)}Python {figures['machine']['python']}, {versions}.\n"
    return f"{ran_on}\n{rows}\n\n![Share of the floor](performance/drain.svg)\n"


def _counted(figures: dict[str, Any]) -> list[Cell]:
    """The cells of all rounds but those that were thrown away."""
    disturbed = {one["number"] for one in figures["rounds"] if not one["counted"]}
    return [Cell(**cell) for cell in figures["cells"] if cell["round"] not in disturbed]


def _disturbances(figures: dict[str, Any]) -> str:
    """What else ran meanwhile; empty for figures from before that was measured."""
    counted = [one["disturbance"] for one in figures["rounds"] if one["counted"]]
    if not counted:
        return ""
    steal, others = (max(one[name] for one in counted) for name in ("steal", "others"))
    disturbed = len(figures["rounds"]) - len(counted)
    return (
        f"Rounds that count: {len(counted)}; thrown away: {disturbed}. In those that count, steal was at most "
        f"{steal:.1%}, and other processes used at most {others:.1%} of a core.\n"
    )


def _plot_drain(cells: list[Cell]) -> None:
    ours = [cell for cell in cells if cell.relay not in ("", "broker's floor")]
    names = list(dict.fromkeys((cell.publisher, cell.relay) for cell in ours))
    batches = sorted({cell.batch for cell in cells})
    figure, axes = plt.subplots(figsize=(7, 3))
    width = 0.8 / len(batches)
    for place, batch in enumerate(batches):
        floor = statistics.median(
            cell.events_per_second for cell in cells if cell.publisher == "floor" and cell.batch == batch
        )
        shares = [
            statistics.median(
                cell.events_per_second for cell in ours if (cell.publisher, cell.relay, cell.batch) == (*name, batch)
            )
            / floor
            for name in names
        ]
        at = [number + (place - (len(batches) - 1) / 2) * width for number in range(len(names))]
        bars = axes.bar(at, shares, width, label=f"batch {batch}", color=_COLOURS.get(batch))
        axes.bar_label(bars, fmt="%.2f")
    axes.axhline(1, color="grey", linewidth=0.8, linestyle="--")
    axes.set_xticks(
        range(len(names)),
        [publisher if relay == "openoutbox" else f"{publisher}\n{relay}" for publisher, relay in names],
    )
    axes.set_ylabel("events/s, share of the floor")
    axes.legend(frameon=False)
    _save(figure, "drain")


def _latency(figures: dict[str, Any]) -> str:
    return f"{_ran_on(figures)}\n{latency_table([Latency(**run) for run in figures['runs']])}\n"


def _scaling(figures: dict[str, Any]) -> str:
    _plot_scaling(figures["times"])
    return f"{_ran_on(figures)}\n![Claim time against size](performance/scaling.svg)\n"


def _plot_scaling(times: list[dict[str, Any]]) -> None:
    figure, axes = plt.subplots(figsize=(7, 3))
    for label, size, wanted in (
        ("delivered rows in the table", "delivered", [one for one in times if one["delivered"]]),
        ("pending rows", "pending", [one for one in times if not one["delivered"]]),
    ):
        axes.plot([one[size] for one in wanted], [one["claim_p50"] for one in wanted], marker="o", label=label)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("rows")
    axes.set_ylabel("claim of 100 events, p50 ms")
    axes.legend(frameon=False)
    _save(figure, "scaling")


def _growth(figures: dict[str, Any]) -> str:
    cells = [Growth(**cell) for cell in figures["cells"]]
    quiet = _undisturbed(cells)
    left_out = (
        f"Left out as disturbed: {len(cells) - len(quiet)} of {len(cells)} drains."
        if quiet
        else "Every one was disturbed."
    )
    shown = quiet or cells
    parts = [f"{_ran_on(figures)}{rounds(shown)} {left_out}\n{_beside([asdict(cell) for cell in shown])}"]
    for name, grows in PICTURES.items():
        if any(lines(shown, name).values()):
            figure, axes = plt.subplots(1, 2, figsize=(9, 3))
            draw(shown, name, axes)
            _save(figure, name)
            parts.append(f"![Pace and cost against {grows}](performance/{name}.svg)\n")
    tables = (knees(shown), estimate(shown), places(shown))
    return "\n".join([*parts, *(f"{one}\n" for one in tables if one)])


def _undisturbed(cells: list[Growth]) -> list[Growth]:
    return [cell for cell in cells if (cell.others or 0) <= MOST_OTHERS and (cell.steal or 0) <= MOST_STEAL]


def _horizon(figures: dict[str, Any]) -> str:
    cells = [HorizonCell(**cell) for cell in figures["cells"]]
    steady = any(cell.what == "steady" for cell in cells)
    figure, axes = plt.subplots(1, 1 + steady, figsize=(11, 3.5) if steady else (7, 3), squeeze=False)
    draw_drain(cells, axes[0][0])
    if steady:
        draw_steady(cells, axes[0][1])
    _save(figure, "horizon")
    picture = "![The pace beside a held horizon](performance/horizon.svg)"
    return f"{_ran_on(figures)}\n{picture}\n"


def _peers(figures: dict[str, Any]) -> str:
    runs = figures["runs"]
    return f"{_ran_on(figures)}{_beside(runs)}\n{peers_table([PeerRun(**run) for run in runs])}\n"


def _beside(runs: list[dict[str, Any]]) -> str:
    """What else took processor time from the runs, which all count; empty where it was not measured."""
    known = [run for run in runs if run.get("steal") is not None]
    if not known:
        return ""
    steal, others = (max(run[name] for run in known) for name in ("steal", "others"))
    return f"Steal was at most {steal:.1%}, and other processes used at most {others:.1%} of a core.\n"


def _save(figure: Any, name: str) -> None:  # noqa: ANN401  # matplotlib's figure
    figure.tight_layout()
    figure.savefig(_FOLDER / f"{name}.svg", metadata={"Date": None})
    plt.close(figure)


def _summary() -> str:
    growth = [Growth(**cell) for cell in _figures("growth").get("cells", [])]
    return summary(
        _counted(_figures("drain") or {"rounds": [], "cells": []}),
        [Latency(**run) for run in _figures("latency").get("runs", [])],
        _undisturbed(growth),
        [PeerRun(**run) for run in _figures("peers").get("runs", [])],
    )


def _figures(name: str) -> dict[str, Any]:
    """What a benchmark measured; nothing where its file is missing."""
    source = _FOLDER / f"{name}.json"
    return load(source) if source.exists() else {}


def _replaced(text: str, name: str, part: str) -> str:
    return re.sub(
        rf"<!-- {name} -->.*<!-- /{name} -->",
        lambda _: f"<!-- {name} -->\n{part}<!-- /{name} -->",
        text,
        flags=re.DOTALL,
    )


_PARTS = {
    "drain": _drain,
    "latency": _latency,
    "scaling": _scaling,
    "growth": _growth,
    "horizon": _horizon,
    "peers": _peers,
}


def main() -> None:
    """Replace each part whose measurements are there, and the summary of all."""
    page = _DOCS / "design/performance.md"
    text = page.read_text(encoding="utf-8")
    for name, write in _PARTS.items():
        if figures := _figures(name):
            text = _replaced(text, name, write(figures))
    page.write_text(_replaced(text, "summary", _summary()), encoding="utf-8")


if __name__ == "__main__":
    main()
