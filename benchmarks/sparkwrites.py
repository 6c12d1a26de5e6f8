"""How fast Spark writes into the outbox, beside everything else that could do it; part of ``benchmarks.spark``.

The same rows (by default 500,000) from the same Parquet files into the contract's table with all its indexes, emptied
before each turn. Ready rows, with ids and bodies of 512 bytes:

- ours, ``commit=partition`` and ``commit=atomic``, as a user calls it: driver, planning and commit are in the time;
- a bare binary COPY of the same rows, encoded beforehand, by two processes: the database's own limit;
- one ``INSERT … SELECT`` from an unlogged table on the server, with a look for each id: the fallback of ``atomic``;
- Spark's JDBC writer with reWriteBatchedInserts and two batch sizes;
- ``foreachPartition`` with one INSERT a row (a fiftieth of the rows).

The documented rows, orders of 12 columns that become JSON and ids, have a bare COPY of their own bytes; the time of
Spark alone, which makes the same columns and hands them to a source that drops them, shows what no writer can save.

Just before each turn of Spark's, a few rows are written untimed: Spark ends Python workers that were idle for a minute,
and starting them takes seconds of which a job of minutes notices nothing. The turns are interleaved and
repeated; the table shows medians, and the ratio to the bare COPY of the same rows and round.
"""

from __future__ import annotations

import multiprocessing
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from benchmarks.sparkrows import Rows, documented_rows, ready_rows
from relay.postgres.codec import COPY_HEADER, COPY_TRAILER
from relay.postgres.sql import load_sql

_JDBC = "42.7.7"
_COPY = load_sql("spark/direct:copy_events")
_STAGE = """
CREATE UNLOGGED TABLE IF NOT EXISTS stage AS
SELECT event_id, event_type, partition_key, payload, headers, available_at FROM openoutbox_events;
TRUNCATE openoutbox_events
"""
_FROM_STAGE = """
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, headers, available_at)
SELECT * FROM stage
ON CONFLICT DO NOTHING
"""
_ONE_ROW = """
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, headers) VALUES (%s, %s, %s, %s, %s)
"""

Turn = tuple[int, Callable[[], None]]
"""The rows that are in the table afterwards, and the work."""


class SinkWriter(DataSourceArrowWriter):
    """Reads all batches and drops them."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Counts the rows, so that each batch is read."""
        sum(batch.num_rows for batch in iterator)
        return WriterCommitMessage()


class Sink(DataSource):
    """A source in Python that stores nothing."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format(…)``."""
        return "sink"

    def writer(self, schema: StructType, overwrite: bool) -> SinkWriter:  # noqa: ARG002 - Spark's signature
        """Spark's cost alone."""
        return SinkWriter()


def jdbc_jar() -> Path:
    """PostgreSQL's JDBC driver, fetched by Maven on the first call in a checkout."""
    folder = Path(__file__).parents[1] / ".cache" / "jdbc"
    jar = folder / f"postgresql-{_JDBC}.jar"
    if not jar.exists():
        folder.mkdir(parents=True, exist_ok=True)
        where = [f"-DoutputDirectory={folder}", f"-Dmaven.repo.local={folder.parent}/maven"]
        command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact=org.postgresql:postgresql:{_JDBC}", *where]
        subprocess.run(command, check=True, cwd=folder)
    return jar


def _copy_file(url: str, file: Path) -> None:
    data = memoryview(file.read_bytes())
    with psycopg.connect(url) as connection, connection.cursor() as cursor, cursor.copy(_COPY.encode()) as copy:
        copy.write(COPY_HEADER)
        for start in range(0, len(data), 1 << 20):
            copy.write(data[start : start + (1 << 20)])
        copy.write(COPY_TRAILER)


def bare_copy(url: str, files: list[Path], pool: Pool) -> None:
    pool.starmap(_copy_file, [(url, file) for file in files])


def ours(url: str, rows: Rows, commit: str) -> None:
    writer = rows.frame.write.format("openoutbox").mode("append").options(**rows.options)
    writer.option("url", url).option("commit", commit).save()


def sink(rows: Rows) -> None:
    rows.frame.write.format("sink").mode("append").save()


def jdbc(url: str, frame: DataFrame, batch: int) -> None:
    place = url.partition("@")[2]
    writer = (
        frame.write.format("jdbc").mode("append").option("driver", "org.postgresql.Driver").option("user", "postgres")
    )
    writer = writer.option("url", f"jdbc:postgresql://{place}?reWriteBatchedInserts=true&stringtype=unspecified")
    writer.option("dbtable", "openoutbox_events").option("numPartitions", 2).option("batchsize", batch).save()


