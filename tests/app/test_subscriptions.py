"""The lag of the event store's subscriptions in the daemon's /metrics, on PostgreSQL."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import pytest

from relay.app.run import build_subscription_lag
from relay.app.subscriptions import SubscriptionLag
from relay.eventstore import ANY, EventStore, NewEvent
from relay.settings.settings import Settings
from relay.telemetry.prometheus import PrometheusTelemetry
from tests.support.fixtures.postgres import Database
from tests.support.waiting import eventually

TENANT = STREAM = "00000000-0000-0000-0000-000000000001"


def test_without_a_schema_nothing_is_listed() -> None:
    assert build_subscription_lag(Settings.from_env({"STORAGE_URL": "postgres://u:p@h/db"})) is None


@contextlib.asynccontextmanager
async def shown(database: Database) -> AsyncIterator[PrometheusTelemetry]:
    """The metrics of a daemon that lists the store in ``public``."""
    lag = SubscriptionLag(database.url, "public", interval=0.05)
    telemetry = PrometheusTelemetry("r1")
    telemetry.providers.add(lag.read)
    lag.start()
    try:
        yield telemetry
    finally:
        await lag.close()


def events_behind(telemetry: PrometheusTelemetry, database: Database) -> float | None:
    labels = {"database": database.name, "schema": "public", "subscription": "billing", "part": ""}
    return telemetry.registry.get_sample_value("openoutbox_eventstore_checkpoint_lag_events", labels)


async def test_the_lag_grows_without_a_consumer(database: Database) -> None:
    async with await EventStore.connect(database.url) as store:
        await store.migrate()
        await store.provision_tenant(TENANT)
        await store.append(TENANT, STREAM, [NewEvent("A"), NewEvent("B")], ANY)
        batches = store.subscribe("billing")
        await anext(batches)
        await batches.aclose()
        async with shown(database) as telemetry:
            await eventually(lambda: events_behind(telemetry, database) == 2)
            await store.append(TENANT, STREAM, [NewEvent("C")], ANY)
            await eventually(lambda: events_behind(telemetry, database) == 3)
            assert b"openoutbox_eventstore_listed_timestamp_seconds{" in telemetry.exposition()[0]


async def test_a_store_that_is_missing_is_one_warning(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    async with shown(database) as telemetry:
        await eventually(lambda: "cannot be listed" in caplog.text)
        async with await EventStore.connect(database.url) as store:
            await store.migrate()
        await eventually(lambda: b"listed_timestamp_seconds{" in telemetry.exposition()[0])
    assert caplog.text.count("cannot be listed") == 1
