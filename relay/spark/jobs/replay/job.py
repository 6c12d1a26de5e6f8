"""The job ``replay``: events of the past into the outbox again, from an archive or from the table.

    spark-submit deploy/spark/replay.py … (on a cluster: the driver and the executors need this wheel)
    relay-cli spark replay …

The replay's id and progress go to standard error, the summary to standard output. Exit codes: 0 done, 1 failed, or
something was left out since the broker would drop it, 2 wrong arguments, 130 interrupted. However it ends, it may be
run again with the same arguments and its id: ``relay.spark.jobs.replay.steps`` says why.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence

from relay.spark.jobs.program import open_session, print_result, report_progress, run_job, task_progress
from relay.spark.jobs.replay.arguments import ReplayArguments
from relay.spark.jobs.replay.steps import CopyResult, Found, find, replay
from relay.spark.source import OutboxDataSource


def main(program: str = "replay.py") -> int:
    """Run the job with the process's arguments; the exit code."""
    return run(program, sys.argv[1:])


def run(program: str, arguments: Sequence[str], **environment: str) -> int:
    """Run the job; ``environment`` has texts for options that are left out. Returns the exit code."""
    return run_job(ReplayArguments, _work, program, arguments, environment)


def _work(job: ReplayArguments) -> int:
    spark = open_session(job.name)
    spark.dataSource.register(OutboxDataSource)
    if job.dry_run:
        _preview(find(spark, job), job)
        return 0
    sys.stderr.write(f"replay: its id is {job.replay_id}\n")
    began = time.monotonic()
    with report_progress("replay", lambda: task_progress(spark)):
        done = replay(spark, job)
    _summarise(done, job, time.monotonic() - began)
    return 1 if done.recent else 0


def _preview(found: Found, job: ReplayArguments) -> None:
    if job.as_json:
        told = {"dry_run": True, "events": found.events, "delivered": found.delivered, "dead": found.dead}
        print_result(json.dumps({**told, "recent": found.recent}))
        return
    recent = f"; {found.recent} of them within the duplicate window" if found.recent else ""
    print_result(f"would replay {found.events} events: {found.delivered} delivered, {found.dead} dead{recent}")


def _summarise(done: CopyResult, job: ReplayArguments, seconds: float) -> None:
    replay_id = str(job.replay_id)
    if job.as_json:
        told = {"replay_id": replay_id, "inserted": done.inserted, "total": done.total}
        print_result(json.dumps({**told, "recent": done.recent, "waiting": done.waiting, "seconds": round(seconds, 1)}))
        return
    print_result(
        f"{done.inserted} events inserted, {done.total} by this replay in all; {seconds:.1f} s; replay {replay_id}"
    )
    if done.waiting:
        print_result(f"{done.waiting} events are on their way already and were left alone")
    if done.recent:
        print_result(
            f"{done.recent} events were delivered so lately that NATS would drop them: go on later with the same "
            f"arguments and --replay-id {replay_id}"
        )