def as_jdbc_needs(orders: DataFrame) -> DataFrame:
    """The documented rows with ids and JSON by Spark's own functions: JDBC makes neither."""
    digits = "'(.{8})(.{4})(.{4})(.{4})(.{12})', '$1-$2-$3-$4-$5'"
    return orders.selectExpr(
        f"regexp_replace(md5(CAST(number AS STRING)), {digits}) AS event_id",
        "event_type",
        "partition_key",
        "encode(to_json(payload), 'UTF-8') AS payload",
    )


def _insert_rows(url: str, rows: Iterator[Any]) -> None:
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        for row in rows:
            cursor.execute(_ONE_ROW.encode(), list(row))


def row_at_a_time(url: str, frame: DataFrame) -> None:
    frame.foreachPartition(partial(_insert_rows, url))


def from_stage(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(_FROM_STAGE.encode())


def ready_turns(session: SparkSession, url: str, folder: Path, count: int, pool: Pool) -> dict[str, Turn]:
    """The writers of ready rows."""
    rows = ready_rows(session, folder / "rows", count)
    few = session.read.parquet(str(folder / "rows")).limit(count // 50).repartition(2).persist()
    part = few.count()
    files = rows.encode()
    return {
        "bare COPY, two connections": (count, lambda: bare_copy(url, files, pool)),
        "ours, commit=partition": (count, lambda: ours(url, rows, "partition")),
        "ours, commit=atomic": (count, lambda: ours(url, rows, "atomic")),
        "INSERT … SELECT … ON CONFLICT, on the server": (count, lambda: from_stage(url)),
        "Spark JDBC, batches of 1,000": (count, lambda: jdbc(url, rows.frame, 1000)),
        "Spark JDBC, batches of 10,000": (count, lambda: jdbc(url, rows.frame, 10_000)),
        "foreachPartition, a row at a time": (part, lambda: row_at_a_time(url, few)),
    }


def documented_turns(session: SparkSession, url: str, folder: Path, count: int, pool: Pool) -> dict[str, Turn]:
    """The writers of the documented rows."""
    session.dataSource.register(Sink)
    rows = documented_rows(session, folder / "orders", count)
    files = rows.encode()
    return {
        "bare COPY of the JSON, two connections": (count, lambda: bare_copy(url, files, pool)),
        "struct to JSON, idColumns: commit=partition": (count, lambda: ours(url, rows, "partition")),
        "struct to JSON, idColumns: commit=atomic": (count, lambda: ours(url, rows, "atomic")),
        "struct to JSON: Spark JDBC, batches of 1,000": (count, lambda: jdbc(url, as_jdbc_needs(rows.frame), 1000)),
        "Spark alone: the same columns, stored nowhere": (0, lambda: sink(rows)),
    }


def turn(url: str, expected: int, work: Callable[[], None]) -> float:
    """Seconds of one turn, from an empty table to all rows in it."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("TRUNCATE openoutbox_events")
        connection.execute("CHECKPOINT")
    began = time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    with psycopg.connect(url) as connection:
        count = connection.execute("SELECT count(*) FROM openoutbox_events").fetchone()
    if count != (expected,):
        raise SystemExit(f"the table holds {count} rows, not {expected}")
    return seconds


def measure_writes(
    session: SparkSession, url: str, folder: Path, count: int, rounds: int, *, documented_only: bool
) -> dict[str, list[float]]:
    """Rows per second of every writer, in each round."""
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        turns = {} if documented_only else ready_turns(session, url, folder, count, pool)
        turns |= documented_turns(session, url, folder, count, pool)
        _warm_up(url, turns)
        few = ready_rows(session, folder / "few", 100)
        paces: dict[str, list[float]] = {name: [] for name in turns}
        for number in range(rounds):
            for name, (expected, work) in turns.items():
                if not name.startswith(("bare", "INSERT")):
                    ours(url, few, "partition")
                paces[name].append((expected or count) / turn(url, expected, work))
                print(f"round {number + 1}: {name}: {paces[name][-1]:,.0f} rows/s", flush=True)
    return paces


def _warm_up(url: str, turns: dict[str, Turn]) -> None:
    """Run each writer once: JVMs compile, workers start, the staging table is created."""
    for name, (expected, work) in turns.items():
        if name.startswith("INSERT"):
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(_STAGE.encode())
        turn(url, expected, work)
