"""The tables of the Spark benchmarks: each pace beside the bare COPY of the same rows in the same round."""

from __future__ import annotations

from statistics import median


def table(kind: str, paces: dict[str, list[float]]) -> str:
    """The medians, as Markdown. A name that begins with ``bare`` is the yardstick of those that follow it."""
    lines = [f"| {kind} | rows/s, median (lowest-highest) | ratio to the bare COPY |", "|---|---|---|"]
    bare: list[float] = []
    for name, each in paces.items():
        bare = each if name.startswith("bare") else bare
        ratio = median(pace / other for pace, other in zip(each, bare, strict=True))
        lines.append(f"| {name} | {median(each):,.0f} ({min(each):,.0f}-{max(each):,.0f}) | {ratio:.2f} |")
    return "\n".join(lines)
