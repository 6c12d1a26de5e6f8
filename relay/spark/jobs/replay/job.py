"""The job ``replay``: insert copies of past events into the outbox, from an archive or from the table.

The replay's id goes to standard error too. It can be run again with the same arguments and its id, however it ended:
``relay.spark.jobs.replay.steps`` says why.
"""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from functools import partial
from typing import Final

from relay.spark.jobs.program import print_summary, report_progress, run_job, task_progress
from relay.spark.jobs.replay.arguments import ReplayArguments
from relay.spark.jobs.replay.steps import ReplayPreview, ReplayResult, preview, replay
from relay.spark.jobs.session import open_session
from relay.spark.source import OutboxDataSource
from relay.spark.write.observed import show_counts


def _work(job: ReplayArguments) -> int:
    spark = open_session(job.name, OutboxDataSource, job.remote)
    if job.dry_run:
        with report_progress("replay", lambda: task_progress(spark)):
            events = preview(spark, job)
        _print_preview(events, job)
        return 0
    sys.stderr.write(f"replay: its id is {job.replay_id}\n")
    start = time.monotonic()
    with report_progress("replay", lambda: task_progress(spark)):
        result = replay(spark, job)
    show_counts(spark, f"openoutbox replay {job.replay_id}", asdict(result))
    _print_summary(result, job, time.monotonic() - start)
    return 1 if result.recent else 0


def _print_preview(events: ReplayPreview, job: ReplayArguments) -> None:
    recent = f"; {events.recent} of them within the duplicate window" if events.recent else ""
    line = f"would replay {events.events} events: {events.delivered} delivered, {events.dead} dead{recent}"
    print_summary({"dry_run": True, **asdict(events)}, [line], as_json=job.as_json)


def _print_summary(result: ReplayResult, job: ReplayArguments, seconds: float) -> None:
    replay_id = str(job.replay_id)
    counts = f"{result.inserted} events inserted, {result.total} by this replay in all"
    lines = [f"{counts}; {seconds:.1f} s; replay {replay_id}"]
    if result.waiting:
        lines.append(f"{result.waiting} events are PENDING or DELIVERING already and stay as they are")
    if result.recent:
        lines.append(
            f"{result.recent} events were delivered within the duplicate window, so NATS would drop their copies: run "
            f"it again later with the same arguments and --replay-id {replay_id}"
        )
    summary = {"replay_id": replay_id, **asdict(result), "seconds": round(seconds, 1)}
    print_summary(summary, lines, as_json=job.as_json)


run: Final = partial(run_job, ReplayArguments, _work)
