"""The job ``archive``: move delivered and dead events above an age from the outbox to Parquet files.

It can be run again however it ended: ``relay.spark.jobs.archive.steps`` says why.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from functools import partial
from typing import Final

from pyspark.sql import functions as f

from relay.core.durations import time_text
from relay.spark.jobs.archive.arguments import ArchiveArguments
from relay.spark.jobs.archive.steps import ArchiveProgress, ArchiveRun, archive_run
from relay.spark.jobs.program import print_summary, report_progress, run_job, task_progress
from relay.spark.jobs.session import open_session
from relay.spark.source import OutboxDataSource
from relay.spark.write.observed import show_counts


def _work(job: ArchiveArguments) -> int:
    spark = open_session(job.name, OutboxDataSource, job.remote)
    start = time.monotonic()
    with archive_run(spark, job) as archive, report_progress("archive", lambda: task_progress(spark)):
        if job.dry_run:
            _print_preview(archive, as_json=job.as_json)
        else:
            progress = archive.run()
            counts = {name: getattr(progress, name) for name in ("archived", "files", "deleted", "left")}
            show_counts(spark, f"openoutbox archive {progress.run}", counts)
            _print_summary(progress, job, time.monotonic() - start)
    return 0


def _print_preview(archive: ArchiveRun, *, as_json: bool) -> None:
    """Print the number of rows of each status and type."""
    rows = archive.selected(("status", "event_type", "delivered_at", "updated_at"))
    counts = rows.groupBy("status", "event_type").agg(f.count(f.lit(1)).alias("rows"))
    groups = [row.asDict() for row in counts.orderBy("status", "event_type").collect()]
    total, before = sum(group["rows"] for group in groups), time_text(archive.progress.before)
    lines = ["{status} {event_type}: {rows} rows".format(**group) for group in groups]
    print_summary(
        {"dry_run": True, "rows": total, "before": before, "found": groups},
        [*lines, f"would archive {total} rows from before {before}"],
        as_json=as_json,
    )


def _print_summary(progress: ArchiveProgress, job: ArchiveArguments, seconds: float) -> None:
    lines = [f"run {run} did not end: its files were discarded" for run in progress.discarded]
    lines += [f"run {run} did not end: its rows were deleted now" for run in progress.recovered]
    left = f", {progress.left} left in the table since they changed meanwhile" if progress.left else ""
    end = " and left in the table" if job.keep else f", {progress.deleted} deleted{left}"
    lines.append(
        f"{progress.archived} rows archived in {progress.files} files{end}; {seconds:.1f} s; run {progress.run}"
    )
    summary = {**asdict(progress), "before": time_text(progress.before), "kept": job.keep, "seconds": round(seconds, 1)}
    print_summary(summary, lines, as_json=job.as_json)


run: Final = partial(run_job, ArchiveArguments, _work)
