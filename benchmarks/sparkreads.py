"""How fast Spark reads the outbox, beside everything else that could do it; a part of ``python -m benchmarks.spark``.

The contract's table with all its columns, a tenth of its rows dead; without a filter, and with one for the dead:

- a bare binary COPY by two ``psql``, each half of the pages, thrown away: what the database gives at most;
- ours, in two tasks, by ranges of the key (the default) and, with a snapshot, by ranges of pages;
- Spark's JDBC reader with its best partitioning, which is ours by pages: a predicate on ``ctid`` for each of two tasks,
  10,000 rows a fetch (a numeric or time column, which it can divide alone; the table's key is neither);
- Spark alone: the same rows, made into Arrow beforehand, out of files in memory and through Spark's interface for
  sources in Python: no such source can be faster, whatever it reads;
- the filter pushed down, and left to Spark.

Spark writes what it reads to ``noop``. As many rows of the result a second are counted as there are.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from relay.spark import OutboxDataSource
from relay.spark.read.snapshots import exported_snapshot

_DEAD = "status = 'DEAD'"
_SETTLE = """
UPDATE openoutbox_events
SET status = CASE WHEN hashtext(event_id::text) % 10 = 0 THEN 'DEAD' ELSE 'DELIVERED' END,
    delivered_at = CASE WHEN hashtext(event_id::text) % 10 <> 0 THEN now() END
"""
_COPY = "COPY (SELECT * FROM openoutbox_events WHERE {}) TO STDOUT WITH (FORMAT binary)"

Turn = tuple[int, Callable[[], None]]


@dataclass
class Kept(InputPartition):
    """A file of Arrow batches."""

    path: str


class KeptReader(DataSourceReader):
    """Hands over what is in the files, one for each task."""

    def __init__(self, paths: list[str]) -> None:
        self._paths = paths

    def partitions(self) -> list[InputPartition]:
        """One for each file."""
        return [Kept(path) for path in self._paths]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The batches, where they lie in the page cache."""
        assert isinstance(partition, Kept)
        with pa.memory_map(partition.path) as memory, pa.ipc.open_file(memory) as file:
            for number in range(file.num_record_batches):
                yield file.get_batch(number)


class KeptSource(DataSource):
    """The outbox's rows as our reader returns them."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format(…)``."""
        return "from_memory"

    def schema(self) -> StructType:
        """The outbox's."""
        return OutboxDataSource({"url": "postgresql://nowhere"}).schema()

    def reader(self, schema: StructType) -> KeptReader:  # noqa: ARG002 - Spark's signature
        """Of the option ``paths``."""
        return KeptReader(self.options["paths"].split(","))


def keep(url: str, folder: Path) -> list[str]:
    """Read the table in this process, by our reader, into two files."""
    source = OutboxDataSource({"url": url, "numPartitions": "2"})
    reader = source.reader(source.schema())
    paths = []
    for number, partition in enumerate(reader.partitions()):
        path = str(folder / f"{number}.arrow")
        batches = reader.read(partition)
        first = next(batches)
        with pa.ipc.new_file(path, first.schema) as file:
            file.write(first)
            for batch in batches:
                file.write(batch)
        paths.append(path)
    return paths


def prepare(url: str) -> tuple[int, int]:
    """Settle what the writers have left; how many rows there are, and how many of them are dead."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_SETTLE.encode())
        connection.execute("VACUUM FULL ANALYZE openoutbox_events")
        connection.execute("CHECKPOINT")
        statement = f"SELECT count(*), count(*) FILTER (WHERE {_DEAD}) FROM openoutbox_events"
        row = connection.execute(statement.encode()).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def halves(url: str) -> list[str]:
    """Conditions for either half of the table's pages."""
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT pg_relation_size('openoutbox_events') / 8192 / 2").fetchone()
    middle = f"'({row[0] if row else 0},0)'::tid"
    return [f"ctid < {middle}", f"ctid >= {middle}"]


