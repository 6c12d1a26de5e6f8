"""The job ``report``: deliveries, failures, retries and latency by event type and hour.

    spark-submit deploy/spark/report.py --output FOLDER … (on a cluster: driver and executors need both wheels)
    relay-cli spark report --output FOLDER …

It reads the delivery log or an archive, and writes into ``--output`` only: ``hours``, ``types`` and ``failures`` as
Parquet, ``index.html`` for people. Progress goes to standard error, the summary to standard output. Exit codes: 0 done,
1 failed, 2 wrong arguments, 130 interrupted. It can be run again however it ended; the page is written last.
"""

from __future__ import annotations

import json
import time
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from relay.spark.jobs.archive.formats import read_archive
from relay.spark.jobs.folder import Folder
from relay.spark.jobs.measures import bucket_width, histogram
from relay.spark.jobs.parquet import materialize
from relay.spark.jobs.program import (
    Program,
    print_result,
    report_progress,
    task_progress,
)
from relay.spark.jobs.report.arguments import ReportArguments
from relay.spark.jobs.report.outcomes import (
    COUNTS,
    LOG_COLUMNS,
    by_type,
    by_type_and_hour,
    curve,
    failures,
    from_archive,
    from_log,
    totals,
)
from relay.spark.jobs.report.page import ReportResult, page, sentence, summary
from relay.spark.jobs.session import open_session, session_settings
from relay.spark.jobs.webpage import NAME, publish_page
from relay.spark.page.document import render
from relay.spark.read.deliverylog import DeliveryLogDataSource
from relay.spark.write.observed import show_counts

_WORK: Final = "_work"
_CODES: Final = 20


def _work(job: ReportArguments) -> int:
    session = open_session(job.name, DeliveryLogDataSource, job.remote, session_settings(job.packages, job.jars))
    start = time.monotonic()
    folder = Folder(session, job.output)
    folder.delete(NAME)
    try:
        with report_progress("report", lambda: task_progress(session)):
            result = _measure(session, job, start)
            address = publish_page(folder, job.page, render(page(job, result)))
    finally:
        folder.delete(_WORK)
    show_counts(session, "openoutbox report", {name: int(result.totals[name] or 0) for name in COUNTS})
    if job.as_json:
        print_result(json.dumps(summary(job, result)))
    else:
        print_result(sentence(result))
        print_result(f"{address}; {result.seconds:.1f} s")
    return 0


def _measure(session: SparkSession, job: ReportArguments, start: float) -> ReportResult:
    outcomes = materialize(_outcomes(session, job), f"{job.output}/{_WORK}")
    types = materialize(by_type(outcomes), f"{job.output}/types")
    hours = materialize(by_type_and_hour(outcomes), f"{job.output}/hours")
    codes = materialize(failures(outcomes), f"{job.output}/failures")
    sums = totals(outcomes)
    width = bucket_width(int(sums["first"] or 0), int(sums["last"] or 0))
    return ReportResult(
        totals=sums,
        types=types.orderBy(f.desc(f.col("delivered") + f.col("failed")), "type").limit(job.types).collect(),
        type_count=types.count(),
        hour_count=hours.count(),
        codes=codes.orderBy(f.desc("count"), "code").limit(_CODES).collect(),
        code_count=codes.count(),
        curve=curve(outcomes, width),
        width=width,
        histogram=histogram(outcomes, f.col("latency")),
        seconds=time.monotonic() - start,
    )


def _outcomes(session: SparkSession, job: ReportArguments) -> DataFrame:
    if job.archive is not None:
        days = (job.since.date() if job.since else None, job.until.date() if job.until else None)
        outcomes = from_archive(read_archive(session, job.archive, *days))
    else:
        reader = session.read.format("openoutbox_deliverylog").option("url", str(job.log_url))
        reader = reader.option("numPartitions", job.partitions).option("maxConnections", job.max_connections)
        reader = reader.option("columns", ",".join(LOG_COLUMNS)).option("pushdown", "true")
        outcomes = from_log((reader.option("logSchema", job.log_schema) if job.log_schema else reader).load())
    if job.since is not None:
        outcomes = outcomes.where(f.col("time") >= f.lit(job.since))
    if job.until is not None:
        outcomes = outcomes.where(f.col("time") < f.lit(job.until))
    return outcomes.where(f.col("type").isin(list(job.event_types))) if job.event_types else outcomes


_PROGRAM: Final = Program(ReportArguments, _work)
main = _PROGRAM.main
run = _PROGRAM.run
