"""The job ``report``: deliveries, failures, retries and latency by event type and hour.

It reads the delivery log or an archive, and writes into ``--output`` only: ``hours``, ``types`` and ``failures`` as
Parquet, and ``summary.json``. It can be run again however it ended; the summary is written last.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from relay.spark.jobs.archive.formats import read_archive
from relay.spark.jobs.archive.model import utc_day
from relay.spark.jobs.folder import WORK, result_folder
from relay.spark.jobs.measures import lasting, latency_seconds
from relay.spark.jobs.parquet import materialize
from relay.spark.jobs.program import print_summary, report_progress, run_job, task_progress
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
from relay.spark.jobs.session import open_session
from relay.spark.jobs.settled import within
from relay.spark.read.deliverylog import DeliveryLogDataSource
from relay.spark.write.observed import show_counts


def _work(job: ReportArguments) -> int:
    session = open_session(job.name, DeliveryLogDataSource, job.remote, job.packages, job.jars)
    start = time.monotonic()
    with (
        result_folder(session, job.output) as summary,
        report_progress("report", lambda: task_progress(session)),
    ):
        outcomes = materialize(_outcomes(session, job), f"{job.output}/{WORK}")
        types = materialize(by_type(outcomes), f"{job.output}/types")
        hours = materialize(by_type_and_hour(outcomes), f"{job.output}/hours")
        materialize(failures(outcomes), f"{job.output}/failures")
        sums = totals(outcomes)
        seconds = time.monotonic() - start
        summary |= {name: sums[name] for name in COUNTS}
        summary |= {"latency_seconds": latency_seconds(sums), "types": types.count(), "hours": hours.count()}
        summary |= {"output": job.output, "seconds": round(seconds, 1)}
    show_counts(session, "openoutbox report", {name: int(sums[name] or 0) for name in COUNTS})
    print_summary(summary, (_sentence(sums), f"{job.output}; {seconds:.1f} s"), as_json=job.as_json)
    return 0


def _sentence(sums: Mapping[str, float | None]) -> str:
    """The result in a line."""
    counts = ", ".join(f"{sums[name]} {name}" for name in COUNTS)
    median, most = sums["latency_p50"], sums["latency_p99"]
    if median is None or most is None:
        return counts
    return f"{counts}; latency p50 {lasting(median)}, p99 {lasting(most)}"


def _outcomes(session: SparkSession, job: ReportArguments) -> DataFrame:
    if job.archive is not None:
        outcomes = from_archive(read_archive(session, job.archive, utc_day(job.since), utc_day(job.until)))
    else:
        reader = session.read.format("openoutbox_deliverylog").options(url=job.log_url, numPartitions=job.partitions)
        reader = reader.options(columns=",".join(LOG_COLUMNS), pushdown="true")
        outcomes = from_log((reader.option("logSchema", job.log_schema) if job.log_schema else reader).load())
    outcomes = within(outcomes, f.col("time"), job.since, job.until)
    return outcomes.where(f.col("type").isin(list(job.event_types))) if job.event_types else outcomes


run: Final = partial(run_job, ReportArguments, _work)
