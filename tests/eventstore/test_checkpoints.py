"""A position is compared with the event that was read there: after a restore, every reader of the old end fails."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from relay.core.errors import EventError, StorageUnavailable
from relay.eventstore import (
    ANY,
    NO_STREAM,
    Checkpoint,
    EventStore,
    NewEvent,
    PositionsWentBack,
    StoredEvent,
    SubscriptionLost,
)
from relay.eventstore.read import EventFilter
from tests.eventstore.conftest import OTHER_TENANT, STREAM, TENANT
from tests.support.fixtures.postgres import Database
from tests.support.restoring import back_up, pooled, restore
from tests.support.waiting import eventually


async def fill(store: EventStore, *bodies: int | str, stream: uuid.UUID = STREAM) -> None:
    for body in bodies:
        await store.append(TENANT, stream, [NewEvent("E", body)], ANY)


def bodies(events: list[StoredEvent]) -> list[object]:
    return [event.data for event in events]


@pytest.fixture
async def backup(database: Database, positions: str) -> Database:
    """A store with six events, and the copy of it that tests restore."""
    async with await EventStore.connect(database.url) as store:
        await store.migrate(positions=positions)  # type: ignore[arg-type]
        await store.provision_tenant(TENANT)
        await fill(store, 1, 2, 3, 4, 5, 6)
    return await asyncio.to_thread(back_up, database)


@contextlib.asynccontextmanager
async def went_back(database: Database, backup: Database, *bodies: int | str) -> AsyncIterator[EventStore]:
    """The restored store, with these events after the six."""
    await asyncio.to_thread(restore, database, backup)
    async with await EventStore.connect(database.url) as store:
        await fill(store, *bodies)
        yield store


async def test_a_live_consumer_behind_a_pooler_skips_nothing_after_a_restore(
    store: EventStore, database: Database, pgbouncer: str
) -> None:
    """The consumer's own lease and checkpoint are in the backup; the pooler hides that the server changed."""
    await fill(store, 1, 2, 3, 4, 5, 6)
    async with (
        await EventStore.connect(pooled(database, pgbouncer)) as live,
        contextlib.aclosing(live.subscribe("live", lease=600.0, poll_interval=0.1)) as batches,
    ):
        assert bodies((await anext(batches)).events) == [1, 2, 3, 4, 5, 6]
        backup = await asyncio.to_thread(back_up, database)
        async with await EventStore.connect(database.url) as writer:
            await fill(writer, 7, 8, 9, 10)
        assert bodies((await anext(batches)).events) == [7, 8, 9, 10]
        following = asyncio.create_task(anext(batches))  # acknowledges
        await eventually(lambda: database.run("SELECT Position FROM event_subscription") == [(10,)])
        async with went_back(database, backup, "7 again", "8 again", "9 again", "10 again", "11"):
            with pytest.raises(PositionsWentBack) as caught:
                await asyncio.wait_for(following, 30)
    assert caught.value.position == 10


@pytest.mark.parametrize("after", [[], ["7", "8", "9", "10"], ["7", "8", "9", "10", "11"]])
async def test_a_checkpoint_of_a_consumers_own_is_no_position_of_the_restored_store(
    database: Database, backup: Database, after: list[str]
) -> None:
    """Also where the same stream has the same versions at the same positions again."""
    async with await EventStore.connect(database.url) as store:
        await fill(store, 7, 8, 9, 10)
        text = [str(event.checkpoint) for event in await store.read_all()]
        assert bodies(await store.read_all(Checkpoint.parse(text[-2]))) == [10]
    async with went_back(database, backup, *after) as store:
        assert bodies(await store.read_all(Checkpoint.parse(text[5]))) == after
        for lost in text[6:]:
            with pytest.raises(PositionsWentBack):
                await store.read_all(Checkpoint.parse(lost))


async def test_a_position_above_the_newest_is_refused(store: EventStore) -> None:
    await fill(store, 1, 2)
    for refused in (
        store.read_all(3),
        store.reset_subscription("any", 10**9),
        anext(store.subscribe("any", start=3)),
    ):
        with pytest.raises(PositionsWentBack) as caught:
            await refused
        assert caught.value.newest == 2
    assert await store.read_all(2) == []
    assert await store.list_subscriptions() == []


async def test_what_was_deleted_is_no_reason_to_refuse(store: EventStore) -> None:
    """A deleted stream, a dropped tenant, and one that was provisioned again."""
    await store.append(OTHER_TENANT, STREAM, [NewEvent("E", 1)], NO_STREAM)
    await fill(store, 2)
    stream, tenant = [event.checkpoint for event in await store.read_all()][::-1]
    await fill(store, 3, stream=uuid.uuid4())
    await store.delete_stream(TENANT, STREAM, confirm=STREAM)
    assert bodies(await store.read_all(stream)) == [3]
    await store.drop_tenant(OTHER_TENANT, confirm=OTHER_TENANT)
    assert bodies(await store.read_all(tenant)) == [3]
    await store.provision_tenant(OTHER_TENANT)
    await store.append(OTHER_TENANT, STREAM, [NewEvent("E", 4)], NO_STREAM)
    assert bodies(await store.read_all(tenant)) == [3, 4]
    with pytest.raises(PositionsWentBack):
        await store.read_all(tenant._replace(tenant_id=TENANT, version=2))


