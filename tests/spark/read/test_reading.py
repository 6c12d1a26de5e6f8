"""``spark.read.format("openoutbox")`` on ``local[2]``: every row as it is, filters in the database, ranges, rights."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from relay.core.errors import StorageUnavailable
from relay.spark import OutboxDataSource
from relay.spark.connection import APPLICATION
from relay.spark.read.reader import TableReader
from relay.spark.read.snapshots import exported_snapshot
from tests.support.fixtures.outbox import Outbox
from tests.support.waiting import wait_until

START = datetime(2026, 3, 1, tzinfo=UTC)
FILL = """
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, headers, status, attempts, last_error,
                               delivered_at, created_at, updated_at)
SELECT gen_random_uuid(), 'orders.' || n %% 3, CASE WHEN n %% 4 > 0 THEN 'key-' || n %% 5 END,
       convert_to('body ' || n, 'UTF8'), jsonb_build_object('n', n, 'é', 'ü'),
       (ARRAY['PENDING', 'DELIVERED', 'DEAD'])[1 + n %% 3], n %% 7, CASE WHEN n %% 3 = 2 THEN 'no: ' || n END,
       CASE WHEN n %% 3 = 1 THEN %(start)s::timestamptz + n * interval '1 minute' + interval '3 microseconds' END,
       %(start)s::timestamptz + n * interval '1 minute', now()
