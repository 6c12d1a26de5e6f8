"""What settings of Spark's own change for reading: ``python -m benchmarks.lab.sparksettings``.

Each round opens one session for each setting, in turn, over the same database and rows: the defaults, Unix domain
sockets between JVM and Python (Spark 4.1), and overlapped transfer in both directions (Spark 4.3). In each session the
reader by key, and Spark alone out of memory, are run once untimed and then timed twice. The first round is not counted,
since the JVM compiles meanwhile. The table has medians, and the ratio to the defaults in the same round.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession

from benchmarks.sparkreads import KeptSource, from_memory, keep, prepare, swallow
from benchmarks.sparkreads import ours as read
from benchmarks.sparkrows import ready_rows
from benchmarks.sparkwrites import ours as write
from relay.localservers.postgres import PostgresServer
from relay.outbox.migrate import migrate
from relay.postgres.sql import TableName
from tests.support.servers.spark import SESSION, environment

SETTINGS = {
    "the defaults": {},
    "spark.python.unix.domain.socket.enabled": {"spark.python.unix.domain.socket.enabled": "true"},
    "spark.python.udf.pipelined.enabled": {"spark.python.udf.pipelined.enabled": "true"},
}


def make_session(settings: dict[str, str]) -> SparkSession:
    builder = SparkSession.Builder().master("local[2]").appName("benchmark")
    for name, value in {**SESSION, "spark.driver.memory": "2g", **settings}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def measure(url: str, folder: Path, count: int, rounds: int) -> dict[tuple[str, str], list[float]]:
    """Seconds of each turn with each setting."""
    times: dict[tuple[str, str], list[float]] = {}
    paths: list[str] = []
    for number in range(rounds + 1):
        for name, settings in SETTINGS.items():
            session = make_session(settings)
            session.dataSource.register(KeptSource)
            paths = paths or fill(session, url, folder, count)
            turns: dict[str, Callable[[], None]] = {
                "ours, by key": partial(_read, session, url),
                "Spark alone, out of memory": partial(from_memory, session, paths),
            }
            for turn, work in turns.items():
                work()
                seconds = min(timed(work), timed(work))
                if number:
                    times.setdefault((turn, name), []).append(seconds)
                print(f"round {number}: {turn}, {name}: {count / seconds:,.0f} rows/s", flush=True)
            session.stop()
    return times


def fill(session: SparkSession, url: str, folder: Path, count: int) -> list[str]:
    """Write the rows that are read; returns the files that have them as Arrow batches."""
    write(url, ready_rows(session, folder / "rows", count), "partition")
    prepare(url)
    return keep(url, folder)


def _read(session: SparkSession, url: str) -> None:
    swallow(read(session, url))


def timed(work: Callable[[], None]) -> float:
    """Its seconds."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    os.environ.update(environment())
    folder = Path(tempfile.mkdtemp(prefix="openoutbox-spark-"))
    try:
        with PostgresServer(durable=True, settings={"shared_buffers": "1GB", "max_wal_size": "8GB"}) as server:
            migrate(server.url, TableName())
            times = measure(server.url, folder, options.rows, options.rounds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("| | setting | rows/s, median | ratio to the defaults |\n|---|---|---|---|")
    for (turn, name), each in times.items():
        ratio = median(other / own for own, other in zip(each, times[turn, "the defaults"], strict=True))
        print(f"| {turn} | {name} | {options.rows / median(each):,.0f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
