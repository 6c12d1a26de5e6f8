"""``format("openoutbox_eventstore")``: no committed event is skipped or read twice, in either position mode."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID, uuid4

import psycopg
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from relay.eventstore import ANY, EventStore, NewEvent, PositionsWentBack
from relay.spark.connection import APPLICATION
from tests.spark.plain import BOUNDED, EventCopy, EventCopyOf41
from tests.support.fixtures.postgres import Database
from tests.support.registrations import registering
from tests.support.restoring import back_up, restore
from tests.support.waiting import wait_until

TENANTS = [UUID(int=number) for number in range(1, 6)]
STREAM = UUID(int=7)
T = TypeVar("T")


def done(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


async def make(url: str, positions: str, *, schema: str = "bank", tenants: int = 2) -> None:
    async with await EventStore.connect(url, schema=schema) as store:
        await store.migrate(positions=positions, notify=False)  # type: ignore[arg-type]
        for tenant in TENANTS[:tenants]:
            await store.provision_tenant(tenant)


async def append(url: str, tenant: UUID, count: int, *, schema: str = "bank", each: int = 100) -> None:
    async with await EventStore.connect(url, schema=schema) as store:
        for start in range(0, count, each):
            events = [
                NewEvent(f"T{number % 3}", {"n": number, "é": None}, {"m": 1}) for number in range(start, start + each)
            ]
            await store.append(tenant, uuid4(), events, ANY)


def insert(connection: psycopg.Connection[Any], version: int, tenant: UUID = TENANTS[0]) -> int:
    """One event by plain SQL, in the connection's transaction; its position."""
    row = connection.execute(
        "INSERT INTO bank.event (TenantId, StreamId, Version, Type, Meta, Data) VALUES (%s, %s, %s, 'T0', '{}', NULL) "
        "RETURNING SequenceNum",
        (tenant, STREAM, version),
    ).fetchone()
    assert row is not None
    return int(row[0])


def stored(database: Database, columns: str = "SequenceNum") -> list[tuple[Any, ...]]:
    return sorted(database.run(f"SELECT {columns} FROM bank.event"))


class StreamToFiles:
    """A stream from the store to Parquet files."""

    def __init__(self, spark: SparkSession, database: Database, folder: Path) -> None:
        self.spark = spark
        self.url = database.url
        self.folder = folder

    def start(self, *, available_now: bool = False, **options: object) -> StreamingQuery:
        frame: DataFrame = events(self.spark.readStream, self.url, **options).load()
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(self.folder / "checkpoint"))
        writer = writer.trigger(availableNow=True) if available_now else writer.trigger(processingTime="0 seconds")
        return writer.option("path", str(self.folder / "copy")).start()

    def positions(self) -> list[int]:
        rows = self.spark.read.parquet(str(self.folder / "copy")).select("sequence_num").collect()
        return sorted(row.sequence_num for row in rows)


def sizes(query: StreamingQuery) -> list[int]:
    """Rows of the micro-batches that had any."""
    return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]


def events(reader: Any, url: str, **options: object) -> Any:
    reader = reader.format("openoutbox_eventstore").option("url", url).option("storeSchema", "bank")
    for name, value in options.items():
        reader = reader.option(name, str(value))
    return reader


@pytest.fixture(params=["gapless", "settled"])
def store(request: pytest.FixtureRequest, database: Database) -> Database:
    """A store with two tenants, in both position modes."""
    done(make(database.url, str(request.param)))
    return database


