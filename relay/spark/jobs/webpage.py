"""The page of a job, where people find it, and the plots that several pages have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from relay.core.errors import ConfigError
from relay.spark.jobs.folder import Folder
from relay.spark.jobs.measures import LATENCIES, Bucket
from relay.spark.page.document import Plot
from relay.spark.page.plots import Series, distribution, lines

NAME = "index.html"


def publish_page(folder: Folder, file: str | None, html: str) -> str:
    """Write the page to the job's folder, and to a local file if one is named; returns the address that people open.

    Raises ConfigError for a local file that cannot be written.
    """
    folder.write(NAME, html)
    if file is None:
        return f"{folder.path}/{NAME}"
    try:
        Path(file).write_text(html, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--page: {file}: {error.strerror}") from None
    return file


def latency_plots(
    curve: Sequence[Bucket], histogram: Sequence[tuple[float, float, int]], over_time: str, in_all: str
) -> list[Plot]:
    """The latencies over time and their distribution, as far as any were measured; the texts describe the plots."""
    plots = []
    if any(bucket.latencies["latency_p50"] is not None for bucket in curve):
        series = [
            Series(name.removeprefix("latency_"), [bucket.latencies[name] for bucket in curve]) for name in LATENCIES
        ]
        plots.append(Plot("Latency over time", lines([bucket.start for bucket in curve], series), over_time))
    if histogram:
        edges = [(low, high) for low, high, _ in histogram]
        plots.append(Plot("Latency", distribution(edges, [number for _, _, number in histogram]), in_all))
    return plots
