"""The rows that the Spark benchmarks write: ready ones, and those of the first example of docs/guide/spark.md.

Ready rows have an id as text (JDBC needs it so) and a binary body of 512 bytes: nothing is left to encode. The
documented rows are orders of 12 columns, which the writer makes JSON of, with an id of ``idColumns``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from relay.spark.write.columns import read_columns
from relay.spark.write.frames import Framer
from relay.spark.write.identity import job_namespace

BATCH_ROWS = 10_000
"""Rows of an Arrow batch, as Spark makes them by default."""

_ORDERS = (
    "id AS number",
    "concat('customer-', id % 1000) AS customer",
    "element_at(array('placed', 'paid', 'shipped'), CAST(id % 3 + 1 AS INT)) AS status",
    "'EUR' AS currency",
    "CAST(id % 100000 / 100 AS DECIMAL(12,2)) AS total",
    "id % 40 / 80 AS discount",
    "CAST(id % 9 + 1 AS INT) AS items",
    "id % 2 = 0 AS paid",
    "timestamp_micros(1767225600000000 + id * 1000003) AS ordered_at",
    "date_add(DATE '2026-01-02', CAST(id % 300 AS INT)) AS ship_on",
    "concat('Street ', id % 400, ', Utrecht') AS address",
    "concat(md5(CAST(id AS STRING)), ' is left at the \"door\"') AS note",
)
_EVENTS = ("'orders.created' AS event_type", "struct(*) AS payload", "customer AS partition_key", "number")


@dataclass(frozen=True)
class Rows:
    """A frame of events, the Parquet files that it reads, and the options with which it is written."""

    frame: DataFrame
    folder: Path
    options: dict[str, str] = field(default_factory=dict)

    def batches(self, source: Path) -> Iterator[pa.RecordBatch]:
        """The rows of one of the files, as Spark hands them to the writer."""
        for batch in pq.ParquetFile(source).iter_batches(BATCH_ROWS):
            yield _events(batch) if "idColumns" in self.options else batch

    def framer(self) -> Framer:
        """An encoder of these rows."""
        keys = tuple(filter(None, self.options.get("idColumns", "").split(",")))
        return Framer(read_columns(self.frame.schema, None, keys), None, "", job_namespace(""))

    def encode(self) -> list[Path]:
        """The same rows in COPY's format, one file for each Parquet file."""
        now = int((time.time() - 946_684_800) * 1_000_000).to_bytes(8, "big")
        targets = []
        for number, source in enumerate(sorted(self.folder.glob("*.parquet"))):
            framer = self.framer()
            target = self.folder / f"{number}.copy"
            with target.open("wb") as file:
                for batch in self.batches(source):
                    file.writelines(frame.data for frame in framer.frames(batch, now, None))
            targets.append(target)
        return targets


def ready_rows(session: SparkSession, folder: Path, count: int) -> Rows:
    """Events with an id and a body of 512 bytes, in two Parquet files."""
    body = f.expr("unhex(rpad(md5(cast(id as string)), 1024, md5(cast(id + 1 as string))))")
    frame = session.range(0, count, 1, 2).select(
        f.expr("uuid()").alias("event_id"),
        f.lit("orders.created").alias("event_type"),
        f.expr("concat('key-', id % 1000)").alias("partition_key"),
        body.alias("payload"),
        f.lit('{"source": "spark"}').alias("headers"),
    )
    frame.write.parquet(str(folder))
    return Rows(session.read.parquet(str(folder)), folder)


def documented_rows(session: SparkSession, folder: Path, count: int) -> Rows:
    """The events of the first example of docs/guide/spark.md: orders of 12 columns, in two Parquet files."""
    session.range(0, count, 1, 2).selectExpr(*_ORDERS).write.parquet(str(folder))
    return Rows(session.read.parquet(str(folder)).selectExpr(*_EVENTS), folder, {"idColumns": "number"})


def _events(orders: pa.RecordBatch) -> pa.RecordBatch:
    payload = pa.StructArray.from_arrays(orders.columns, orders.schema.names)
    types = pa.repeat(pa.scalar("orders.created"), len(orders))
    columns = [types, payload, orders.column("customer"), orders.column("number")]
    return pa.record_batch(columns, ["event_type", "payload", "partition_key", "number"])
