"""The job ``archive``: move delivered and dead events above an age from the outbox to Parquet files.

    spark-submit deploy/spark/archive.py ARCHIVE … (on a cluster: the driver and the executors need both wheels)
    relay-cli spark archive ARCHIVE …

Progress goes to standard error, a line every ten seconds; the summary to standard output. Exit codes: 0 done, 1 failed,
2 wrong arguments, 130 interrupted. It can be run again however it ended: ``relay.spark.jobs.archive.steps`` says why.
"""

from __future__ import annotations

import json
import time
from functools import partial
from typing import Final

from pyspark.sql import functions as f

from relay.core.durations import time_text
from relay.spark.jobs.archive.arguments import ArchiveArguments
from relay.spark.jobs.archive.steps import ArchiveProgress, ArchiveRun, archive_run
from relay.spark.jobs.program import print_result, report_progress, run_job, task_progress
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
    groups = [tuple(row) for row in counts.orderBy("status", "event_type").collect()]
    total = sum(count for _, _, count in groups)
    if as_json:
        listed = [{"status": status, "event_type": kind, "rows": count} for status, kind, count in groups]
        preview = {"dry_run": True, "rows": total, "before": time_text(archive.progress.before), "found": listed}
        print_result(json.dumps(preview))
        return
    for status, kind, count in groups:
        print_result(f"{status} {kind}: {count} rows")
    print_result(f"would archive {total} rows from before {time_text(archive.progress.before)}")


def _print_summary(progress: ArchiveProgress, job: ArchiveArguments, seconds: float) -> None:
    if job.as_json:
        summary = {
            "run": progress.run,
            "before": time_text(progress.before),
            "archived": progress.archived,
            "files": progress.files,
            "deleted": progress.deleted,
            "left": progress.left,
            "kept": job.keep,
            "recovered": progress.recovered,
            "discarded": progress.discarded,
            "seconds": round(seconds, 1),
        }
        print_result(json.dumps(summary))
        return
    for run in progress.discarded:
        print_result(f"run {run} did not end: its files were discarded")
    for run in progress.recovered:
        print_result(f"run {run} did not end: its rows were deleted now")
    pace = f"{seconds:.1f} s; run {progress.run}"
    if job.keep:
        print_result(f"{progress.archived} rows archived in {progress.files} files and left in the table; {pace}")
        return
    left = f", {progress.left} left in the table since they changed meanwhile" if progress.left else ""
    print_result(
        f"{progress.archived} rows archived in {progress.files} files, {progress.deleted} deleted{left}; {pace}"
    )


run: Final = partial(run_job, ArchiveArguments, _work)
