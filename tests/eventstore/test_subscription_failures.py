"""What a subscription recovers from, and what ends it."""

from __future__ import annotations

import asyncio
import contextlib
import random
import uuid
from collections.abc import Iterator

import psycopg
import pytest
from prometheus_client import CollectorRegistry

from relay.core.errors import SchemaError
from relay.eventstore import NO_STREAM, EventStore, NewEvent, SubscriptionDeleted
from relay.eventstore.prometheus import PrometheusMeter
from tests.eventstore.conftest import TENANT
from tests.eventstore.test_subscription import collecting, fill
from tests.support.fixtures.postgres import Database
from tests.support.waiting import eventually, pace_async, patience, wait_until_async

CUT = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = 'openoutbox-eventstore'"
)


async def test_lost_connections_cost_neither_an_event_nor_the_subscription(
    store: EventStore, database: Database, positions: str
) -> None:
    """Every connection of the reader is cut again and again; what it has acknowledged does not come again.

    In one of the modes as a whole, in the other one in two parts.
    """
    chance = random.Random(21)
    parts = [None] if positions == "gapless" else [(0, 2), (1, 2)]
    async with await EventStore.connect(database.url) as reader:
        bodies: list[object] = []

        async def consume(part: tuple[int, int] | None) -> None:
            batches = reader.subscribe("cut", part=part, batch_size=3, poll_interval=0.1)
            async with contextlib.aclosing(batches):
                async for batch in batches:
                    bodies.extend(event.data for event in batch)
                    await pace_async(chance.uniform(0, 0.01))

        consumers = [asyncio.create_task(consume(part)) for part in parts]
        written = 0
        for _ in range(5):
            for _ in range(8):
                written += 1
                with contextlib.suppress(Exception):  # cut as well: the next append says whether it was written
                    await store.append(TENANT, uuid.UUID(int=written), [NewEvent("E", written)], NO_STREAM)
            database.run(CUT)
            await _all_seen(bodies, len(await _bodies(store)))
            assert not any(consumer.done() for consumer in consumers)
        expected = await _bodies(store)
        once = [body for n, body in enumerate(bodies) if body not in bodies[:n]]
        assert sorted(once, key=str) == sorted(expected, key=str)
        assert once == expected or len(parts) > 1
        assert len(bodies) <= len(expected) + 5 * 3 * len(parts)
        for consumer in consumers:
            consumer.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await consumer


async def _all_seen(bodies: list[object], count: int) -> None:
    await eventually(lambda: len(set(map(str, bodies))) == count)


async def _bodies(store: EventStore) -> list[object]:
    while True:
        with contextlib.suppress(Exception):
            return [event.data for event in await store.read_all()]


