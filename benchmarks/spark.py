"""How fast Spark writes into the outbox, and reads it, beside all that could do it: ``python -m benchmarks.spark``.

Reading is in ``benchmarks.sparkreads``; of writing:

One PostgreSQL, one Spark on two cores, the same rows (by default 500,000 of 512 bytes) from the same Parquet file into
the contract's table with all its indexes, emptied before each turn:

- ours, ``commit=partition`` and ``commit=atomic``, as a user calls it: driver, planning and commit are in the time;
- a bare binary COPY of the same rows, encoded beforehand, by two processes: what the database takes at most;
- one ``INSERT … SELECT`` from an unlogged table on the server, with a look for each id: what ``atomic`` falls back to;
- Spark's JDBC writer with reWriteBatchedInserts and two batch sizes;
- ``foreachPartition`` with one INSERT a row (a fiftieth of the rows).

Just before each turn of Spark's, a few rows are written untimed: Spark ends Python workers that were idle for a minute,
and starting them takes seconds of which a job of minutes notices nothing. The turns are interleaved and
repeated; the table shows medians, and the ratio to the bare COPY of the same round.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.pool import Pool
from pathlib import Path
from statistics import median
from typing import Any

import psycopg
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from benchmarks.measured import Machine
from benchmarks.sparkreads import measure_reads, read_table
from relay.localservers.postgres import PostgresServer
from relay.outbox.migrate import migrate
from relay.postgres.sql import TableName, load_sql
from relay.spark.copyformat import HEADER, TRAILER
from relay.spark.write.columns import read_columns
from relay.spark.write.frames import Framer
from relay.spark.write.identity import job_namespace
from tests.support.servers.spark import SESSION, environment

_JDBC = "42.7.7"
_COPY = load_sql("spark/direct:copy_events")
_STAGE = """
CREATE UNLOGGED TABLE stage AS
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


def make_rows(session: SparkSession, folder: Path, count: int) -> DataFrame:
    """Events in two Parquet files; ids are text, as JDBC needs them."""
    body = f.expr("unhex(rpad(md5(cast(id as string)), 1024, md5(cast(id + 1 as string))))")
    frame = session.range(0, count, 1, 2).select(
        f.expr("uuid()").alias("event_id"),
        f.lit("orders.created").alias("event_type"),
        f.expr("concat('key-', id % 1000)").alias("partition_key"),
        body.alias("payload"),
        f.lit('{"source": "spark"}').alias("headers"),
    )
    frame.write.parquet(str(folder))
    return session.read.parquet(str(folder))


def encode(folder: Path, frame: DataFrame) -> list[Path]:
    """The same rows in COPY's format, one file for each of two connections."""
    columns = read_columns(frame.schema, None, ())
    files = []
    for number, source in enumerate(sorted(folder.glob("*.parquet"))):
        framer = Framer(columns, None, "", job_namespace(""))
        target = folder / f"{number}.copy"
        now = int((time.time() - 946_684_800) * 1_000_000).to_bytes(8, "big")
        with target.open("wb") as file:
            for batch in pq.ParquetFile(source).iter_batches(10_000):
                file.writelines(frame.data for frame in framer.frames(batch, now, None))
        files.append(target)
    return files


def _copy_file(url: str, file: Path) -> None:
    data = memoryview(file.read_bytes())
    with psycopg.connect(url) as connection, connection.cursor() as cursor, cursor.copy(_COPY.encode()) as copy:
        copy.write(HEADER)
        for start in range(0, len(data), 1 << 20):
            copy.write(data[start : start + (1 << 20)])
        copy.write(TRAILER)


def bare_copy(url: str, files: list[Path], pool: Pool) -> None:
    pool.starmap(_copy_file, [(url, file) for file in files])


def ours(url: str, frame: DataFrame, commit: str) -> None:
    frame.write.format("openoutbox").mode("append").option("url", url).option("commit", commit).save()


def jdbc(url: str, frame: DataFrame, batch: int) -> None:
    place = url.partition("@")[2]
    writer = (
        frame.write.format("jdbc").mode("append").option("driver", "org.postgresql.Driver").option("user", "postgres")
    )
    writer = writer.option("url", f"jdbc:postgresql://{place}?reWriteBatchedInserts=true&stringtype=unspecified")
    writer.option("dbtable", "openoutbox_events").option("numPartitions", 2).option("batchsize", batch).save()


def _insert_rows(url: str, rows: Iterator[Any]) -> None:
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        for row in rows:
            cursor.execute(_ONE_ROW.encode(), list(row))


