"""``format("openoutbox_deliverylog")``: every attempt of the delivery log, over its monthly partitions."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession

from relay.deliverylog import LogEntry, open_delivery_log
from tests.deliverylog.making import entry, event
from tests.support.fixtures.postgres import Database

FIRST = datetime(2026, 1, 20, tzinfo=UTC)


def entries() -> list[LogEntry]:
    """Attempts of 50 days: every third one failed, every fifth to another destination than its event's."""
    log = []
    for number in range(600):
        time = FIRST + timedelta(hours=2 * number)
        of = event(f"e-{number}", time - timedelta(seconds=3), topic=f"orders.{number % 2}", data=b"body")
        failed = {"status": "failed", "code": "MSG_SIZE_TOO_LARGE", "response_data": {"reason": "é"}}
        more = failed if number % 3 == 0 else {}
        log.append(entry(f"a-{number}", time, of, destination_id=f"d{1 + number % 5}", **more))
    return log


async def write(url: str, schema: str) -> None:
    store = await open_delivery_log(url, schema=schema, months_ahead=0)
    await store.migrate()
    await store.insert_many(entries())
    await store.close()


def test_every_attempt_is_read_and_conditions_are_asked_of_the_database(
    spark: SparkSession, database: Database
) -> None:
    asyncio.run(write(database.url, "log"))
    reader = spark.read.format("openoutbox_deliverylog").option("url", database.url).option("logSchema", "log")
    reader = reader.option("numPartitions", 3)
    frame = reader.load()
    rows = {row.id: row for row in frame.collect()}
    assert len(rows) == frame.count() == 600
    failed = rows["a-3"]
    assert (failed.status, failed.code, failed.response_data) == ("failed", "MSG_SIZE_TOO_LARGE", '{"reason": "é"}')
    assert (failed.topic, failed.event_topic, failed.destination_id) == ("orders.1", "orders.1", "d4")
    assert (
        failed.event_destination_id
        == database.run("SELECT coalesce(event_destination_id, destination_id) FROM log.attempts WHERE id = 'a-3'")[0][
            0
        ]
    )
    assert (bytes(failed.event_data), failed.event_metadata, failed.manual) == (b"body", "{}", False)
    assert failed.time.astimezone(UTC) == FIRST + timedelta(hours=6)
    wanted = (
        reader.option("pushdown", "true")
        .load()
        .where(
            "time >= timestamp '2026-02-01 00:00:00Z' AND status = 'failed' AND topic = 'orders.0' AND tenant_id = 't1'"
        )
    )
    assert "Filter " not in wanted._jdf.queryExecution().executedPlan().toString()
    assert {row.id for row in wanted.select("id").collect()} == {
        f"a-{number}" for number in range(600) if number >= 144 and number % 6 == 0
    }