def bare_copy(psql: Path, url: str, parts: list[str], condition: str) -> None:
    copies = [
        subprocess.Popen(
            [psql, "-qX", "-d", url, "-c", _COPY.format(f"{part} AND {condition}")], stdout=subprocess.DEVNULL
        )
        for part in parts
    ]
    if any(copy.wait() for copy in copies):
        raise SystemExit("a bare COPY failed")


def ours(session: SparkSession, url: str, **options: str) -> DataFrame:
    reader = session.read.format("openoutbox").option("url", url).option("numPartitions", "2")
    return reader.options(**{"pushdown": "true", **options}).load()


def by_pages(session: SparkSession, url: str, condition: str) -> None:
    with exported_snapshot(url) as snapshot:
        swallow(ours(session, url, snapshot=snapshot).where(condition))


def jdbc(session: SparkSession, url: str, parts: list[str], *, pushdown: bool = True) -> DataFrame:
    properties = {
        "user": "postgres",
        "driver": "org.postgresql.Driver",
        "fetchsize": "10000",
        "pushDownPredicate": str(pushdown),
    }
    place = f"jdbc:postgresql://{url.partition('@')[2]}"
    return session.read.jdbc(place, "openoutbox_events", predicates=parts, properties=properties)


def swallow(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def from_memory(session: SparkSession, paths: list[str]) -> None:
    swallow(session.read.format("from_memory").option("paths", ",".join(paths)).load())


def turns(session: SparkSession, url: str, psql: Path, folder: Path, counts: tuple[int, int]) -> dict[str, Turn]:
    """Who reads, how many rows that gives, and how."""
    parts = halves(url)
    rows, dead = counts
    session.dataSource.register(KeptSource)
    paths = keep(url, folder)
    return {
        "bare COPY, two connections": (rows, lambda: bare_copy(psql, url, parts, "true")),
        "ours, by key": (rows, lambda: swallow(ours(session, url))),
        "ours, by page in a snapshot": (rows, lambda: by_pages(session, url, "true")),
        "Spark JDBC, by page": (rows, lambda: swallow(jdbc(session, url, parts))),
        "Spark alone, out of memory": (rows, lambda: from_memory(session, paths)),
        "bare COPY, the tenth": (dead, lambda: bare_copy(psql, url, parts, _DEAD)),
        "ours, the tenth": (dead, lambda: swallow(ours(session, url).where(_DEAD))),
        "ours, the tenth, by page in a snapshot": (dead, lambda: by_pages(session, url, _DEAD)),
        "Spark JDBC, the tenth": (dead, lambda: swallow(jdbc(session, url, parts).where(_DEAD))),
        "ours, the tenth, filtered by Spark": (
            dead,
            lambda: swallow(ours(session, url, pushdown="false").where(_DEAD)),
        ),
        "Spark JDBC, the tenth, filtered by Spark": (
            dead,
            lambda: swallow(jdbc(session, url, parts, pushdown=False).where(_DEAD)),
        ),
    }


def measure_reads(session: SparkSession, url: str, psql: Path, folder: Path, rounds: int) -> dict[str, list[float]]:
    """Rows per second of every reader, in each round; the table must be filled. Each has read once before."""
    rows, dead = prepare(url)
    readers = turns(session, url, psql, folder, (rows, dead))
    for _, work in readers.values():
        work()
    check(session, url, rows, dead)
    paces: dict[str, list[float]] = {name: [] for name in readers}
    for number in range(rounds):
        for name, (count, work) in readers.items():
            began = time.perf_counter()
            work()
            paces[name].append(count / (time.perf_counter() - began))
            print(f"round {number + 1}: {name}: {paces[name][-1]:,.0f} rows/s", flush=True)
    return paces


def check(session: SparkSession, url: str, rows: int, dead: int) -> None:
    """What is measured reads what is there."""
    frame = ours(session, url, columns="event_id,status")
    if (frame.count(), frame.where(_DEAD).count()) != (rows, dead):
        raise SystemExit("the reader does not find the rows that are there")
