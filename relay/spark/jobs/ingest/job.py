"""The job ``ingest``: write what Spark can read into the outbox."""

from __future__ import annotations

import time
import uuid
from functools import partial
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from relay.spark.jobs.ingest.arguments import IngestArguments
from relay.spark.jobs.ingest.preview import preview
from relay.spark.jobs.ingest.shape import shape
from relay.spark.jobs.program import print_result, report_progress, run_job, task_progress
from relay.spark.jobs.session import open_session
from relay.spark.source import OutboxDataSource
from relay.spark.write.observed import OBSERVATION, show_counts, show_run
from relay.spark.write.runs import stream_summary
from relay.spark.write.write_options import write_options


def _work(job: IngestArguments) -> int:
    session = open_session(job.name, OutboxDataSource, job.remote)
    events, keys = shape(_source(session, job), job)
    options = _write_options(job, keys)
    if job.dry_run:
        for line in preview(events, write_options(options)):
            print_result(line)
    elif job.stream:
        _stream(events, job, options)
    else:
        _batch(events, job, options)
    return 0


def _source(session: SparkSession, job: IngestArguments) -> DataFrame:
    """The source's rows; for a dry run of a stream its present rows."""
    streams = job.stream and not job.dry_run
    if job.source_table is not None:
        frame = session.readStream.table(job.source_table) if streams else session.table(job.source_table)
    elif streams:
        reader = session.readStream.format(job.format).options(**dict(job.source_options))
        # A stream of files needs a schema: infer it from the present files.
        schema = job.schema or (_present(session, job).schema if job.inputs else None)
        frame = (reader.schema(schema) if schema else reader).load(*job.inputs)
    else:
        frame = _present(session, job)
    return frame.where(job.where) if job.where else frame


def _present(session: SparkSession, job: IngestArguments) -> DataFrame:
    reader = session.read.format(job.format).options(**dict(job.source_options))
    return (reader.schema(job.schema) if job.schema else reader).load(list(job.inputs) or None)


def _write_options(job: IngestArguments, keys: tuple[str, ...]) -> dict[str, str]:
    """Options of ``format("openoutbox")``; a dry run, which connects to no database, may have no URL."""
    options = {
        "url": job.url or "postgresql://",
        "table": str(job.table),
        "commit": job.commit,
        "numPartitions": str(job.max_connections),
        "batchsize": str(job.batch_rows),
    }
    if job.job is not None:
        options["txnAppId"] = job.job
    if keys:
        options["idColumns"] = ",".join(keys)
    return options


def _batch(events: DataFrame, job: IngestArguments, options: dict[str, str]) -> None:
    if job.partitions:
        events = events.repartition(job.partitions)
    run_id = uuid.uuid4()
    start = time.monotonic()
    writer = events.write.format("openoutbox").mode("append").options(**options)
    with report_progress("ingest", lambda: task_progress(events.sparkSession)):
        writer.option("runId", str(run_id)).save()
    summary = show_run(events.sparkSession, job.url or "", run_id)
    _print_summary(summary.rows, summary.new, time.monotonic() - start, f"run {run_id}")


def _stream(events: DataFrame, job: IngestArguments, options: dict[str, str]) -> None:
    observed = events.observe(OBSERVATION, f.count(f.lit(1)).alias("rows"))  # in each micro-batch's progress
    writer = observed.writeStream.format("openoutbox").options(**options)
    writer = writer.option("checkpointLocation", str(job.checkpoint))
    if job.trigger == "available-now":
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=job.trigger)
    start = time.monotonic()
    query = writer.start()
    try:
        with report_progress("ingest", lambda: _micro_batch(query)):
            query.awaitTermination()
    finally:
        query.stop()
        seconds = time.monotonic() - start
        written, inserted = stream_summary(write_options(options), str(query.id), seconds)
        _print_summary(written, inserted, seconds, f"query {query.id}")
    counts = {"rows": written, "new": inserted, "skipped": written - inserted}
    show_counts(events.sparkSession, f"openoutbox query {query.id}, {seconds:.1f} s", counts)


def _micro_batch(query: StreamingQuery) -> str:
    last = query.lastProgress
    return f"micro-batch {last.batchId}: {last.numInputRows} rows" if last else "waiting for the first micro-batch"


def _print_summary(written: int, inserted: int, seconds: float, name: str) -> None:
    pace = f"{written / seconds:.0f} rows/s" if seconds else ""
    print_result(f"{written} rows: {inserted} new, {written - inserted} there already; {seconds:.1f} s, {pace}; {name}")


run: Final = partial(run_job, IngestArguments, _work)
