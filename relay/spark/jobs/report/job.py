"""The job ``report``: deliveries, failures, retries and latency by event type and hour.

    spark-submit deploy/spark/report.py --output FOLDER … (on a cluster: driver and executors need both wheels)
    relay-cli spark report --output FOLDER …

It reads the delivery log or an archive, and writes into ``--output`` only: ``hours``, ``types`` and ``failures`` as
Parquet, and ``summary.json``. Progress goes to standard error, the summary to standard output. Exit codes: 0 done,
1 failed, 2 wrong arguments, 130 interrupted. It can be run again however it ended; the summary is written last.
"""

from __future__ import annotations

import json
import time
from functools import partial
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from relay.spark.jobs.archive.formats import read_archive
from relay.spark.jobs.folder import SUMMARY, folder_at
from relay.spark.jobs.parquet import materialize
from relay.spark.jobs.program import print_result, report_progress, run_job, task_progress
from relay.spark.jobs.report.arguments import ReportArguments
from relay.spark.jobs.report.outcomes import (
    COUNTS,
    LOG_COLUMNS,
    by_type,
    by_type_and_hour,
    failures,
    from_archive,
    from_log,
    totals,
)
from relay.spark.jobs.report.result import ReportResult, sentence, summary
from relay.spark.jobs.session import open_session, session_settings
from relay.spark.read.deliverylog import DeliveryLogDataSource
from relay.spark.write.observed import show_counts

_WORK: Final = "_work"


def _work(job: ReportArguments) -> int:
    session = open_session(job.name, DeliveryLogDataSource, job.remote, session_settings(job.packages, job.jars))
    start = time.monotonic()
    folder = folder_at(session, job.output)
    folder.delete(SUMMARY)
    try:
        with report_progress("report", lambda: task_progress(session)):
            result = _measure(session, job, start)
            folder.write(SUMMARY, json.dumps(summary(job, result)))
    finally:
        folder.delete(_WORK)
    show_counts(session, "openoutbox report", {name: int(result.totals[name] or 0) for name in COUNTS})
    if job.as_json:
        print_result(json.dumps(summary(job, result)))
    else:
        print_result(sentence(result))
        print_result(f"{job.output}; {result.seconds:.1f} s")
    return 0


def _measure(session: SparkSession, job: ReportArguments, start: float) -> ReportResult:
    outcomes = materialize(_outcomes(session, job), f"{job.output}/{_WORK}")
    types = materialize(by_type(outcomes), f"{job.output}/types")
    hours = materialize(by_type_and_hour(outcomes), f"{job.output}/hours")
    materialize(failures(outcomes), f"{job.output}/failures")
    return ReportResult(totals(outcomes), types.count(), hours.count(), time.monotonic() - start)


def _outcomes(session: SparkSession, job: ReportArguments) -> DataFrame:
    if job.archive is not None:
        days = (job.since.date() if job.since else None, job.until.date() if job.until else None)
        outcomes = from_archive(read_archive(session, job.archive, *days))
    else:
        reader = session.read.format("openoutbox_deliverylog").option("url", str(job.log_url))
        reader = reader.option("numPartitions", job.partitions)
        reader = reader.option("columns", ",".join(LOG_COLUMNS)).option("pushdown", "true")
        outcomes = from_log((reader.option("logSchema", job.log_schema) if job.log_schema else reader).load())
    if job.since is not None:
        outcomes = outcomes.where(f.col("time") >= f.lit(job.since))
    if job.until is not None:
        outcomes = outcomes.where(f.col("time") < f.lit(job.until))
    return outcomes.where(f.col("type").isin(list(job.event_types))) if job.event_types else outcomes


run: Final = partial(run_job, ReportArguments, _work)