FROM generate_series(0, %(count)s - 1) AS n
"""
COLUMNS = (
    "event_id::text, event_type, partition_key, payload, headers::text, status, attempts, last_error, available_at, "
    "locked_by, locked_at, delivered_at, created_at, updated_at"
)


@pytest.fixture
def filled(outbox: Outbox) -> Outbox:
    """6,000 events in three states, a minute between them, analysed."""
    outbox.database.run(FILL, {"start": START, "count": 6000})
    outbox.database.run("ANALYZE openoutbox_events")
    return outbox


def read(spark: SparkSession, outbox: Outbox, **options: object) -> DataFrame:
    reader = spark.read.format("openoutbox").option("url", outbox.reader_url)
    for name, value in {"pushdown": "true", **options}.items():
        reader = reader.option(name, str(value))
    return reader.load()


def plain(row: Row) -> tuple[Any, ...]:
    """A row as psycopg gives it: Spark hands times out as the local clock shows them, and bytes as bytearrays."""
    values = (value.astimezone(UTC) if isinstance(value, datetime) else value for value in row)
    return tuple(bytes(value) if isinstance(value, bytearray) else value for value in values)


def by_id(row: tuple[Any, ...]) -> str:
    return str(row[0])


def test_every_row_and_every_column_is_read_once(spark: SparkSession, filled: Outbox) -> None:
    frame = read(spark, filled, numPartitions=3)
    assert frame.rdd.getNumPartitions() == 3
    assert sorted(map(plain, frame.collect()), key=by_id) == sorted(filled.rows(COLUMNS), key=by_id)


PUSHED = [
    "status = 'DELIVERED'",
    "status IN ('DELIVERED', 'DEAD') AND event_type <> 'orders.1'",
    "event_type LIKE 'orders.2%'",
    "partition_key IS NULL AND status = 'PENDING'",
    "partition_key = 'key-3'",
    "created_at >= timestamp '2026-03-02 00:00:00Z' AND created_at < timestamp '2026-03-02 06:00:00Z'",
    "delivered_at > timestamp '2026-03-03 00:01:00.000003Z' AND delivered_at <= timestamp '2026-03-03 00:05:00Z'",
    "delivered_at = timestamp '2026-03-03 00:01:00.000003Z'",
    "event_id > '80000000-0000-0000-0000-000000000000' AND status = 'DEAD'",
]
SHARED = [
    "status = 'DEAD' AND attempts = 3 AND last_error LIKE '%8'",
    "event_type > 'orders.0' AND status <> 'DEAD'",
    "created_at IN (timestamp '2026-03-02 00:00:00Z', timestamp '2026-03-02 06:00:00Z')",
]


def test_conditions_find_what_the_database_finds(spark: SparkSession, filled: Outbox) -> None:
    frame = read(
        spark, filled, columns="event_id,status,event_type,partition_key,created_at,delivered_at,attempts,last_error"
    )
    for condition in PUSHED + SHARED:
        wanted = frame.where(condition)
        ids = [row.event_id for row in wanted.collect()]
        spoken = condition.replace("timestamp '", "timestamptz '")
        expected = filled.database.run(f"SELECT event_id::text FROM openoutbox_events WHERE {spoken}")
        assert sorted(ids) == sorted(each for (each,) in expected), condition
        assert 0 < len(ids) < 6000, condition
        plan = wanted._jdf.queryExecution().executedPlan().toString()
        assert ("Filter " in plan) == (condition in SHARED), plan


def test_columns_are_pruned_by_a_schema_too(spark: SparkSession, filled: Outbox) -> None:
    reader = spark.read.format("openoutbox").option("url", filled.reader_url).schema("status string, event_id string")
    assert sorted(reader.load().collect()) == sorted(filled.rows("status, event_id::text"))


def test_pushdown_has_to_be_allowed_or_declined(spark: SparkSession, filled: Outbox) -> None:
    name = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(name, "false")
    try:
        with pytest.raises(PySparkException, match=name):
            read(spark, filled).count()
        assert read(spark, filled, pushdown="false").where("status = 'DEAD'").count() == 2000
    finally:
        spark.conf.set(name, "true")


def test_unless_it_is_asked_for_a_dataframe_may_be_used_with_other_conditions_again(
    spark: SparkSession, filled: Outbox
) -> None:
    frame = spark.read.format("openoutbox").option("url", filled.reader_url).load()
    dead, all_of_them = frame.where("status = 'DEAD'"), len(filled.rows("event_id"))
    assert (dead.count(), frame.count()) == (2000, all_of_them)
    assert dead.unionAll(frame.where("status <> 'DEAD'")).count() == all_of_them


def test_a_time_beyond_all_times_can_be_read(spark: SparkSession, filled: Outbox) -> None:
    filled.database.run("UPDATE openoutbox_events SET available_at = 'infinity' WHERE status = 'DEAD'")
    held = read(spark, filled).where("available_at > timestamp '9999-01-01 00:00:00Z'")
    assert held.selectExpr("count(*)", "min(unix_micros(available_at))").collect() == [(2000, (1 << 63) - 1)]


def test_an_empty_table_and_one_connection(spark: SparkSession, outbox: Outbox) -> None:
    assert read(spark, outbox).count() == 0
    outbox.database.run(FILL, {"start": START, "count": 6000})
    assert read(spark, outbox, numPartitions=1, columns="event_id").distinct().count() == 6000


def test_what_is_missing_or_not_granted_is_named(spark: SparkSession, filled: Outbox) -> None:
    with pytest.raises(PySparkException, match="there is no table orders"):
        read(spark, filled, table="orders").count()
    filled.database.run("REVOKE SELECT ON openoutbox_events FROM openoutbox_reader")
    with pytest.raises(PySparkException, match="this role may not read openoutbox_events"):
        read(spark, filled).count()


def reader_of(outbox: Outbox, **options: str) -> TableReader:
    source = OutboxDataSource({"url": outbox.reader_url, **options})
    return source.reader(source.schema())


def test_rows_that_move_while_ranges_are_read_are_each_read_once(filled: Outbox) -> None:
    reader = reader_of(filled, numPartitions="3", columns="event_id,status")
    ids: list[str] = []
    for share in reader.partitions():
        for batch in reader.read(share):
            ids += batch.column("event_id").to_pylist()
        filled.database.run("UPDATE openoutbox_events SET updated_at = now()")
    assert len(ids) == 6000
    assert set(ids) == {each for (each,) in filled.rows("event_id::text")}


WIDEN = "UPDATE openoutbox_events SET payload = convert_to(repeat(md5(event_id::text), 200), 'UTF8')"
"""To more than all buffers between the server and a reader that stands still can hold."""


def begun(outbox: Outbox) -> tuple[int, Iterator[pa.RecordBatch]]:
    """A read of wide rows that has begun: how many rows have come, and the rest."""
    outbox.database.run(WIDEN)
    reader = reader_of(outbox, numPartitions="1", columns="event_id,payload")
    (share,) = reader.partitions()
    batches = reader.read(share)
    return next(batches).num_rows, batches


def sessions(outbox: Outbox) -> int:
    """How many connections the readers have."""
    rows = outbox.database.run(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = %s",
        (APPLICATION,),
    )
    return int(rows[0][0])


def test_a_read_that_is_abandoned_leaves_no_connection(filled: Outbox) -> None:
    _, batches = begun(filled)
    assert sessions(filled) == 1
    batches.close()  # type: ignore[attr-defined]
    wait_until(lambda: sessions(filled) == 0, 10, "the reader's connection to end")


def test_a_server_that_goes_away_fails_the_task(filled: Outbox) -> None:
    _, batches = begun(filled)
    filled.database.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND application_name = %s",
        (APPLICATION,),
    )
    with pytest.raises(StorageUnavailable, match="reading openoutbox_events"):
        list(batches)


def test_a_read_that_stands_still_holds_up_no_relay(filled: Outbox) -> None:
    read_rows, batches = begun(filled)
    held = filled.database.run(
        "SELECT DISTINCT mode FROM pg_locks WHERE relation = 'openoutbox_events'::regclass AND pid <> pg_backend_pid()"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    assert held == [("AccessShareLock",)]
    with psycopg.connect(filled.relay_url) as relay:
        relay.execute("SET lock_timeout = '1ms'")
        relay.execute("UPDATE openoutbox_events SET status = 'DEAD', delivered_at = NULL")
    with psycopg.connect(filled.pruner_url) as pruner:
        pruner.execute("SET lock_timeout = '1ms'")
        pruner.execute("DELETE FROM openoutbox_events")
    assert read_rows < 6000
    assert read_rows + sum(batch.num_rows for batch in batches) == 6000


def test_a_snapshot_is_one_moment_for_all_tasks(spark: SparkSession, filled: Outbox) -> None:
    before = sorted(filled.rows("event_id::text, status"))
    with exported_snapshot(filled.reader_url) as snapshot:
        frame = read(spark, filled, snapshot=snapshot, columns="event_id,status", numPartitions=4)
        filled.database.run("DELETE FROM openoutbox_events WHERE status = 'DEAD'")
        filled.database.run("UPDATE openoutbox_events SET status = 'DEAD', delivered_at = NULL")
        filled.database.run(FILL, {"start": START, "count": 100})
        assert sorted(map(tuple, frame.collect())) == before
        assert frame.rdd.getNumPartitions() > 1
    with pytest.raises(PySparkException, match="option snapshot: there is no"):
        frame.collect()
