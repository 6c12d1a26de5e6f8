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

from relay.spark.jobs.program import guarded, reporting, started, tasks, tell
from relay.spark.jobs.replay.arguments import ReplayJob, read_replay_arguments
from relay.spark.jobs.replay.steps import CopyResult, Found, find, replay
from relay.spark.source import OutboxDataSource


def main(program: str = "replay.py", given: Sequence[str] | None = None) -> int:
    """Run the job with the process's arguments; the exit code."""
    return run(program, sys.argv[1:] if given is None else given)


def run(program: str, given: Sequence[str], *, url: str | None = None, table: str | None = None) -> int:
    """Run the job; ``url`` and ``table`` are used where the arguments name none. The exit code."""
    return guarded(lambda: _work(read_replay_arguments(program, given, url=url, table=table)))


def _work(job: ReplayJob) -> int:
    spark = started("replay")
    spark.dataSource.register(OutboxDataSource)
    if job.dry_run:
        _preview(find(spark, job.options), job)
        return 0
    sys.stderr.write(f"replay: its id is {job.options.replay_id}\n")
    began = time.monotonic()
    with reporting("replay", lambda: tasks(spark)):
        done = replay(spark, job.options)
    _summarise(done, job, time.monotonic() - began)
    return 1 if done.recent else 0


def _preview(found: Found, job: ReplayJob) -> None:
    if job.as_json:
        told = {"dry_run": True, "events": found.events, "delivered": found.delivered, "dead": found.dead}
        tell(json.dumps({**told, "recent": found.recent}))
        return
    recent = f"; {found.recent} of them within the duplicate window" if found.recent else ""
    tell(f"would replay {found.events} events: {found.delivered} delivered, {found.dead} dead{recent}")


def _summarise(done: CopyResult, job: ReplayJob, seconds: float) -> None:
    replay_id = str(job.options.replay_id)
    if job.as_json:
        told = {"replay_id": replay_id, "inserted": done.inserted, "total": done.total}
        tell(json.dumps({**told, "recent": done.recent, "waiting": done.waiting, "seconds": round(seconds, 1)}))
        return
    tell(f"{done.inserted} events inserted, {done.total} by this replay in all; {seconds:.1f} s; replay {replay_id}")
    if done.waiting:
        tell(f"{done.waiting} events are on their way already and were left alone")
    if done.recent:
        tell(
            f"{done.recent} events were delivered so lately that NATS would drop them: go on later with the same "
            f"arguments and --replay-id {replay_id}"
        )