def test_a_batch_gives_every_event_of_every_tenant(spark: SparkSession, database: Database) -> None:
    done(make(database.url, "settled", tenants=5))
    for tenant in TENANTS:
        done(append(database.url, tenant, 1000, each=500))
    frame: DataFrame = events(spark.read, database.url, numPartitions=2).load()
    assert frame.rdd.getNumPartitions() == 2
    columns = "SequenceNum, TenantId::text, StreamId::text, Version, Type, Meta::text, Data::text"
    assert sorted(map(tuple, frame.drop("log_date").collect())) == stored(database, columns)
    some = events(spark.read, database.url, tenants=f"{TENANTS[3]},{TENANTS[4]}", types="T0,T2", start=3300, end=4500)
    selected = some.schema("type string, sequence_num long, log_date timestamp").load()
    expected = database.run(
        "SELECT SequenceNum FROM bank.event "
        "WHERE TenantId = ANY(%s) AND Type <> 'T1' AND SequenceNum BETWEEN 3301 AND 4500",
        ([TENANTS[3], TENANTS[4]],),
    )
    assert sorted(row.sequence_num for row in selected.collect()) == sorted(number for (number,) in expected)
    assert events(spark.read, database.url, start="end").load().count() == 0


def test_late_commits_and_rollbacks_are_waited_for(store: Database) -> None:
    with psycopg.connect(store.url) as first, closing(EventCopy(store.url)) as copy:
        insert(first, 1)
        first.commit()
        copy.micro_batch()
        late = insert(first, 2)
        with ThreadPoolExecutor(1) as aside:
            quick = aside.submit(insert_and_commit, store.url, TENANTS[1])
            # In a gapless store it waits for the first one's end.
            wait_until(lambda: quick.done() or store.waiting_for_locks(), what="the second transaction")
            copy.micro_batch()
            assert late not in copy.positions
            first.commit()
        insert(first, 3)
        first.rollback()
        insert(first, 3)
        first.commit()
        copy.micro_batch()
    assert sorted(copy.positions) == [number for (number,) in stored(store)]
    assert len(copy.positions) == 4


def insert_and_commit(url: str, tenant: UUID) -> None:
    with psycopg.connect(url) as connection:
        insert(connection, 1, tenant)


def write(url: str, number: int, over: threading.Event) -> None:
    """Transactions of one to five events until it is over: some are held open for a while, every third rolled back."""
    with psycopg.connect(url) as connection:
        version = 0
        turn = 0
        while not over.is_set():
            turn += 1
            version_before = version
            for _ in range(1 + turn % 5):
                version += 1
                row = "INSERT INTO bank.event (TenantId, StreamId, Version, Type, Meta) VALUES (%s, %s, %s, 'W', '{}')"
                connection.execute(row, (TENANTS[number % 2], UUID(int=100 + number), version))
            over.wait(0.001 * (turn * (number + 3) % 30))
            if turn % 3 == 0:
                connection.rollback()
                version = version_before
            else:
                connection.commit()


