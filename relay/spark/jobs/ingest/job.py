"""The job ``ingest``: whatever Spark can read, into the outbox.

    spark-submit deploy/spark/ingest.py … (on a cluster: the driver and the executors need this wheel)
    relay-cli spark ingest …

Progress goes to standard error, a line every ten seconds; the summary, or a dry run's rows, to standard output. Exit
codes: 0 done, 1 failed, 2 wrong arguments, 130 interrupted (a stream ends so in good order).
"""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from relay.core.errors import ConfigError
from relay.postgres.url import check_url
from relay.spark.jobs.ingest.arguments import Ingest, read_arguments
from relay.spark.jobs.ingest.preview import preview
from relay.spark.jobs.ingest.shape import shape
from relay.spark.jobs.program import guarded, reporting, tasks, tell
from relay.spark.source import OutboxDataSource
from relay.spark.write.options import WriteOptions, write_options
from relay.spark.write.runs import run_summary, stream_summary

_NO_URL: Final = "--url or --url-file: missing; where is the outbox's database?"


def main(program: str = "ingest.py", given: Sequence[str] | None = None) -> int:
    """Run the job with the process's arguments; the exit code."""
    return run(program, sys.argv[1:] if given is None else given)


def run(program: str, given: Sequence[str], *, url: str | None = None, table: str | None = None) -> int:
    """Run the job; ``url`` and ``table`` are used where the arguments name none. The exit code."""

    def work() -> int:
        job = read_arguments(program, given, url=url, table=table)
        session = SparkSession.Builder().appName("openoutbox-ingest").getOrCreate()
        session.dataSource.register(OutboxDataSource)
        _work(session, job)
        return 0

    return guarded(work)


def _work(session: SparkSession, job: Ingest) -> None:
    if job.dry_run:
        frame, keys = shape(_read(session, job), job.shape)
        for line in preview(frame, _options(job, keys, "postgresql://nowhere")):
            tell(line)
    elif job.url is None:
        raise ConfigError(_NO_URL)
    elif job.stream:
        _stream(session, job, job.url)
    else:
        _batch(session, job, job.url)


def _read(session: SparkSession, job: Ingest) -> DataFrame:
    """The source's rows; for a dry run of a stream those that are there now."""
    if job.stream and not job.dry_run:
        frame = _stream_source(session, job)
    elif job.source_table is not None:
        frame = session.table(job.source_table)
    else:
        reader = session.read.format(job.format).options(**dict(job.source_options))
        reader = reader.schema(job.schema) if job.schema else reader
        frame = reader.load(list(job.inputs)) if job.inputs else reader.load()
    return frame.where(job.where) if job.where else frame


def _stream_source(session: SparkSession, job: Ingest) -> DataFrame:
    if job.source_table is not None:
        return session.readStream.table(job.source_table)
    if len(job.inputs) > 1:
        raise ConfigError("PATH: a stream reads one folder")
    reader = session.readStream.format(job.format).options(**dict(job.source_options))
    if job.schema:
        reader = reader.schema(job.schema)
    elif job.inputs:  # files: Spark wants to be told what is in them, so look at those that are there
        there = session.read.format(job.format).options(**dict(job.source_options)).load(list(job.inputs))
        reader = reader.schema(there.schema)
    return reader.load(*job.inputs)


def _options(job: Ingest, keys: tuple[str, ...], url: str) -> WriteOptions:
    return write_options({**_given(job, keys), "url": url})


def _given(job: Ingest, keys: tuple[str, ...]) -> dict[str, str]:
    given = dict(job.write_options)
    return {**given, "idColumns": ",".join(keys)} if keys else given


def _batch(session: SparkSession, job: Ingest, url: str) -> None:
    check_url(url, "--url")
    frame, keys = shape(_read(session, job), job.shape)
    options = _options(job, keys, url)
    if job.partitions:
        frame = frame.repartition(job.partitions)
    run_id = uuid.uuid4()
    began = time.monotonic()
    writer = frame.write.format("openoutbox").mode("append").options(**_given(job, keys))
    with reporting("ingest", lambda: tasks(session)):
        writer.option("url", url).option("runId", str(run_id)).save()
    written, inserted = run_summary(options, run_id)
    _summarise(written, inserted, time.monotonic() - began, f"run {run_id}")


def _stream(session: SparkSession, job: Ingest, url: str) -> None:
    check_url(url, "--url")
    frame, keys = shape(_read(session, job), job.shape)
    options = _options(job, keys, url)
    writer = frame.writeStream.format("openoutbox").options(**_given(job, keys)).option("url", url)
    writer = writer.option("checkpointLocation", str(job.checkpoint))
    if job.trigger == "available-now":
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=job.trigger)
    began = time.monotonic()
    query = writer.start()
    try:
        with reporting("ingest", lambda: _epochs(query)):
            query.awaitTermination()
    finally:
        query.stop()
        written, inserted = stream_summary(options, str(query.id), time.monotonic() - began)
        _summarise(written, inserted, time.monotonic() - began, f"query {query.id}")


def _epochs(query: StreamingQuery) -> str:
    last = query.lastProgress
    return f"micro-batch {last.batchId}: {last.numInputRows} rows" if last else "waiting for the first micro-batch"


def _summarise(written: int, inserted: int, seconds: float, name: str) -> None:
    pace = f"{written / seconds:.0f} rows/s" if seconds else ""
    tell(f"{written} rows: {inserted} new, {written - inserted} there already; {seconds:.1f} s, {pace}; {name}")
