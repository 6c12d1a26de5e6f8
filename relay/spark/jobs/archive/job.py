"""The job ``archive``: delivered and dead events that are old enough, from the outbox to Parquet files.

    spark-submit deploy/spark/archive.py ARCHIVE … (on a cluster: the driver and the executors need this wheel)
    relay-cli spark archive ARCHIVE …

Progress goes to standard error, a line every ten seconds; the summary to standard output. Exit codes: 0 done, 1 failed,
2 wrong arguments, 130 interrupted. However it ends, it may be run again: ``relay.spark.jobs.archive.steps`` says why.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence

from pyspark.sql import functions as f

from relay.spark.jobs.archive.arguments import ArchiveArguments
from relay.spark.jobs.archive.steps import Archiving, Done, archiving
from relay.spark.jobs.program import open_session, print_result, report_progress, run_job, task_progress
from relay.spark.source import OutboxDataSource


def main(program: str = "archive.py") -> int:
    """Run the job with the process's arguments; the exit code."""
    return run(program, sys.argv[1:])


def run(program: str, arguments: Sequence[str], **environment: str) -> int:
    """Run the job; ``environment`` has texts for options that are left out. Returns the exit code."""
    return run_job(ArchiveArguments, _work, program, arguments, environment)


def _work(job: ArchiveArguments) -> int:
    spark = open_session(job.name)
    spark.dataSource.register(OutboxDataSource)
    began = time.monotonic()
    with archiving(spark, job) as archive, report_progress("archive", lambda: task_progress(spark)):
        if job.dry_run:
            _preview(archive, as_json=job.as_json)
        else:
            _summarise(archive.run(), job, time.monotonic() - began)
    return 0


def _preview(archive: Archiving, *, as_json: bool) -> None:
    """What is there for each status and type."""
    rows = archive.selected(("status", "event_type", "delivered_at", "updated_at"))
    counts = rows.groupBy("status", "event_type").agg(f.count(f.lit(1)).alias("rows"))
    found = [tuple(row) for row in counts.orderBy("status", "event_type").collect()]
    total = sum(count for _, _, count in found)
    if as_json:
        listed = [{"status": status, "event_type": kind, "rows": count} for status, kind, count in found]
        print_result(
            json.dumps({"dry_run": True, "rows": total, "before": archive.done.before.isoformat(), "found": listed})
        )
        return
    for status, kind, count in found:
        print_result(f"{status} {kind}: {count} rows")
    print_result(f"would archive {total} rows from before {archive.done.before.isoformat()}")


def _summarise(done: Done, job: ArchiveArguments, seconds: float) -> None:
    if job.as_json:
        told = {
            "run": done.run,
            "before": done.before.isoformat(),
            "archived": done.archived,
            "files": done.files,
            "deleted": done.deleted,
            "left": done.left,
            "kept": job.keep,
            "recovered": done.recovered,
            "discarded": done.discarded,
            "seconds": round(seconds, 1),
        }
        print_result(json.dumps(told))
        return
    for run in done.discarded:
        print_result(f"run {run} had not come to an end: its files were discarded")
    for run in done.recovered:
        print_result(f"run {run} had not come to an end: its rows have been deleted now")
    pace = f"{seconds:.1f} s; run {done.run}"
    if job.keep:
        print_result(f"{done.archived} rows archived in {done.files} files, and kept in the table; {pace}")
        return
    left = f", {done.left} left since they changed meanwhile" if done.left else ""
    print_result(f"{done.archived} rows archived in {done.files} files, {done.deleted} deleted{left}; {pace}")
