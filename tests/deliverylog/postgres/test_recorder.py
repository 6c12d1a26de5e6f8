"""The recorder on PostgreSQL, as the log's owner and with fewer rights."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from relay.deliverylog import DeliveryLog, ListAttempts, open_delivery_log
from relay.deliverylog.postgres.driver import PostgresDeliveryLog
from relay.deliverylog.postgres.partitions import month_after, month_of
from tests.deliverylog.making import all_items, entry
from tests.deliverylog.test_recorder import QUICK, recording, settled
from tests.support.fixtures.postgres import Database
from tests.support.waiting import eventually


async def test_a_store_that_may_not_migrate_is_closed_before_the_next_is_opened(database: Database) -> None:
    """Each retry opens one; their pools stayed open until the process ended."""
    role = f"nobody_{database.name}"
    database.run(f"CREATE ROLE {role} LOGIN")
    stores: list[PostgresDeliveryLog] = []

    async def opened() -> DeliveryLog:
        store = await open_delivery_log(database.url.replace("postgres@", f"{role}@"))
        assert isinstance(store, PostgresDeliveryLog)
        stores.append(store)
        return store

    try:
        async with recording(opened, QUICK) as recorder:
            await eventually(lambda: len(stores) > 2, what="the recorder retries")
            assert "permission denied" in recorder.trouble
            assert not any(store._pool.connected for store in stores[:-1])
        assert not any(store._pool.connected for store in stores)
    finally:
        database.run(f"DROP ROLE {role}")


async def test_an_owner_keeps_months_ready_and_drops_old_ones_while_it_writes(log_database: Database) -> None:
    now = datetime.now(UTC)
    filler = await open_delivery_log(log_database.url, months_ahead=0)
    await filler.insert_many([entry("old", now - timedelta(days=800))])

    async def opened() -> DeliveryLog:
        return await open_delivery_log(log_database.url, retention_days=600)

    old = "SELECT 1 FROM pg_class WHERE relname = %s"
    async with recording(opened, QUICK) as recorder:
        recorder.record([settled(1)])
        await eventually(lambda: recorder.written == 1)
        await eventually(lambda: not log_database.run(old, [f"attempts_{now - timedelta(days=800):%Y_%m}"]))
        assert recorder.ready_until == month_after(month_of(now), 4)
        assert recorder.trouble == ""
    assert len(await all_items(filler, ListAttempts())) == 1
    await filler.close()


async def test_a_recorder_without_the_right_says_until_when_months_are_ready(
    log_database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    now = datetime.now(UTC)
    filler = await open_delivery_log(log_database.url, months_ahead=0)
    await filler.insert_many([entry("old", now - timedelta(days=800))])
    role = f"recorder_{log_database.name}"
    log_database.run(f"CREATE ROLE {role} LOGIN")
    log_database.run(f"GRANT USAGE ON SCHEMA openoutbox_log TO {role}")
    log_database.run(f"GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA openoutbox_log TO {role}")

    async def opened() -> DeliveryLog:
        return await open_delivery_log(log_database.url.replace("postgres@", f"{role}@"), retention_days=600)

    try:
        async with recording(opened, QUICK) as recorder:
            await eventually(lambda: recorder.ready_until is not None)
            assert recorder.ready_until == month_after(month_of(now))
            await eventually(lambda: sum("run relay-cli log maintain daily" in line for line in caplog.messages) == 2)
    finally:
        log_database.run(f"DROP OWNED BY {role}")
        log_database.run(f"DROP ROLE {role}")
    assert {line.partition(":")[0] for line in caplog.messages} >= {
        "cannot prepare the delivery log's coming months",
        "cannot drop what is older than DELIVERY_LOG_RETENTION_DAYS",
    }
    assert len(await all_items(filler, ListAttempts())) == 1
    await filler.close()
