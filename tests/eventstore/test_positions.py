"""Many writers, some of which roll back or dawdle, and readers that skip nothing and see nothing twice."""

from __future__ import annotations

import asyncio
import random
import uuid

import psycopg
import pytest

from relay.eventstore import ANY, NO_STREAM, EventStore, NewEvent
from tests.eventstore.conftest import OTHER_TENANT, STREAM, TENANT, as_role
from tests.support.fixtures.postgres import Database
from tests.support.registrations import registering
from tests.support.waiting import eventually, pace_async, wait_until_async

WRITERS, STREAMS, APPENDS, READERS = 50, 200, 12, 3


class _Undecided(Exception):
    """What makes a writer roll back."""


async def _write(store: EventStore, url: Database, streams: list[uuid.UUID], chance: random.Random) -> list[str]:
    """Appends in transactions of the writer's own, each committed or rolled back after a while."""
    committed: list[str] = []
    async with await url.connect_async() as connection:
        for _ in range(APPENDS):
            name = uuid.uuid4().hex
            new = [NewEvent(f"{name}-{n}") for n in range(chance.randint(1, 3))]
            tenant = chance.choice((TENANT, OTHER_TENANT))
            try:
                async with connection.transaction():
                    await store.append(tenant, chance.choice(streams), new, ANY, connection=connection)
                    await pace_async(chance.uniform(0, 0.004))
                    if chance.random() < 0.25:
                        raise _Undecided
            except _Undecided:
                continue
            committed += [event.type for event in new]
    return committed


async def _follow(store: EventStore, done: asyncio.Event, page: int) -> list[tuple[int, str]]:
    """All events, read while they come; ends on an empty page after the writers have ended."""
    seen: list[tuple[int, str]] = []
    while True:
        last_round = done.is_set()
        events = await store.read_all(after=seen[-1][0] if seen else 0, limit=page)
        seen += [(event.sequence_num, event.type) for event in events]
        if last_round and not events:
            return seen


async def test_readers_see_every_committed_event_once_and_in_order(
    store: EventStore, database: Database, positions: str
) -> None:
    chance = random.Random(20)
    streams = [uuid.UUID(int=chance.getrandbits(128)) for _ in range(STREAMS)]
    done = asyncio.Event()
    readers = [asyncio.create_task(_follow(store, done, page)) for page in (7, 50, 1000)]
    writers = [_write(store, database, streams, random.Random(seed)) for seed in range(WRITERS)]
    committed = [name for names in await asyncio.gather(*writers) for name in names]
    done.set()
    assert len(readers) == READERS
    for seen in await asyncio.gather(*readers):
        numbers = [position for position, _ in seen]
        assert numbers == sorted(set(numbers))
        assert sorted(name for _, name in seen) == sorted(committed)
        if positions == "gapless":
            assert numbers == list(range(1, len(committed) + 1))
    for stream in streams[:20]:
        for tenant in (TENANT, OTHER_TENANT):
            versions = [event.version for event in await store.read_stream(tenant, stream)]
            assert versions == list(range(1, len(versions) + 1))


async def test_settled_readers_wait_for_an_older_transaction_and_for_no_other(
    database: Database,
) -> None:
    async with await EventStore.connect(database.url) as store:
        await store.migrate(positions="settled")
        await store.provision_tenant(TENANT)
        database.run("CREATE TABLE unrelated (n int)")
        async with (
            await database.connect_async(autocommit=False) as unrelated,
            await database.connect_async(autocommit=False) as older,
        ):
            await unrelated.execute("INSERT INTO unrelated VALUES (1)")
            await store.append(TENANT, STREAM, [NewEvent("before")], NO_STREAM)
            assert [event.type for event in await store.read_all()] == ["before"]
            await store.append(TENANT, uuid.uuid4(), [NewEvent("older")], NO_STREAM, connection=older)
            await store.append(TENANT, STREAM, [NewEvent("younger")], 1)
            assert [event.type for event in await store.read_all()] == ["before"]
            assert [event.type for event in await store.read_all(tenants=[TENANT])] == ["before"]
            await older.commit()
            assert [event.type for event in await store.read_all()] == ["before", "older", "younger"]


async def test_settled_a_position_drawn_late_by_an_old_transaction_is_not_skipped(database: Database) -> None:
    """The order of transaction ids says nothing about the order of positions, nor does a savepoint undo too much."""
    async with await EventStore.connect(database.url) as store:
        await store.migrate(positions="settled")
        await store.provision_tenant(TENANT)
        async with await database.connect_async(autocommit=False) as connection:
            await connection.execute("SELECT pg_current_xact_id()")
            await store.append(TENANT, uuid.uuid4(), [NewEvent("1")], NO_STREAM)
            await connection.execute("SAVEPOINT ours")
            await store.append(TENANT, uuid.uuid4(), [NewEvent("undone")], NO_STREAM, connection=connection)
            await connection.execute("ROLLBACK TO SAVEPOINT ours")
            assert [event.type for event in await store.read_all()] == ["1"]
            await store.append(TENANT, uuid.uuid4(), [NewEvent("2")], NO_STREAM, connection=connection)
            await store.append(TENANT, uuid.uuid4(), [NewEvent("3")], NO_STREAM)
            assert [event.type for event in await store.read_all()] == ["1"]
            await connection.commit()
            assert [event.type for event in await store.read_all()] == ["1", "2", "3"]