async def test_an_outage_is_waited_for(
    gapless_store: EventStore, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    async with collecting(gapless_store, "outage", poll_interval=0.1) as bodies:
        await fill(gapless_store, 1, 2)
        await eventually(lambda: bodies == [1, 2])
        with database_closed(database):
            await eventually(lambda: "tries again" in caplog.text)
        async with await EventStore.connect(database.url) as other:
            await fill(other, 3, 4)
        await eventually(lambda: bodies == [1, 2, 3, 4])


@contextlib.contextmanager
def database_closed(database: Database) -> Iterator[None]:
    """No connection is accepted meanwhile, and the existing ones are cut."""
    with psycopg.connect(database.admin_url, autocommit=True) as admin:
        admin.execute(f'ALTER DATABASE "{database.name}" ALLOW_CONNECTIONS false'.encode())
        try:
            cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
            admin.execute(cut, (database.name,))
            yield
        finally:
            admin.execute(f'ALTER DATABASE "{database.name}" ALLOW_CONNECTIONS true'.encode())


async def test_an_idle_subscription_notices_a_reset_before_it_delivers(gapless_store: EventStore) -> None:
    """The event that wakes it is read from its old position."""
    await fill(gapless_store, 1, 4)
    async with collecting(gapless_store, "idle", lease=600.0, poll_interval=600.0) as bodies:
        await eventually(lambda: bodies == [1, 2, 3, 4])

        async def acknowledged() -> bool:
            return (await gapless_store.list_subscriptions())[0].position == 4

        await wait_until_async(acknowledged)
        bodies.clear()
        await gapless_store.reset_subscription("idle")
        await fill(gapless_store, 5, 5)
        await eventually(lambda: len(bodies) >= 5)
        assert bodies == [1, 2, 3, 4, 5]


async def test_an_idle_subscription_goes_back_after_a_reset_without_an_event(gapless_store: EventStore) -> None:
    await fill(gapless_store, 1, 2)
    async with collecting(gapless_store, "renewed", lease=0.3, poll_interval=600.0) as bodies:
        await eventually(lambda: bodies == [1, 2])
        await gapless_store.reset_subscription("renewed")
        await eventually(lambda: bodies[-2:] == [1, 2] and len(bodies) >= 4)


async def test_a_deleted_subscription_ends_its_instances(gapless_store: EventStore, database: Database) -> None:
    active = gapless_store.subscribe("deleted", lease=0.3)
    standby = gapless_store.subscribe("deleted", lease=0.3)
    await fill(gapless_store, 1, 1)
    assert len(await anext(active)) == 1
    waiting = asyncio.create_task(anext(standby))
    looks = "query LIKE '%Whether a subscription is consumed in parts%' AND pid <> pg_backend_pid()"
    claims = f"SELECT 1 FROM pg_stat_activity WHERE {looks} AND datname = current_database()"
    await eventually(lambda: database.run(claims))  # the one in standby has created nothing, and waits
    assert await gapless_store.delete_subscription("deleted")
    assert not await gapless_store.delete_subscription("deleted")
    for instance in (asyncio.create_task(anext(active)), waiting):
        with pytest.raises(SubscriptionDeleted, match="deleted"):
            await asyncio.wait_for(instance, 30)
    assert await gapless_store.list_subscriptions() == []


async def test_a_store_that_is_missing_ends_it(database: Database) -> None:
    async with await EventStore.connect(database.url) as store:
        with pytest.raises(SchemaError, match="migrate"):
            await anext(store.subscribe("nowhere"))


async def test_the_lag_grows_while_the_consumer_hangs(gapless_store: EventStore) -> None:
    registry = CollectorRegistry()

    def value(name: str) -> float:
        name = f"openoutbox_eventstore_subscription_{name}"
        return registry.get_sample_value(name, {"subscription": "hangs"}) or 0.0

    await fill(gapless_store, 1, 2)
    async with contextlib.aclosing(
        gapless_store.subscribe("hangs", batch_size=1, lease=0.15, meter=PrometheusMeter(registry))
    ) as batches:
        await anext(batches)
        before = value("lag_seconds")
        await fill(gapless_store, 3, 4)
        await eventually(lambda: value("lag_seconds") > before and value("lag_positions") == 4)
        [state] = await gapless_store.list_subscriptions()
        assert (state.active, state.position, state.lag_events) == (True, 0, 4)
        assert state.holder is not None
        assert state.lag_seconds > 0


async def test_it_can_be_closed_inside_the_transaction_that_acknowledged(
    gapless_store: EventStore, database: Database
) -> None:
    """Releasing the lease waits for that transaction, but not longer than the lease lasts."""
    await fill(gapless_store, 1, 1)
    async with (
        await database.connect_async() as connection,
        asyncio.timeout(patience()),
        connection.transaction(),
        contextlib.aclosing(gapless_store.subscribe("inside", lease=0.3)) as batches,
    ):
        await (await anext(batches)).acknowledge(connection)
    assert [state.position for state in await gapless_store.list_subscriptions()] == [1]


async def test_the_lag_behind_a_row_that_cannot_be_decoded_is_listed(
    gapless_store: EventStore, database: Database
) -> None:
    """A subscription stops there, which its lag must show; so does one behind events that are gone."""
    await fill(gapless_store, 1, 1)
    insert = (
        "INSERT INTO Event (TenantId, StreamId, Version, Type, Meta, LogDate) "
        "VALUES (%s, gen_random_uuid(), 1, %s, %s, now() - interval '1 hour')"
    )
    database.run(insert, (TENANT, "gone", "{}"))
    database.run(insert, (TENANT, "deep", '{"n": ' + "[" * 3000 + "]" * 3000 + "}"))
    database.run("INSERT INTO event_subscription (Name, Position) VALUES ('before', 1), ('behind', 2), ('end', 3)")
    database.run(f"ALTER TABLE event_{TENANT.hex} DISABLE TRIGGER USER")
    database.run(f"DELETE FROM event_{TENANT.hex} WHERE Type = 'gone'")
    before, behind, end = await gapless_store.list_subscriptions()
    assert (before.lag_events, behind.lag_events, end.lag_events) == (2, 1, 0)
    assert before.lag_seconds > 3000
    assert behind.lag_seconds > 3000
    assert end.lag_seconds == 0
