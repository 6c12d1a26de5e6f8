"""The result of ``reconcile``: a sentence, a summary for programs, a page for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql import Row

from relay.spark.jobs.measures import LATENCIES, Bucket
from relay.spark.jobs.reconcile.arguments import KINDS, ReconcileArguments
from relay.spark.jobs.webpage import latency_plots
from relay.spark.page.document import Document, Figure, PageTable, Plot
from relay.spark.page.plots import Series, stacked
from relay.spark.page.words import count, lasting, moment, share
from relay.version import __version__

_MEANING: Final = {
    "missing": "DELIVERED in the outbox, and no message was read.",
    "duplicated": "More copies than one, and one for each replay. Delivery is at least once: consumers drop repeats.",
    "changed": "A copy that differs from its row in what the column detail names.",
    "out_of_order": "First delivered after an event of its key that was inserted later, which detail names.",
    "unexpected": "A message without a row in the outbox: the row was deleted, or another producer sent the message.",
}
_COLUMNS: Final = ("topic", "event id", "key", "detail", "copies", "partition", "offset", "created", "arrived")


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """The result of a run."""

    totals: Mapping[str, Any]
    kinds: Mapping[str, int]
    samples: Mapping[str, Sequence[Row]]
    topics: Sequence[Row]
    topic_count: int
    curve: Sequence[Bucket]
    width: int
    histogram: Sequence[tuple[float, float, int]]
    compared: tuple[str, ...]
    ordered: bool
    seconds: float

    @property
    def finding_count(self) -> int:
        """Findings of all kinds."""
        return sum(self.kinds.values())


def sentence(result: ReconcileResult) -> str:
    """The result in a line."""
    totals = result.totals
    scope = f"{totals['delivered']} delivered events, {totals['copies']} messages"
    if not result.finding_count:
        return f"no findings: {scope}"
    kinds = ", ".join(f"{number} {kind.replace('_', ' ')}" for kind, number in result.kinds.items() if number)
    return f"{kinds}: {scope}"


def summary(job: ReconcileArguments, result: ReconcileResult) -> dict[str, object]:
    """For programs."""
    names = ("rows", "delivered", "waiting", "dead", "arrived", "dead_arrived", "copies")
    return {
        "findings": dict(result.kinds),
        "tolerated": sorted(job.tolerated),
        **{("messages" if name == "copies" else name): result.totals[name] for name in names},
        "latency_seconds": {name.removeprefix("latency_"): result.totals[name] for name in LATENCIES},
        "compared": list(result.compared),
        "ordered": result.ordered,
        "output": job.output,
        "seconds": round(result.seconds, 1),
    }


def page(job: ReconcileArguments, result: ReconcileResult) -> Document:
    """For people."""
    totals = result.totals
    counted = sum(result.kinds[kind] for kind in KINDS if kind not in job.tolerated)
    where = "the consumer's table" if job.has_consumer else "the topics"
    return Document(
        title="Reconciliation of the outbox",
        verdict=_verdict(result, counted),
        good=counted == 0,
        lead=f"{count(totals['rows'])} rows of the outbox against {count(totals['copies'])} entries of {where}.",
        figures=_figures(job, result),
        plots=_plots(result),
        tables=[*_samples(result), _topics(result)],
        facts=_facts(job, result),
        notes=_notes(result),
    )


def _verdict(result: ReconcileResult, counted: int) -> str:
    if not result.finding_count:
        return "Nothing is missing, duplicated, changed, unexpected or out of order, as far as it was compared."
    if not counted:
        return f"{count(result.finding_count)} findings, all of kinds that are tolerated."
    return f"{count(result.finding_count)} findings."


def _figures(job: ReconcileArguments, result: ReconcileResult) -> list[Figure]:
    totals = result.totals
    kinds = [
        Figure(
            kind.replace("_", " "),
            count(result.kinds[kind]),
            "tolerated" if kind in job.tolerated else "not compared" if _skipped(kind, result) else "",
            "bad" if result.kinds[kind] and kind not in job.tolerated else "plain",
        )
        for kind in KINDS
    ]
    return [
        Figure("delivered", count(totals["delivered"]), f"{count(totals['rows'])} rows"),
        Figure("arrived", count(totals["arrived"]), share(totals["arrived"], totals["rows"])),
        *kinds,
        Figure("waiting", count(totals["waiting"]), "not expected yet"),
        Figure("dead", count(totals["dead"]), f"{count(totals['dead_arrived'])} of them arrived"),
        Figure("latency, median", lasting(totals["latency_p50"])),
        Figure("latency, p99", lasting(totals["latency_p99"]), f"worst {lasting(totals['latency_max'])}"),
    ]


def _skipped(kind: str, result: ReconcileResult) -> bool:
    return (kind == "out_of_order" and not result.ordered) or (kind == "changed" and not result.compared)


def _plots(result: ReconcileResult) -> list[Plot]:
    plots = []
    starts = [bucket.start for bucket in result.curve]
    if starts:
        counts = [bucket.counts for bucket in result.curve]
        rest = [each["events"] - each["arrived"] - each["missing"] for each in counts]
        series = [
            Series("arrived", [each["arrived"] for each in counts]),
            Series("waiting or dead", rest),
            Series("missing", [each["missing"] for each in counts]),
        ]
        text = "Events by time of creation (UTC): arrived, waiting or dead, missing."
        plots.append(Plot("What arrived", stacked(starts, result.width, series), text))
    over_time = "From created_at to delivered_at, by the time of creation (UTC): median, 95th, 99th percentile, worst."
    in_all = "How many events took how long from created_at to delivered_at."
    return [*plots, *latency_plots(result.curve, result.histogram, over_time, in_all)]


def _samples(result: ReconcileResult) -> list[PageTable]:
    return [
        PageTable(
            kind.replace("_", " ").capitalize(),
            _COLUMNS,
            [_cells(row) for row in rows],
            frozenset({4, 5, 6}),
            f"{_MEANING[kind]} {_shown(len(rows), result.kinds[kind])}",
        )
        for kind, rows in result.samples.items()
    ]


def _shown(shown: int, total: int) -> str:
    return "" if shown == total else f"{count(shown)} of {count(total)}; all are in findings."


def _cells(row: Row) -> list[str]:
    return [
        row["topic"] or "",
        row["event_id"] or "",
        row["partition_key"] or "",
        row["detail"] or "",
        count(row["copies"]),
        count(row["partition"]),
        count(row["offset"]),
        moment(row["created_at"]),
        moment(row["arrived_at"]),
    ]


def _topics(result: ReconcileResult) -> PageTable:
    counted = ("events", "delivered", "waiting", "dead", "copies", *KINDS)
    rows = [
        [row["topic"] or "", *(count(row[name]) for name in counted), *(lasting(row[name]) for name in LATENCIES)]
        for row in result.topics
    ]
    heads = ["topic", *(name.replace("_", " ") for name in counted), "p50", "p95", "p99", "worst"]
    note = "" if len(rows) == result.topic_count else f"{len(rows)} of {count(result.topic_count)}; all are in topics."
    return PageTable("By topic", heads, rows, frozenset(range(1, len(heads))), note)


def _facts(job: ReconcileArguments, result: ReconcileResult) -> list[tuple[str, str]]:
    sources = {f"table {job.table}": job.url, f"archive {job.archive}": job.archive}
    sent = [name for name, source in sources.items() if source]
    arrived = (
        f"a consumer's table ({job.consumer_format or 'parquet'})" if job.has_consumer else f"Kafka at {job.kafka}"
    )
    facts = [
        (
            "written",
            f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC by Open Outbox Relay {__version__}, in {result.seconds:.0f} s",
        ),
        ("sent", " and ".join(sent)),
        ("arrived", arrived),
        ("compared", ", ".join(result.compared) or "ids alone"),
    ]
    if job.since or job.until:
        facts.append(("created", f"from {job.since or 'the beginning'} to {job.until or 'now'}"))
    if job.event_types:
        facts.append(("event types", ", ".join(job.event_types)))
    if job.topics:
        facts.append(("topics", ", ".join(job.topics)))
    if job.tolerated:
        facts.append(("tolerated", ", ".join(sorted(job.tolerated))))
    return facts


def _notes(result: ReconcileResult) -> list[str]:
    notes = [
        "PENDING, DELIVERING and DEAD rows are not expected to have arrived.",
        "Copies that a replay sent are not duplicates: each replay has a replay_id of its own.",
        "Order is compared by created_at, which events of one transaction share; only ORDERING=key promises it.",
    ]
    if not result.ordered:
        notes.append("The consumer's table has no column for the order of arrival; order was not compared.")
    return notes