async def test_settled_a_rolled_back_append_holds_no_reader_up(database: Database) -> None:
    async with await EventStore.connect(database.url) as store:
        await store.migrate(positions="settled")
        await store.provision_tenant(TENANT)
        async with await database.connect_async(autocommit=False) as connection:
            await store.append(TENANT, STREAM, [NewEvent("undone")], NO_STREAM, connection=connection)
            await store.append(TENANT, uuid.uuid4(), [NewEvent("kept")], NO_STREAM)
            assert await store.read_all() == []
            await connection.rollback()

        async def only_committed() -> bool:
            return [event.type for event in await store.read_all()] == ["kept"]

        assert await wait_until_async(only_committed)


async def test_a_writer_that_registers_between_the_two_looks_holds_nothing_back(database: Database) -> None:
    """Its registration is above the newest position that the reader has seen: the difference is negative."""
    async with await EventStore.connect(database.url) as store:
        await store.migrate(positions="settled")
        await store.provision_tenant(TENANT)
        await store.append(TENANT, uuid.uuid4(), [NewEvent("A"), NewEvent("B")], NO_STREAM)
        with psycopg.connect(database.url) as writer:
            writer.execute(registering(3).encode())
            assert database.run("SELECT * FROM event_horizon()") == [(2, 2)]
            assert len(await store.read_all()) == 2
            writer.execute(registering(1).encode())
            assert database.run("SELECT * FROM event_horizon()") == [(1, 2)]


async def test_a_late_registration_takes_back_nothing_that_was_read(database: Database) -> None:
    """A writer that looked at the sequence long ago registers below what readers have seen, and draws above it."""
    async with await EventStore.connect(database.url) as store:
        await store.migrate(positions="settled")
        await store.provision_tenant(TENANT)
        await store.append(TENANT, uuid.uuid4(), [NewEvent("A"), NewEvent("B")], NO_STREAM)
        assert len(await store.read_all()) == 2
        with psycopg.connect(database.url) as writer:
            writer.execute(registering(1).encode())
            assert len(await store.read_all()) == 2
            batches = store.subscribe("from the end", start="end")
            next_batch = asyncio.create_task(anext(batches))
            await wait_until_async(store.list_subscriptions)
            assert (await store.list_subscriptions())[0].position == 2
            await store.append(TENANT, uuid.uuid4(), [NewEvent("C")], NO_STREAM)
            assert await store.read_all(after=2) == []
            writer.rollback()
            assert [event.type for event in await next_batch] == ["C"]
            await batches.aclose()