@contextmanager
def writers(url: str) -> Iterator[None]:
    """Four writers at work while the block runs."""
    over = threading.Event()
    threads = [threading.Thread(target=write, args=(url, number, over)) for number in range(4)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def test_each_committed_event_once_while_many_write_and_the_stream_restarts(store: Database) -> None:
    sizes: list[int] = []
    with closing(EventCopy(store.url)) as copy:

        def enough() -> bool:
            most = (3, 50, 1000)[len(sizes) % 3]
            sizes.append(copy.micro_batch(most))
            assert sizes[-1] <= most or not BOUNDED
            if len(sizes) % 5 == 0:
                copy.restart()
            return sum(size > 0 for size in sizes) >= 40

        with writers(store.url):
            wait_until(enough, 90, "forty micro-batches with events")
        copy.micro_batch()
    assert sorted(copy.positions) == [number for (number,) in stored(store)]


def test_on_spark_4_1_a_stream_that_restarts_does_not_go_back(database: Database) -> None:
    """It does not tell the source where its checkpoint ends, and a writer that registers late sets the horizon back."""
    done(make(database.url, "settled"))
    done(append(database.url, TENANTS[0], 100))
    with psycopg.connect(database.url) as late, closing(EventCopyOf41(database.url)) as copy:
        copy.micro_batch()
        late.execute(registering(50, "bank").encode())
        copy.restart()
        with ThreadPoolExecutor(1) as aside:
            again = aside.submit(copy.micro_batch)
            looking = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND application_name = %s"
            wait_until(lambda: again.done() or database.run(looking, [APPLICATION]), what="the stream to look")
            late.rollback()
            again.result(60)
        copy.micro_batch()
    assert copy.positions == [number for (number,) in stored(database)]


def test_sparks_stream_writes_each_committed_event_once_and_continues_from_its_checkpoint(
    spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    done(make(database.url, "settled"))
    copy = StreamToFiles(spark, database, tmp_path)
    with writers(database.url):
        query = copy.start(maxEventsPerTrigger=50) if BOUNDED else copy.start()
        wait_until(lambda: query.exception() or len(sizes(query)) >= 2, 200, "two micro-batches")
        query.stop()
        assert max(sizes(query)) <= 50 or not BOUNDED
    # Spark 4.1 runs one micro-batch, here the interrupted one.
    for _ in range(1 if BOUNDED else 2):
        copy.start(available_now=True).awaitTermination()
    assert copy.positions() == [number for (number,) in stored(database)]


@pytest.mark.skipif(BOUNDED, reason="this Spark can bound a micro-batch")
def test_a_bound_is_refused_where_spark_has_none(spark: SparkSession, database: Database, tmp_path: Path) -> None:
    done(make(database.url, "gapless"))
    query = StreamToFiles(spark, database, tmp_path).start(available_now=True, maxEventsPerTrigger=120)
    with pytest.raises(PySparkException, match=r"maxEventsPerTrigger: needs Spark 4\.2"):
        query.awaitTermination()


@pytest.mark.skipif(not BOUNDED, reason="this Spark cannot bound a micro-batch")
def test_a_stream_that_takes_what_there_is_now_keeps_to_the_bound(
    spark: SparkSession, database: Database, tmp_path: Path
) -> None:
    done(make(database.url, "gapless"))
    done(append(database.url, TENANTS[0], 300))
    copy = StreamToFiles(spark, database, tmp_path)
    query = copy.start(available_now=True, maxEventsPerTrigger=120, types="T0,T1,T2")
    query.awaitTermination()
    assert sizes(query) == [120, 120, 60]
    last = query.lastProgress
    assert last is not None
    assert json.loads(last["sources"][0]["endOffset"])["position"] == stored(database)[-1][0]
    assert copy.positions() == [number for (number,) in stored(database)]


def test_an_offset_of_what_a_restore_took_away_ends_the_stream(database: Database) -> None:
    """Also where Spark does not ask for the latest offset: it reads the last micro-batch of its checkpoint again."""
    done(make(database.url, "settled"))
    done(append(database.url, TENANTS[0], 200))
    backup = back_up(database)
    done(append(database.url, TENANTS[0], 100))
    with closing(EventCopy(database.url)) as copy:
        copy.micro_batch()
        offset, alone = json.loads(copy.checkpoint), {"position": 300}
        copy.micro_batch()
        assert json.loads(copy.checkpoint) == offset
        restore(database, backup)
        for rows in (0, 200):
            done(append(database.url, TENANTS[0], rows))
            for refused in (offset, alone)[: 1 if rows else 2]:
                copy.checkpoint = json.dumps(refused)
                with pytest.raises(PositionsWentBack):
                    copy.micro_batch()
                with pytest.raises(PositionsWentBack):
                    copy.reader.partitions(refused, offset)


def test_a_role_that_does_not_see_all_tenants_is_refused(spark: SparkSession, database: Database) -> None:
    done(make(database.url, "gapless"))
    role = f"tenant_{uuid4().hex[:8]}"
    database.run(f"CREATE ROLE {role} LOGIN")
    try:
        done(isolate(database.url, role))
        url = database.url.replace("postgres@", f"{role}@")
        with pytest.raises(PySparkException, match="row-level security hides events of store bank"):
            events(spark.read, url).load().count()
    finally:
        database.run(f"DROP OWNED BY {role}")
        database.run(f"DROP ROLE {role}")


async def isolate(url: str, role: str) -> None:
    async with await EventStore.connect(url, schema="bank") as store:
        await store.isolate_tenants(role)
