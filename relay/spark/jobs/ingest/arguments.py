"""The arguments of the job ``ingest``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final

from relay.postgres.sql import TableName
from relay.spark.jobs.arguments import (
    FLAG,
    SPARK_OPTION,
    Arguments,
    choice,
    count,
    names,
    option,
    outbox_table,
    outbox_url,
    pairs,
    refuse,
    spark_remote,
    texts,
)
from relay.spark.optionparser import DEFAULT_CONNECTIONS, MOST_CONNECTIONS
from relay.spark.write.write_options import DEFAULT_BATCH_ROWS, MOST_BATCH_ROWS, Commit

_source = partial(option, group="the source")
_event = partial(option, group="the events")
_OUTBOX: Final = "the outbox"
_outbox = partial(option, group=_OUTBOX)
_stream = partial(option, group="streams")


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestArguments(Arguments):
    """Write what Spark can read into the outbox: files, a table or a stream."""

    name: ClassVar[str] = "ingest"

    inputs: tuple[str, ...] = _source("files or folders", texts("PATH"), flag="PATH")
    format: str = _source("any that Spark reads: parquet, csv, json, …", "FORMAT", default="parquet")
    source_table: str | None = _source("a table of Spark's catalog instead of paths", "NAME")
    source_options: tuple[tuple[str, str], ...] = _source("of the format; repeatable", SPARK_OPTION, flag="--option")
    schema: str | None = _source("the source's columns, for example 'id long, total decimal(9,2)'", "DDL")
    where: str | None = _source("only rows for which this holds", "SQL")
    partitions: int | None = _source("write in this many partitions", count(100_000))

    event_type: str | None = _event("the topic, subject or stream of all events", "NAME")
    event_type_column: str | None = _event("the column that names it", "COLUMN")
    payload_columns: tuple[str, ...] = _event("the body: a JSON object of these (default: all)", names("A,B"))
    raw_payload: str | None = _event("the body: this column's string or bytes, unchanged", "COLUMN")
    key: tuple[str, ...] = _event("the partition key; values of several columns are joined by :", names("A,B"))
    headers: tuple[tuple[str, str], ...] = _event("headers", pairs("NAME=COLUMN,…"))
    id_columns: tuple[str, ...] = _event("the business key from which event ids are derived", names("A,B"))
    event_id: str | None = _event("the column that has the event's id, a UUID", "COLUMN")
    available_at: str | None = _event("hold events back until this column's time", "COLUMN")

    url: str | None = outbox_url(group=_OUTBOX)
    table: TableName = outbox_table(group=_OUTBOX)
    job: str | None = _outbox("part of derived ids: a repeated job derives the same", "NAME")
    commit: str = _outbox("all rows at once, or task by task", choice(*Commit), default=Commit.ATOMIC.value)
    max_connections: int = _outbox("connections, at most", count(MOST_CONNECTIONS), default=str(DEFAULT_CONNECTIONS))
    batch_rows: int = _outbox(
        "rows of one COPY with --commit partition", count(MOST_BATCH_ROWS), default=str(DEFAULT_BATCH_ROWS)
    )

    stream: bool = _stream("read the source as a stream", FLAG)
    checkpoint: str | None = _stream("where the stream records its progress", "FOLDER")
    trigger: str = _stream(
        "available-now (all rows of now, then end) or an interval such as '10 seconds'",
        "WHEN",
        default="available-now",
    )
    dry_run: bool = option("show ten rows as they would be inserted; write nothing", FLAG, replaces_environment=True)
    remote: str | None = spark_remote()

    examples: ClassVar[str] = """\
examples:
  Parquet files, one event a row, their order number as identity (running it again adds nothing):
    spark-submit ingest.py /data/orders --event-type orders.created \\
      --key customer --id-columns order_number --url-file /secrets/outbox-url
  look at ten rows first, and write nothing:
    spark-submit ingest.py /data/orders --event-type orders.created --key customer --dry-run
  CSV with a header, some columns as the body, two as headers:
    relay-cli spark ingest orders.csv --format csv --option header=true --event-type orders.created \\
      --payload-columns number,customer,total --headers region=region,trace=trace_id
  a table of the catalog, each task's rows at its end, over at most 4 connections:
    spark-submit ingest.py --source-table sales.orders --event-type-column kind \\
      --id-columns id --commit partition --max-connections 4 --url-file /secrets/outbox-url
  new files of a folder as they appear, exactly once:
    spark-submit ingest.py /data/incoming --format json --stream --checkpoint /data/checkpoint \\
      --trigger '10 seconds' --event-type orders.created --url-file /secrets/outbox-url
"""

    def __post_init__(self) -> None:
        by_task = self.commit == Commit.PARTITION
        refuse(
            (
                bool(self.event_type) == bool(self.event_type_column),
                "--event-type NAME or --event-type-column COLUMN: give one of the two",
            ),
            (
                self.raw_payload and self.payload_columns,
                "--raw-payload and --payload-columns: give one of the two, or neither for all columns",
            ),
            (self.event_id and self.id_columns, "--event-id and --id-columns: give one of the two, or neither"),
            (self.source_table and self.inputs, "--source-table and input paths: give one of the two"),
            (self.stream and by_task, "--commit partition: not for a stream, whose micro-batches are atomic"),
            (self.stream and not self.checkpoint, "--stream: give --checkpoint too, for the stream's progress"),
            (self.stream and len(self.inputs) > 1, "PATH: a stream reads one folder"),
            (not (self.url or self.dry_run), "--url or --url-file: missing; give the URL of the outbox's database"),
        )