async def test_an_open_append_holds_readers_up_and_is_named(
    database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("relay.eventstore.subscription._BLOCKED_LONG", 0.0)
    async with await EventStore.connect(database.url) as store:
        await store.migrate(positions="settled")
        await store.provision_tenant(TENANT)
        async with await database.connect_async(autocommit=False) as writer:
            await store.append(TENANT, STREAM, [NewEvent("A")], NO_STREAM, connection=writer)
            batches = store.subscribe("named", poll_interval=0.05)
            waiting = asyncio.create_task(anext(batches))
            await eventually(lambda: f"pid {writer.info.backend_pid} (user {writer.info.user}, " in caplog.text)
            await writer.commit()
            assert len(await waiting) == 1
            await batches.aclose()


async def test_an_append_by_a_function_of_the_owner_counts_for_a_caller_without_rights(
    database: Database, role: str
) -> None:
    async with await EventStore.connect(database.url) as store:
        await store.migrate(positions="settled")
        await store.provision_tenant(TENANT)
        database.run(
            "CREATE FUNCTION record() RETURNS VOID LANGUAGE sql SECURITY DEFINER AS $$ "
            "INSERT INTO public.Event (TenantId, StreamId, Version, Type, Meta) "
            f"VALUES ('{TENANT}', gen_random_uuid(), 1, 'A', '{{}}') $$"
        )
        database.run(f'GRANT USAGE ON SCHEMA public TO "{role}"')
        with psycopg.connect(as_role(database.url, role)) as caller:
            caller.execute("SELECT public.record()")
            await store.append(TENANT, STREAM, [NewEvent("B")], NO_STREAM)
            assert database.run("SELECT * FROM event_horizon()") == [(0, 2)]
            assert await store.read_all() == []
        assert [event.type for event in await store.read_all()] == ["A", "B"]


async def test_a_database_restored_to_an_earlier_time_has_its_own_horizon(database: Database) -> None:
    async with await EventStore.connect(database.url) as store:
        await store.migrate(positions="settled")
        await store.provision_tenant(TENANT)
        await store.append(TENANT, STREAM, [NewEvent("A"), NewEvent("B")], NO_STREAM)
        assert len(await store.read_all()) == 2
        database.run("SET eventstore.changes = 'allowed'; DELETE FROM event WHERE SequenceNum = 2")
        database.run("DELETE FROM event_feed WHERE SequenceNum = 2")
        database.run("SELECT setval('event_sequencenum_seq', 1)")
        assert len(await store.read_all()) == 1
        with psycopg.connect(database.url) as writer:
            writer.execute(registering(1).encode())
            await store.append(TENANT, STREAM, [NewEvent("C")], 1)
            assert len(await store.read_all()) == 1


async def test_the_horizon_stays_between_what_was_committed_and_the_newest(
    store: EventStore, database: Database
) -> None:
    done = asyncio.Event()

    async def write(number: int) -> None:
        stream = uuid.uuid4()
        for version in range(40):
            await store.append(TENANT, stream, [NewEvent("A", number)], version)

    async def look() -> list[tuple[int, int]]:
        horizons = []
        while not done.is_set():
            [row] = await asyncio.to_thread(database.run, "SELECT * FROM event_horizon()")
            horizons.append(row)
        return horizons

    reader = asyncio.create_task(look())
    await asyncio.gather(*(write(number) for number in range(8)))
    done.set()
    horizons = await reader
    assert all(0 <= horizon <= newest for horizon, newest in horizons)
    assert database.run("SELECT * FROM event_horizon()") == [(320, 320)]


async def test_gapless_writers_queue_for_positions(gapless_store: EventStore, database: Database) -> None:
    async with await database.connect_async(autocommit=False) as connection:
        await gapless_store.append(TENANT, STREAM, [NewEvent("first")], NO_STREAM, connection=connection)
        second = asyncio.create_task(gapless_store.append(TENANT, uuid.uuid4(), [NewEvent("second")], NO_STREAM))

        async def queued() -> bool:
            return bool(database.waiting_for_locks())

        await wait_until_async(queued)
        assert await gapless_store.read_all() == []
        await connection.commit()
        assert (await second).first_sequence_num == 2
    assert [event.type for event in await gapless_store.read_all()] == ["first", "second"]


async def test_read_all_filters_by_tenant_and_type_and_pages(store: EventStore) -> None:
    for number in range(12):
        tenant = (TENANT, OTHER_TENANT)[number % 2]
        await store.append(tenant, uuid.uuid4(), [NewEvent(f"T{number % 3}", number)], NO_STREAM)

    async def numbers(**arguments: object) -> list[object]:
        return [event.data for event in await store.read_all(**arguments)]  # type: ignore[arg-type]

    assert await numbers(tenants=[TENANT]) == [0, 2, 4, 6, 8, 10]
    assert await numbers(types=["T0", "T2"]) == [0, 2, 3, 5, 6, 8, 9, 11]
    assert await numbers(tenants=[TENANT], types=["T0"]) == [0, 6]
    assert await numbers(tenants=[TENANT, OTHER_TENANT], limit=5) == [0, 1, 2, 3, 4]
    many = [TENANT, *(uuid.uuid4() for _ in range(30))]
    assert await numbers(tenants=many, after=5) == [6, 8, 10]
    assert await numbers(tenants=[]) == []


@pytest.mark.parametrize(
    "gone",
    [f"DROP TABLE event_{OTHER_TENANT.hex}", "SET eventstore.changes = 'allowed'; DELETE FROM Event WHERE Version > 0"],
)
async def test_pages_of_events_that_are_gone_are_passed_over(
    gapless_store: EventStore, database: Database, gone: str
) -> None:
    await gapless_store.append(OTHER_TENANT, STREAM, [NewEvent("gone") for _ in range(9)], NO_STREAM)
    database.run(gone)
    batches = gapless_store.subscribe("not held up", batch_size=2, poll_interval=3600.0)
    waiting = asyncio.create_task(anext(batches))
    await gapless_store.append(TENANT, STREAM, [NewEvent("there"), NewEvent("too")], NO_STREAM)
    assert [event.type for event in await gapless_store.read_all(limit=2)] == ["there"]
    assert [event.type for event in await gapless_store.read_all(limit=3)] == ["there", "too"]
    assert await gapless_store.read_all(after=11) == []
    assert (await waiting).events[0].type == "there"
    await batches.aclose()
