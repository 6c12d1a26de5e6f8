"""The job ``reconcile``: the outbox, or its archive, against what arrived in Kafka or with a consumer.

    spark-submit deploy/spark/reconcile.py --output FOLDER … (on a cluster: driver and executors need this wheel)
    relay-cli spark reconcile --output FOLDER …

It reads, and writes into ``--output`` alone: ``findings``, ``topics`` and ``hours`` as Parquet, ``index.html`` for
people. Progress goes to standard error, the summary to standard output. Exit codes: 0 nothing found, 1 failed, 2 wrong
arguments, 3 findings, 130 interrupted. However it ends, it may be run again; the page is written last.

A relay may be at work meanwhile. The rows are read before the messages, so a row that is DELIVERED there was
acknowledged before the topics are looked at; and an event that is in a topic and not among the rows is looked for in
the outbox once more, since its row was there before its message. The fingerprints of both sides are kept in
``--output`` while the job runs: the database and the brokers are read once.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from relay.spark.jobs.archive.files import read_archive
from relay.spark.jobs.folder import Folder
from relay.spark.jobs.measures import bucket_width
from relay.spark.jobs.parquet import kept
from relay.spark.jobs.program import (
    open_session,
    print_result,
    report_progress,
    run_job,
    session_settings,
    task_progress,
)
from relay.spark.jobs.reconcile import arrivals
from relay.spark.jobs.reconcile.arguments import KINDS, ReconcileArguments
from relay.spark.jobs.reconcile.compare import COMPARED, findings, match, strangers
from relay.spark.jobs.reconcile.fingerprints import expected
from relay.spark.jobs.reconcile.page import ReconcileResult, page, sentence, summary
from relay.spark.jobs.reconcile.summaries import by_hour, by_topic, curve, latency_histogram, totals
from relay.spark.page.document import render
from relay.spark.source import OutboxDataSource

FOUND: Final = 3
"""Exit code: there are findings."""

_WORK: Final = "_work"
_COLUMNS: Final = (
    "event_id",
    "event_type",
    "partition_key",
    "payload",
    "headers",
    "status",
    "created_at",
    "delivered_at",
)
_PRINTS: Final = ("topic", "status", "key", "payload_sum", "headers_sum", "created_at", "delivered_at", "place")


def main(program: str = "reconcile.py") -> int:
    """Run the job with the process's arguments; the exit code."""
    return run(program, sys.argv[1:])


def run(program: str, arguments: Sequence[str], **environment: str) -> int:
    """Run the job; ``environment`` has texts for options that are left out. Returns the exit code."""
    return run_job(ReconcileArguments, _work, program, arguments, environment)


def _work(job: ReconcileArguments) -> int:
    session = open_session(job.name, session_settings(job.packages, job.jars))
    session.dataSource.register(OutboxDataSource)
    return _Run(session, job).work()


