"""The result of ``report``: a sentence, a summary for programs, a page for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import Row

from relay.spark.jobs.measures import LATENCIES, Bucket
from relay.spark.jobs.report.arguments import ReportArguments
from relay.spark.jobs.report.outcomes import COUNTS
from relay.spark.jobs.webpage import latency_plots
from relay.spark.page.document import Document, Figure, PageTable, Plot
from relay.spark.page.plots import Series, stacked
from relay.spark.page.words import count, lasting, share
from relay.version import __version__


@dataclass(frozen=True, slots=True)
class ReportResult:
    """The result of a run."""

    totals: Mapping[str, Any]
    types: Sequence[Row]
    type_count: int
    hour_count: int
    codes: Sequence[Row]
    code_count: int
    curve: Sequence[Bucket]
    width: int
    histogram: Sequence[tuple[float, float, int]]
    seconds: float


def sentence(result: ReportResult) -> str:
    """The result in a line."""
    totals = result.totals
    counts = ", ".join(f"{totals[name]} {name}" for name in COUNTS)
    latency = f"; latency p50 {lasting(totals['latency_p50'])}, p99 {lasting(totals['latency_p99'])}"
    return f"{counts}{latency if totals['latency_p50'] is not None else ''}"


def summary(job: ReportArguments, result: ReportResult) -> dict[str, object]:
    """For programs."""
    return {
        **{name: result.totals[name] for name in COUNTS},
        "latency_seconds": {name.removeprefix("latency_"): result.totals[name] for name in LATENCIES},
        "types": result.type_count,
        "hours": result.hour_count,
        "output": job.output,
        "seconds": round(result.seconds, 1),
    }


def page(job: ReportArguments, result: ReportResult) -> Document:
    """For people."""
    totals = result.totals
    tried = totals["delivered"] + totals["failed"]
    return Document(
        title="Deliveries of the outbox",
        verdict=f"{count(totals['delivered'])} delivered, {count(totals['dead'])} dead."
        if tried or totals["dead"]
        else "No outcomes in this time.",
        lead=f"Over {count(result.type_count)} event types, by the time of the outcomes.",
        figures=[
            Figure("delivered", count(totals["delivered"])),
            Figure(
                "failed attempts",
                count(totals["failed"]),
                f"{share(totals['failed'], tried)} of attempts" if tried else "",
            ),
            Figure("retries", count(totals["retries"])),
            Figure("dead", count(totals["dead"]), "", "bad" if totals["dead"] else "plain"),
            *(
                Figure(f"latency, {'worst' if name == 'latency_max' else name[-3:]}", lasting(totals[name]) or "none")
                for name in LATENCIES
            ),
        ],
        plots=_plots(result),
        tables=[_types(result), _codes(result)],
        facts=_facts(job, result),
        notes=_notes(job),
    )


def _plots(result: ReportResult) -> list[Plot]:
    plots = []
    starts = [bucket.start for bucket in result.curve]
    if starts:
        series = [Series(name, [bucket.counts[name] for bucket in result.curve]) for name in ("delivered", "failed")]
        text = "Deliveries and failed attempts over time (UTC)."
        plots.append(Plot("Attempts", stacked(starts, result.width, series), text))
        retries = [Series(name, [bucket.counts[name] for bucket in result.curve]) for name in ("retries", "dead")]
        if any(value for each in retries for value in each.values):
            text = "Retries and events that died, over time (UTC)."
            plots.append(Plot("Retries", stacked(starts, result.width, retries), text))
    over_time = "From creation to delivery, by the time of delivery (UTC): median, 95th, 99th percentile, worst."
    in_all = "How many deliveries took how long from creation."
    return [*plots, *latency_plots(result.curve, result.histogram, over_time, in_all)]


def _types(result: ReportResult) -> PageTable:
    rows = [
        [row["type"] or "", *(count(row[name]) for name in COUNTS), *(lasting(row[name]) for name in LATENCIES)]
        for row in result.types
    ]
    heads = ("event type", *COUNTS, "p50", "p95", "p99", "worst")
    note = "" if len(rows) == result.type_count else f"The {len(rows)} largest of {count(result.type_count)}."
    return PageTable("By event type", heads, rows, frozenset(range(1, len(heads))), note)


def _codes(result: ReportResult) -> PageTable:
    rows = [[row["code"], count(row["count"])] for row in result.codes]
    note = "" if len(rows) == result.code_count else f"The {len(rows)} most frequent of {count(result.code_count)}."
    return PageTable("Failures by code", ("code", "count"), rows, frozenset({1}), note)


def _facts(job: ReportArguments, result: ReportResult) -> list[tuple[str, str]]:
    facts = [
        (
            "written",
            f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC by Open Outbox Relay {__version__}, in {result.seconds:.0f} s",
        ),
        ("source", f"archive {job.archive}" if job.archive else "the delivery log"),
        ("by type and hour", f"{count(result.hour_count)} rows in hours"),
    ]
    if job.since or job.until:
        facts.append(("time", f"from {job.since or 'the beginning'} to {job.until or 'now'}"))
    if job.event_types:
        facts.append(("event types", ", ".join(job.event_types)))
    return facts


def _notes(job: ReportArguments) -> list[str]:
    if not job.archive:
        return ["From the delivery log: events that used up their attempts do not count as dead."]
    return [
        "From an archive: failed attempts are counted at the time at which their event was delivered or died.",
        "Only the last failure of an event has a code.",
    ]