def row_at_a_time(url: str, frame: DataFrame) -> None:
    frame.foreachPartition(partial(_insert_rows, url))


def from_stage(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(_FROM_STAGE.encode())


def turn(url: str, expected: int, work: Callable[[], None]) -> float:
    """Rows per second of one turn, from an empty table to all rows in it."""
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
    return expected / seconds


def measure(session: SparkSession, url: str, folder: Path, count: int, rounds: int) -> dict[str, list[float]]:
    """Rows per second of every writer, in each round."""
    frame = make_rows(session, folder / "rows", count)
    few = session.read.parquet(str(folder / "rows")).limit(count // 50).repartition(2).persist()
    part = few.count()
    waking = frame.limit(100).persist()
    waking.count()
    files = encode(folder / "rows", frame)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        writers: dict[str, tuple[int, Callable[[], None]]] = {
            "bare COPY, two connections": (count, lambda: bare_copy(url, files, pool)),
            "ours, commit=partition": (count, lambda: ours(url, frame, "partition")),
            "ours, commit=atomic": (count, lambda: ours(url, frame, "atomic")),
            "INSERT … SELECT … ON CONFLICT, on the server": (count, lambda: from_stage(url)),
            "Spark JDBC, batches of 1,000": (count, lambda: jdbc(url, frame, 1000)),
            "Spark JDBC, batches of 10,000": (count, lambda: jdbc(url, frame, 10_000)),
            "foreachPartition, a row at a time": (part, lambda: row_at_a_time(url, few)),
        }
        warm_up(url, writers)
        paces: dict[str, list[float]] = {name: [] for name in writers}
        for number in range(rounds):
            for name, (expected, work) in writers.items():
                if not name.startswith(("bare", "INSERT")):
                    ours(url, waking, "partition")
                paces[name].append(turn(url, expected, work))
                print(f"round {number + 1}: {name}: {paces[name][-1]:,.0f} rows/s", flush=True)
    return paces


def warm_up(url: str, writers: dict[str, tuple[int, Callable[[], None]]]) -> None:
    """Run each writer once: JVMs compile, workers start, the staging table is created."""
    for number, (expected, work) in enumerate(writers.values()):
        if number == 3:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(_STAGE.encode())
        turn(url, expected, work)


def table(paces: dict[str, list[float]]) -> str:
    """The medians, as Markdown."""
    (bare, *_) = paces.values()
    lines = ["| writer | rows/s, median (lowest-highest) | ratio to the bare COPY |", "|---|---|---|"]
    for name, each in paces.items():
        ratio = median(pace / other for pace, other in zip(each, bare, strict=True))
        lines.append(f"| {name} | {median(each):,.0f} ({min(each):,.0f}-{max(each):,.0f}) | {ratio:.2f} |")
    return "\n".join(lines)


def fill(session: SparkSession, url: str, folder: Path, count: int) -> None:
    """The rows that are read, where nothing was written before."""
    turn(url, count, lambda: ours(url, make_rows(session, folder / "read", count), "partition"))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=["writes", "reads"], help="leave the other half out")
    parser.add_argument("--json", type=Path, help="where to write all figures")
    return parser.parse_args()


def make_session() -> SparkSession:
    os.environ.update(environment())
    builder = SparkSession.Builder().master("local[2]").appName("benchmark")
    for name, value in {**SESSION, "spark.jars": str(jdbc_jar()), "spark.driver.memory": "2g"}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main() -> None:
    options = arguments()
    folder = Path(tempfile.mkdtemp(prefix="openoutbox-spark-"))
    settings = {"shared_buffers": "1GB", "max_wal_size": "8GB"}
    session = make_session()
    writes: dict[str, list[float]] = {}
    reads: dict[str, list[float]] = {}
    try:
        with PostgresServer(durable=True, settings=settings) as server:
            migrate(server.url, TableName())
            if options.only != "reads":
                writes = measure(session, server.url, folder, options.rows, options.rounds)
            if options.only != "writes":
                fill(session, server.url, folder, options.rows)
                reads = measure_reads(session, server.url, server.bin / "psql", folder, options.rounds)
    finally:
        session.stop()
        shutil.rmtree(folder, ignore_errors=True)
    print("\n\n".join([*([table(writes)] if writes else []), *([read_table(reads)] if reads else [])]))
    if options.json:
        machine = Machine.this(rows=options.rows, rounds=options.rounds, settings=settings)
        figures = {"machine": machine.__dict__, "rows_per_second": writes, "read_rows_per_second": reads}
        options.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
