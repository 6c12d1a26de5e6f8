"""The job ``reconcile``: compare the outbox, or its archive, with the events in Kafka or in a consumer's table.

It writes into ``--output`` only: ``findings``, ``topics`` and ``hours`` as Parquet, and ``summary.json``. It can be run
again however it ended; the summary is written last.

A relay may work meanwhile. The rows are read before the messages, so the message of a DELIVERED row was acknowledged
before the topics are read. An event in a topic without a row is searched in the outbox once more, since its row was
inserted before its message was sent. The fingerprints of both sides are stored in ``--output`` while the job runs: the
database and the brokers are read once.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial, reduce
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from relay.spark.jobs.archive.formats import read_archive
from relay.spark.jobs.folder import WORK, result_folder
from relay.spark.jobs.measures import latency_seconds
from relay.spark.jobs.parquet import materialize
from relay.spark.jobs.program import print_summary, report_progress, run_job, task_progress
from relay.spark.jobs.reconcile import arrivals
from relay.spark.jobs.reconcile.arguments import KINDS, ReconcileArguments
from relay.spark.jobs.reconcile.compare import findings, match, without_row
from relay.spark.jobs.reconcile.fingerprints import expected
from relay.spark.jobs.reconcile.summaries import by_hour, by_topic, totals
from relay.spark.jobs.session import open_session
from relay.spark.jobs.settled import within
from relay.spark.source import OutboxDataSource
from relay.spark.write.observed import show_counts

FINDINGS: Final = 3
"""Exit code: the job has findings."""

_COLUMNS: Final = (
    "event_id", "event_type", "partition_key", "payload", "headers", "status", "created_at", "delivered_at",
)  # fmt: skip
_PRINTS: Final = ("topic", "status", "key", "payload_sum", "headers_sum", "created_at", "delivered_at", "place")


def _work(job: ReconcileArguments) -> int:
    session = open_session(job.name, OutboxDataSource, job.remote, job.packages, job.jars)
    return _Run(session, job).work()


class _Run:
    """One run: its steps, each written to the folder before the next begins."""

    def __init__(self, session: SparkSession, job: ReconcileArguments) -> None:
        self._session = session
        self._job = job
        self._step = ""

    def work(self) -> int:
        """Compare, and print the summary; returns the exit code."""
        job = self._job
        start = time.monotonic()
        progress = report_progress(
            "reconcile", lambda: ": ".join(filter(None, [self._step, task_progress(self._session)]))
        )
        with result_folder(self._session, job.output) as summary, progress:
            sums, kinds, compared = self._compare()
            seconds = time.monotonic() - start
            summary |= {"findings": kinds, "tolerated": sorted(job.tolerated)}
            names = ("rows", "delivered", "waiting", "dead", "arrived", "dead_arrived")
            summary |= {name: sums[name] for name in names}
            summary |= {"messages": sums["copies"], "latency_seconds": latency_seconds(sums)}
            summary |= {"compared": compared, "ordered": arrivals.ordered(job)}
            summary |= {"output": job.output, "seconds": round(seconds, 1)}
        counts = {name: sums[name] for name in ("rows", "delivered", "copies")}
        show_counts(self._session, "openoutbox reconcile", counts | kinds)
        print_summary(summary, (_sentence(sums, kinds), f"{job.output}; {seconds:.1f} s"), as_json=job.as_json)
        return FINDINGS if any(kinds[kind] for kind in KINDS if kind not in job.tolerated) else 0

    def _compare(self) -> tuple[dict[str, int], dict[str, int], list[str]]:
        """Totals, the number of findings of each kind, and the compared fields."""
        job = self._job
        rows = self._rows()
        messages = self._store("reading what arrived", "messages", self._messages(rows))
        compared = arrivals.compared(job)
        matched = self._store("joining both sides", "matched", match(rows, messages, compared))
        frame = findings(matched, messages, ordered=arrivals.ordered(job), unknown=self._unexpected(matched))
        frame = self._write("comparing", "findings", frame)
        self._write("counting by topic", "topics", by_topic(matched, frame))
        self._write("counting by hour", "hours", by_hour(matched))
        self._step = "summing up"
        counted = {row["kind"]: row["count"] for row in frame.groupBy("kind").count().collect()}
        sums = totals(matched) | {"copies": messages.count()}  # messages without an id included
        return sums, {kind: counted.get(kind, 0) for kind in KINDS}, list(compared)

    def _rows(self) -> DataFrame:
        """Fingerprints of all rows, each event once. The table before the archive: rows only move that way."""
        job = self._job
        sides = []
        if job.url is not None:
            sides.append(self._side("outbox", self._table(_COLUMNS)))
        if job.archive is None:
            return sides[0]
        sides.append(self._side("archive", read_archive(self._session, job.archive)))
        ranked = [side.select(f.lit(rank).alias("rank"), "*") for rank, side in enumerate(sides)]
        union = reduce(DataFrame.unionByName, ranked)
        # The table's row wins: a replay inserted it again after it was archived. Then the newest archived row.
        row = f.min(f.struct("rank", (-f.col("place")).alias("back"), *_PRINTS))
        return union.groupBy("event_id").agg(row.alias("row")).select("event_id", "row.*").drop("rank", "back")

    def _table(self, columns: Sequence[str]) -> DataFrame:
        job = self._job
        reader = self._session.read.format("openoutbox").options(url=job.url, table=str(job.table), pushdown="true")
        return reader.options(numPartitions=job.partitions, columns=",".join(columns)).load()

    def _side(self, name: str, rows: DataFrame) -> DataFrame:
        job = self._job
        rows = within(rows, f.col("created_at"), job.since, job.until)
        rows = rows.where(f.col("event_type").isin(list(job.event_types))) if job.event_types else rows
        return self._store(f"reading the {name}", name, expected(rows, job.ignored, job.message_format))

    def _messages(self, rows: DataFrame) -> DataFrame:
        job = self._job
        if job.has_consumer:
            return arrivals.from_consumer(self._session, job)
        return arrivals.from_topics(self._session, job, rows)

    def _unexpected(self, matched: DataFrame) -> DataFrame:
        """Events that arrived and have no row, neither when rows were read nor now."""
        job = self._job
        unknown = matched.where("NOT known")
        sources = []
        if unknown.isEmpty():
            return unknown
        if job.url is not None:
            sources.append(self._table(("event_id",)))
        if job.archive is not None:
            sources.append(read_archive(self._session, job.archive).select("event_id"))
        self._step = "searching again for events without a row"
        return without_row(unknown, reduce(DataFrame.unionAll, sources))

    def _store(self, step: str, name: str, frame: DataFrame) -> DataFrame:
        """Write the frame below the output while this run needs it."""
        return self._write(step, f"{WORK}/{name}", frame)

    def _write(self, step: str, name: str, frame: DataFrame) -> DataFrame:
        """Write the frame below the output."""
        self._step = step
        return materialize(frame, f"{self._job.output}/{name}")


def _sentence(sums: Mapping[str, int], kinds: Mapping[str, int]) -> str:
    """The result in a line."""
    scope = f"{sums['delivered']} delivered events, {sums['copies']} messages"
    if not any(kinds.values()):
        return f"no findings: {scope}"
    listed = ", ".join(f"{number} {kind.replace('_', ' ')}" for kind, number in kinds.items() if number)
    return f"{listed}: {scope}"


run: Final = partial(run_job, ReconcileArguments, _work)
