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

from relay.spark.jobs.archive.arguments import ArchiveJob, read_archive_arguments
from relay.spark.jobs.archive.steps import Archiving, Done, archiving
from relay.spark.jobs.program import guarded, reporting, started, tasks, tell
from relay.spark.source import OutboxDataSource


def main(program: str = "archive.py", given: Sequence[str] | None = None) -> int:
    """Run the job with the process's arguments; the exit code."""
    return run(program, sys.argv[1:] if given is None else given)


def run(program: str, given: Sequence[str], *, url: str | None = None, table: str | None = None) -> int:
    """Run the job; ``url`` and ``table`` are used where the arguments name none. The exit code."""
    return guarded(lambda: _work(read_archive_arguments(program, given, url=url, table=table)))


def _work(job: ArchiveJob) -> int:
    spark = started("archive")
    spark.dataSource.register(OutboxDataSource)
    began = time.monotonic()
    with archiving(spark, job.options) as archive, reporting("archive", lambda: tasks(spark)):
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
        tell(json.dumps({"dry_run": True, "rows": total, "before": archive.done.before.isoformat(), "found": listed}))
        return
    for status, kind, count in found:
        tell(f"{status} {kind}: {count} rows")
    tell(f"would archive {total} rows from before {archive.done.before.isoformat()}")


def _summarise(done: Done, job: ArchiveJob, seconds: float) -> None:
    if job.as_json:
        told = {
            "run": done.run,
            "before": done.before.isoformat(),
            "archived": done.archived,
            "files": done.files,
            "deleted": done.deleted,
            "left": done.left,
            "kept": job.options.keep,
            "recovered": done.recovered,
            "discarded": done.discarded,
            "seconds": round(seconds, 1),
        }
        tell(json.dumps(told))
        return
    for run in done.discarded:
        tell(f"run {run} had not come to an end: its files were discarded")
    for run in done.recovered:
        tell(f"run {run} had not come to an end: its rows have been deleted now")
    pace = f"{seconds:.1f} s; run {done.run}"
    if job.options.keep:
        tell(f"{done.archived} rows archived in {done.files} files, and kept in the table; {pace}")
        return
    left = f", {done.left} left since they changed meanwhile" if done.left else ""
    tell(f"{done.archived} rows archived in {done.files} files, {done.deleted} deleted{left}; {pace}")
