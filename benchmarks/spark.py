"""How fast Spark writes into the outbox, and reads it, beside all that could do it: ``python -m benchmarks.spark``.

One PostgreSQL, one Spark on two cores. ``benchmarks.sparkwrites`` says what is written, ``benchmarks.sparkreads`` what
is read, ``benchmarks.sparkbatches`` which micro-batches a stream makes, and ``benchmarks.lab.sparkencoder`` measures
the encoder without Spark.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.measured import Machine
from benchmarks.sparkbatches import measure_batches
from benchmarks.sparkratios import table
from benchmarks.sparkreads import measure_reads
from benchmarks.sparkrows import ready_rows
from benchmarks.sparkwrites import jdbc_jar, measure_writes, ours, turn
from relay.localservers.postgres import PostgresServer
from relay.outbox.migrate import migrate
from relay.postgres.sql import TableName
from tests.support.servers.spark import SCALE_SESSION, environment


def fill(session: SparkSession, url: str, folder: Path, count: int) -> None:
    """The rows that are read, where nothing was written before."""
    turn(url, count, lambda: ours(url, ready_rows(session, folder / "read", count), "partition"))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--only",
        choices=["writes", "documented", "reads", "batches"],
        help="one part; documented: the documents' example",
    )
    parser.add_argument("--json", type=Path, help="where to write all figures")
    return parser.parse_args()


def make_session() -> SparkSession:
    os.environ.update(environment())
    builder = SparkSession.Builder().master("local[2]").appName("benchmark")
    for name, value in {**SCALE_SESSION, "spark.jars": str(jdbc_jar()), "spark.driver.memory": "2g"}.items():
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
            if options.only in (None, "batches"):
                batches = measure_batches(session, server.url, folder)
                print("\n".join(f"micro-batch of 100 rows, {name}: {took} ms" for name, took in batches.items()))
            if options.only in (None, "writes", "documented"):
                documented_only = options.only == "documented"
                amount = (options.rows, options.rounds)
                writes = measure_writes(session, server.url, folder, *amount, documented_only=documented_only)
            if options.only in (None, "reads"):
                fill(session, server.url, folder, options.rows)
                reads = measure_reads(session, server.url, server.bin / "psql", folder, options.rounds)
    finally:
        session.stop()
        shutil.rmtree(folder, ignore_errors=True)
    print("\n\n".join(table(kind, paces) for kind, paces in {"writer": writes, "reader": reads}.items() if paces))
    if options.json:
        machine = Machine.this(rows=options.rows, rounds=options.rounds, settings=settings)
        figures = {"machine": machine.__dict__, "rows_per_second": writes, "read_rows_per_second": reads}
        options.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
