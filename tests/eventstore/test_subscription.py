"""Subscriptions: every event once, in spite of lost notifications, roll-backs, resets and killed instances."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import uuid
from collections.abc import AsyncIterator

import pytest
from prometheus_client import CollectorRegistry

from relay.core.errors import ConfigError
from relay.eventstore import NO_STREAM, EventStore, NewEvent, SubscriptionBatch, SubscriptionLost
from relay.eventstore.prometheus import PrometheusMeter
from tests.eventstore.conftest import OTHER_TENANT, STREAM, TENANT
from tests.support.fixtures.postgres import Database
from tests.support.paths import ROOT
from tests.support.waiting import eventually, patience, wait_until_async


async def fill(store: EventStore, first: int, last: int) -> None:
    for number in range(first, last + 1):
        await store.append((TENANT, OTHER_TENANT)[number % 2], uuid.uuid4(), [NewEvent("E", number)], NO_STREAM)


@contextlib.asynccontextmanager
async def collecting(store: EventStore, name: str, **options: object) -> AsyncIterator[list[object]]:
    """A subscription that runs in the background and puts what it gets into a list."""
    bodies: list[object] = []

    async def collect() -> None:
        async with contextlib.aclosing(store.subscribe(name, **options)) as batches:  # type: ignore[arg-type]
            async for batch in batches:
                bodies.extend(event.data for event in batch)

    task = asyncio.create_task(collect())
    try:
        yield bodies
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_it_delivers_what_is_there_and_what_comes(store: EventStore) -> None:
    await fill(store, 1, 5)
    async with collecting(store, "all", batch_size=2) as bodies:
        await eventually(lambda: bodies == [1, 2, 3, 4, 5])
        await fill(store, 6, 8)
        await eventually(lambda: bodies == [1, 2, 3, 4, 5, 6, 7, 8])


async def test_it_goes_on_where_it_was_closed(store: EventStore) -> None:
    await fill(store, 1, 6)
    async with contextlib.aclosing(store.subscribe("resumed", batch_size=2)) as batches:
        assert [event.data for event in await anext(batches)] == [1, 2]
        assert [event.data for event in await anext(batches)] == [3, 4]
    async with contextlib.aclosing(store.subscribe("resumed", batch_size=10)) as batches:
        assert [event.data for event in await anext(batches)] == [3, 4, 5, 6]


async def test_it_starts_at_the_requested_position(store: EventStore) -> None:
    await fill(store, 1, 4)
    async with collecting(store, "end", start="end") as end, collecting(store, "third", start=2) as third:
        await eventually(lambda: third == [3, 4])

        async def known() -> bool:
            return any(one.name == "end" and one.active for one in await store.list_subscriptions())

        await wait_until_async(known)
        await fill(store, 5, 5)
        await eventually(lambda: end == [5] and third == [3, 4, 5])


async def test_only_what_is_wanted_is_delivered_and_the_rest_is_passed(store: EventStore) -> None:
    await fill(store, 1, 9)
    await store.append(TENANT, STREAM, [NewEvent("Rare", "rare")], NO_STREAM)
    await fill(store, 10, 12)
    async with collecting(store, "rare", types=["Rare"]) as bodies, collecting(store, "one", tenants=[TENANT]) as one:
        await eventually(lambda: bodies == ["rare"] and one == [2, 4, 6, 8, "rare", 10, 12])

        async def passed() -> bool:
            return {state.position for state in await store.list_subscriptions()} == {13}

        await wait_until_async(passed)


async def test_lost_notifications_cost_no_event(store: EventStore, database: Database, positions: str) -> None:
    async with collecting(store, "polling", poll_interval=0.2) as bodies:
        await fill(store, 1, 2)
        await eventually(lambda: bodies == [1, 2])
        await store.migrate(positions=positions, notify=False)  # type: ignore[arg-type]
        await fill(store, 3, 4)
        await eventually(lambda: bodies == [1, 2, 3, 4])
        await store.migrate(positions=positions, notify=True)  # type: ignore[arg-type]
        listening = "query LIKE '%LISTEN%' AND pid <> pg_backend_pid() AND datname = current_database()"
        assert database.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {listening}")
        await fill(store, 5, 6)
        await eventually(lambda: bodies == [1, 2, 3, 4, 5, 6])


async def test_a_notification_wakes_it_long_before_the_next_poll(store: EventStore) -> None:
    async with collecting(store, "woken", poll_interval=3600.0) as bodies:
        await fill(store, 1, 1)
        await eventually(lambda: bodies == [1])
        await fill(store, 2, 2)
        await eventually(lambda: bodies == [1, 2])


async def test_the_checkpoint_commits_with_the_consumers_own_work(store: EventStore, database: Database) -> None:
    database.run("CREATE TABLE projection (n int)")
    await fill(store, 1, 4)

    async def handle(batch: SubscriptionBatch, *, fail: bool) -> None:
        async with await database.connect_async() as connection:
            with contextlib.suppress(ZeroDivisionError):
                async with connection.transaction():
                    for event in batch:
                        await connection.execute("INSERT INTO projection VALUES (%s)", (event.data,))
                    await batch.acknowledge(connection)
                    if fail:
                        raise ZeroDivisionError

    async with contextlib.aclosing(store.subscribe("projection", batch_size=2)) as batches:
        for fail in (True, False, True, False):
            await handle(await anext(batches), fail=fail)
    assert database.run("SELECT n FROM projection ORDER BY 1") == [(1,), (2,), (3,), (4,)]
    assert (await store.list_subscriptions())[0].position == 4


async def test_a_reset_takes_the_subscription_from_its_instance(store: EventStore, database: Database) -> None:
    await fill(store, 1, 4)
    async with contextlib.aclosing(store.subscribe("reset", batch_size=2)) as batches:
        await anext(batches)
        batch = await anext(batches)
        await store.reset_subscription("reset", 1)
        async with await database.connect_async() as connection:
            with pytest.raises(SubscriptionLost):
                await batch.acknowledge(connection)
        # What was delivered before the reset comes in batches of its own.
        assert [[event.data for event in await anext(batches)] for _ in range(2)] == [[2], [3, 4]]
    await store.delete_subscription("reset")
    assert await store.list_subscriptions() == []


async def test_one_instance_is_active_and_the_next_takes_over_when_it_closes(store: EventStore) -> None:
    await fill(store, 1, 2)
    async with contextlib.aclosing(store.subscribe("shared", lease=60.0)) as first:
        assert len(await anext(first)) == 2
        async with collecting(store, "shared", lease=0.3) as second:
            await asyncio.wait_for(fill(store, 3, 3), patience())
            assert len(await anext(first)) == 1
            assert second == []
            await first.aclose()
            await eventually(lambda: second == [3])


@pytest.mark.parametrize(("positions", "parts"), [("gapless", [(0, 1), (0, 1)]), ("settled", [(0, 2), (0, 2), (1, 2)])])
async def test_fail_over_between_processes_when_one_is_killed(
    store: EventStore, database: Database, parts: list[tuple[int, int]]
) -> None:
    """The first two processes have one part, or the whole; the active one is killed with -9, the other one goes on."""
    database.run("CREATE TABLE projection (n int PRIMARY KEY, process int)")
    command = [sys.executable, "-m", "tests.eventstore.consumer", database.url]
    processes = [await asyncio.create_subprocess_exec(*command, str(number), str(of), cwd=ROOT) for number, of in parts]
    try:
        await fill(store, 1, 20)
        await eventually(lambda: database.run("SELECT count(*) FROM projection") == [(20,)])
        active = {process for (process,) in database.run("SELECT DISTINCT process FROM projection")}
        first, second = sorted(processes[:2], key=lambda process: process.pid not in active)
        first.send_signal(signal.SIGKILL)
        await first.wait()
        await fill(store, 21, 40)
        await eventually(lambda: database.run("SELECT count(*) FROM projection") == [(40,)])
        successors = {process for (process,) in database.run("SELECT DISTINCT process FROM projection WHERE n > 20")}
        assert successors == {second.pid} | {process.pid for process in processes[2:]}
        assert database.run("SELECT min(n), max(n) FROM projection") == [(1, 40)]
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def test_its_metrics_tell_lag_and_what_it_waits_for(database: Database) -> None:
    registry = CollectorRegistry()

    def value(name: str) -> float | None:
        return registry.get_sample_value(f"openoutbox_eventstore_subscription_{name}", {"subscription": "measured"})

    async with await EventStore.connect(database.url) as store:
        await store.migrate(positions="settled")
        await store.provision_tenant(TENANT)
        await store.provision_tenant(OTHER_TENANT)
        await fill(store, 1, 3)
        async with collecting(store, "measured", meter=PrometheusMeter(registry)) as bodies:
            await eventually(lambda: value("events_total") == 3 and value("lag_positions") == 0)
            assert value("active") == 1
            assert value("blocked_seconds") == 0
            async with await database.connect_async(autocommit=False) as older:
                await store.append(TENANT, STREAM, [NewEvent("E", "older")], NO_STREAM, connection=older)
                await fill(store, 4, 5)
                await eventually(lambda: (value("blocked_seconds") or 0) > 0 and value("lag_positions") == 3)
                assert bodies == [1, 2, 3]
                await older.commit()
            await eventually(lambda: bodies == [1, 2, 3, "older", 4, 5] and value("blocked_seconds") == 0)
        await eventually(lambda: value("active") == 0)


@pytest.mark.parametrize("options", [{"lease": 0}, {"poll_interval": -1.0}, {"batch_size": 0}, {"types": "E"}])
async def test_options_that_cannot_be_are_refused(gapless_store: EventStore, options: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        gapless_store.subscribe("refused", **options)  # type: ignore[arg-type]
