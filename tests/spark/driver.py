"""A driver as a process of its own: ``python -m tests.spark.driver MASTER JOBS``.

JOBS is a JSON list; its members are done one after the other by one session. A driver that is killed says nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.spark.faults import FaultySource
from tests.support.paths import ROOT
from tests.support.servers.spark import SESSION, environment


@dataclass(frozen=True)
class Job:
    """One write. Rows have a ``number``; with a ``folder`` it is a stream of the files there."""

    options: dict[str, str]
    format: str = "openoutbox"
    rows: int = 0
    partitions: int = 2
    folder: str | None = None
    checkpoint: str | None = None
    conf: dict[str, str] = field(default_factory=dict)


def run_driver(master: str, *jobs: Job, deadline: float = 400, python_path: str | None = None) -> Any:
    """Run a driver to its end; what became of the process."""
    env = environment()
    if python_path is not None:
        env["PYTHONPATH"] = python_path
    command = [
        sys.executable,
        "-m",
        "tests.spark.driver",
        master,
        json.dumps([asdict(job) for job in jobs]),
    ]
    return subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=deadline, check=False)


def events(frame: DataFrame) -> DataFrame:
    """Events of a frame that has a ``number``."""
    return frame.select(
        f.lit("orders.created").alias("event_type"), f.struct("number").alias("payload"), f.col("number")
    )


def _work(session: SparkSession, job: Job) -> None:
    if job.folder is None:
        frame = events(session.range(0, job.rows, 1, job.partitions).withColumnRenamed("id", "number"))
        frame = frame if "idColumns" in job.options else frame.drop("number")
        frame.write.format(job.format).mode("append").options(**job.options).save()
        return
    source = session.readStream.schema("number long").option("maxFilesPerTrigger", "1").json(job.folder)
    writer = events(source).drop("number").writeStream.format(job.format).options(**job.options)
    query = writer.option("checkpointLocation", str(job.checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()


def main() -> None:
    """Do the jobs."""
    jobs = [Job(**each) for each in json.loads(sys.argv[2])]
    builder = SparkSession.Builder().master(sys.argv[1]).appName("driver")
    for name, value in {**SESSION, **{name: value for job in jobs for name, value in job.conf.items()}}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.dataSource.register(FaultySource)
    for job in jobs:
        _work(session, job)
    session.stop()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # the JVM is stopped; threads that wait for it need not be