@pytest.mark.parametrize("part", [None, (1, 2)])
async def test_an_acknowledgement_needs_the_position_that_was_read(
    store: EventStore, database: Database, part: tuple[int, int] | None
) -> None:
    """The row is as a restored database has it: the consumer's own lease, and an earlier position."""
    await fill(store, 1, 2, 3)
    async with contextlib.aclosing(store.subscribe("guarded", batch_size=1, lease=600.0, part=part)) as batches:
        await anext(batches)
        batch = await anext(batches)
        for table in ("event_subscription", "event_subscription_member"):
            database.run(f"UPDATE {table} SET Position = 0 WHERE Position = 1")
        async with await database.connect_async() as connection:
            with pytest.raises(PositionsWentBack):
                await batch.acknowledge(connection)
        with pytest.raises(PositionsWentBack):
            await anext(batches)


async def test_a_batch_is_acknowledged_once(store: EventStore, database: Database) -> None:
    """A consumer that did not get the answer to its COMMIT does its work again, and must roll it back."""
    await fill(store, 1, 2)
    async with contextlib.aclosing(store.subscribe("once", batch_size=1)) as batches:
        batch = await anext(batches)
        async with await database.connect_async() as connection:
            await batch.acknowledge(connection)
            with pytest.raises(SubscriptionLost, match="already"):
                await batch.acknowledge(connection)
        assert bodies((await anext(batches)).events) == [2]


async def test_a_checkpoint_without_an_event_gets_one_at_its_first_use(store: EventStore, database: Database) -> None:
    """A release before migration 10 stored positions alone, also where no event is."""
    await fill(store, 1, 2)
    await fill(store, 3, stream=OTHER_TENANT)
    await store.delete_stream(TENANT, OTHER_TENANT, confirm=OTHER_TENANT)
    await fill(store, 4)
    known = (await store.read_all())[1].checkpoint
    columns = "SELECT Position, LastRead IS NOT NULL FROM event_subscription"
    for last_read in (None, f"7{str(known)[1:]}"):
        await store.reset_subscription("old", 0)
        database.run("UPDATE event_subscription SET Position = 3, LastRead = %s", (last_read,))
        async with contextlib.aclosing(store.subscribe("old")) as batches:
            assert bodies((await anext(batches)).events) == [4]
            acknowledging = asyncio.create_task(anext(batches))
            await eventually(lambda: database.run(columns) == [(4, True)])
            acknowledging.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await acknowledging
    database.run("UPDATE event_subscription SET Position = 5, LastRead = NULL")
    with pytest.raises(PositionsWentBack):
        await anext(store.subscribe("old"))


async def test_a_checkpoint_is_an_event_that_its_reader_sees(store: EventStore, database: Database) -> None:
    """Where the filter passes nothing, and where the position was one without an event."""
    await fill(store, 1, 2)
    with contextlib.suppress(ZeroDivisionError):  # in a settled store, a gap
        async with await database.connect_async(autocommit=False) as connection:
            await store.append(TENANT, uuid.uuid4(), [NewEvent("E")], NO_STREAM, connection=connection)
            raise ZeroDivisionError
    page = await store._reader.page(Checkpoint(0), 10, EventFilter.of(None, ["none"]))
    assert page.checkpoint == (await store.read_all())[-1].checkpoint
    await store.reset_subscription("any", (await store._reader.look()).newest)
    assert [state.position for state in await store.list_subscriptions()] == [2]


@pytest.mark.parametrize("positions", ["settled"])
@pytest.mark.parametrize("through_pooler", [False, True])
async def test_a_remembered_horizon_ends_with_the_server(
    database: Database, backup: Database, pgbouncer: str, through_pooler: bool
) -> None:
    """What another server had settled says nothing about the writers of this one."""
    url = pooled(database, pgbouncer) if through_pooler else database.url
    async with await EventStore.connect(url, max_connections=1) as reader:
        async with await EventStore.connect(database.url) as store:
            await fill(store, *range(7, 40))
            assert len(await reader.read_all(limit=100)) == 39
        async with went_back(database, backup) as store, await database.connect_async(autocommit=False) as late:
            await store.append(TENANT, uuid.uuid4(), [NewEvent("E", "late")], NO_STREAM, connection=late)
            await fill(store, *range(50))
            with contextlib.suppress(StorageUnavailable):  # its connection was lost with the other server
                await reader.read_all(6)
            assert await reader.read_all(6) == []
            await late.commit()
            assert bodies(await reader.read_all(6)) == ["late", *range(50)]


def test_a_checkpoint_is_read_from_its_text() -> None:
    date = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    for checkpoint in (Checkpoint(0), Checkpoint(7, TENANT, STREAM, 3, date), Checkpoint(7, TENANT, STREAM, 3)):
        assert Checkpoint.parse(str(checkpoint)) == checkpoint
    for text in ("", "x", "1/2", f"1/{TENANT}/{STREAM}/one/", "1/2/3/4/5"):
        with pytest.raises(EventError, match="checkpoint"):
            Checkpoint.parse(text)