class _Run:
    """One run: its steps, each kept in the folder before the next begins."""

    def __init__(self, session: SparkSession, job: ReconcileArguments) -> None:
        self._session = session
        self._job = job
        self._step = ""

    def work(self) -> int:
        """The exit code."""
        job = self._job
        began = time.monotonic()
        folder = Folder(self._session, job.output)
        folder.delete("index.html")
        try:
            with report_progress(
                "reconcile", lambda: ": ".join(filter(None, [self._step, task_progress(self._session)]))
            ):
                result = self._compare(began)
                folder.write("index.html", render(page(job, result)))
        finally:
            folder.delete(_WORK)
        if job.as_json:
            print_result(json.dumps(summary(job, result)))
        else:
            print_result(sentence(result))
            print_result(f"{job.output}/index.html; {result.seconds:.1f} s")
        return FOUND if any(result.kinds[kind] for kind in KINDS if kind not in job.tolerated) else 0

    def _compare(self, began: float) -> ReconcileResult:
        job = self._job
        rows = self._rows()
        messages = self._kept("reading what arrived", "messages", self._messages(rows))
        compared = arrivals.compared(job)
        matched = self._kept("joining both sides", "matched", match(rows, messages, compared))
        found = findings(matched, messages, ordered=arrivals.ordered(job), unknown=self._strangers(matched))
        found = self._written("looking for findings", "findings", found)
        topics = self._written("counting by topic", "topics", by_topic(matched, found))
        self._written("counting by hour", "hours", by_hour(matched))
        self._step = "summing up"
        sums = totals(matched)
        width = bucket_width(sums["first"] or 0, sums["last"] or 0)
        counted = {row["kind"]: row["count"] for row in found.groupBy("kind").count().collect()}
        return ReconcileResult(
            totals=sums | {"copies": messages.count()},  # those without an id, too
            kinds={kind: counted.get(kind, 0) for kind in KINDS},
            samples={kind: self._sample(found, kind) for kind in KINDS if counted.get(kind)},
            topics=topics.orderBy(f.desc("events"), "topic").limit(job.sample).collect(),
            topic_count=topics.count(),
            curve=curve(matched, width),
            width=width,
            histogram=latency_histogram(matched),
            compared=tuple(name for name in COMPARED if name in compared),
            ordered=arrivals.ordered(job),
            seconds=time.monotonic() - began,
        )

    def _rows(self) -> DataFrame:
        """Fingerprints of all rows, each event once. The table before the archive: rows only move that way."""
        job = self._job
        sides = []
        if job.url is not None:
            frame = self._wanted(self._table(_COLUMNS))
            sides.append(self._kept("reading the outbox", "table", expected(frame, job.ignored)))
        if job.archive is not None:
            frame = self._wanted(read_archive(self._session, job.archive))
            sides.append(self._kept("reading the archive", "archive", expected(frame, job.ignored)))
        if job.archive is None:
            return sides[0]
        both = [side.select(f.lit(rank).alias("rank"), "*") for rank, side in enumerate(sides)]
        union = both[0] if len(both) == 1 else both[0].unionByName(both[1])
        # Where the table has a row again, since a replay took it back, that is what counts; then the newest.
        chosen = f.min(f.struct("rank", (-f.col("place")).alias("back"), *_PRINTS))
        return union.groupBy("event_id").agg(chosen.alias("row")).select("event_id", "row.*").drop("rank", "back")

    def _table(self, columns: Sequence[str]) -> DataFrame:
        job = self._job
        reader = self._session.read.format("openoutbox").option("url", str(job.url)).option("table", str(job.table))
        reader = reader.option("numPartitions", job.partitions).option("maxConnections", job.max_connections)
        return reader.option("columns", ",".join(columns)).option("pushdown", "true").load()

    def _wanted(self, frame: DataFrame) -> DataFrame:
        job = self._job
        if job.since is not None:
            frame = frame.where(f.col("created_at") >= f.lit(job.since))
        if job.until is not None:
            frame = frame.where(f.col("created_at") < f.lit(job.until))
        return frame.where(f.col("event_type").isin(list(job.event_types))) if job.event_types else frame

    def _messages(self, rows: DataFrame) -> DataFrame:
        job = self._job
        if job.has_consumer:
            return arrivals.from_consumer(self._session, job)
        return arrivals.in_kafka(self._session, job, rows)

    def _strangers(self, matched: DataFrame) -> DataFrame:
        """What arrived and has no row, neither among those that were read nor now."""
        job = self._job
        unknown = strangers(matched, None)
        again = []
        if unknown.isEmpty():
            return unknown
        if job.url is not None:
            again.append(self._table(("event_id",)))
        if job.archive is not None:
            again.append(read_archive(self._session, job.archive).select("event_id"))
        self._step = "looking again for events that have no row"
        return strangers(matched, reduce(DataFrame.unionAll, again))

    def _sample(self, found: DataFrame, kind: str) -> list[Row]:
        times = {name: f.unix_micros(name) for name in ("created_at", "arrived_at")}
        return (
            found.where(f.col("kind") == kind).limit(self._job.sample).withColumns(times).drop("delivered_at").collect()
        )

    def _kept(self, step: str, name: str, frame: DataFrame) -> DataFrame:
        """The frame as a file that this run needs."""
        return self._written(step, f"{_WORK}/{name}", frame)

    def _written(self, step: str, name: str, frame: DataFrame) -> DataFrame:
        """The frame as a file below the output."""
        self._step = step
        return kept(frame, f"{self._job.output}/{name}")
