"""Subscriptions consumed in parts: every event once and each stream in order, whichever instances hold which parts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import psycopg
import pytest

from relay.app.subscriptions import readings
from relay.core.checkpoint import START
from relay.core.errors import ConfigError
from relay.eventstore import (
    ANY,
    EventStore,
    NewEvent,
    StoredEvent,
    SubscriptionDeleted,
    SubscriptionLost,
    SubscriptionState,
)
from relay.eventstore.groups import SLOTS, Part, slot_positions
from relay.eventstore.lease import LeaseWatch, StoredLease
from relay.eventstore.read import EventFilter, Reader
from relay.postgres.sql import load_sql
from relay.telemetry.prometheus import exposition_of
from relay_cli.store_options import print_subscription
from tests.eventstore.conftest import OTHER_TENANT, STREAM, TENANT
from tests.support.fixtures.postgres import Database
from tests.support.waiting import wait_until_async

LEASE = 0.6  # seconds
STREAMS = [UUID(int=number) for number in range(40)]


@contextlib.asynccontextmanager
async def projecting(database: Database, part: tuple[int, int] | None, name: str = "group") -> AsyncIterator[None]:
    """A consumer of its own connections, which stores what it gets in one transaction with its checkpoint."""

    async def project() -> None:
        async with (
            await EventStore.connect(database.url) as store,
            await database.connect_async() as connection,
            contextlib.aclosing(
                store.subscribe(name, part=part, lease=LEASE, poll_interval=0.2, batch_size=7)
            ) as batches,
        ):
            async for batch in batches:
                async with connection.transaction():
                    for event in batch:
                        values = (event.tenant_id, event.stream_id, event.version, str(part))
                        await connection.execute("INSERT INTO projection VALUES (%s, %s, %s, %s)", values)
                    await batch.acknowledge(connection)

    task = asyncio.create_task(project())
    try:
        yield
    finally:
        assert not task.done() or task.result() is None
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.fixture
def projection(database: Database) -> Database:
    """The table of what the consumers got: an event that comes twice is refused."""
    columns = "tenant uuid, stream uuid, version int, part text, number int GENERATED ALWAYS AS IDENTITY"
    database.run(f"CREATE TABLE projection ({columns}, PRIMARY KEY (tenant, stream, version))")
    return database


async def grow(store: EventStore, count: int) -> None:
    """Append to the same streams again and again."""
    for number in range(count):
        await store.append(
            (TENANT, OTHER_TENANT)[number % 2], STREAMS[number % 37], [NewEvent("E"), NewEvent("E")], ANY
        )


async def all_projected(store: EventStore, database: Database) -> bool:
    return database.run("SELECT count(*) FROM projection") == database.run("SELECT count(*) FROM event_feed")


def parts_since(database: Database, number: int) -> set[str]:
    return {part for (part,) in database.run(f"SELECT part FROM projection WHERE number > {number}")}


@pytest.mark.parametrize("positions", ["settled"])
async def test_each_event_comes_once_and_in_order_while_the_number_of_parts_changes(
    store: EventStore, projection: Database
) -> None:
    """From the whole to 2 parts, to 3, to the whole, each deployment overlapping the one before; writers go on."""
    deployments: list[list[tuple[int, int] | None]] = [[None], [(0, 2), (1, 2)], [(0, 3), (1, 3), (2, 3)], [None]]
    before = contextlib.AsyncExitStack()
    try:
        for parts in deployments:
            async with contextlib.AsyncExitStack() as consumers:
                for part in parts:
                    await consumers.enter_async_context(projecting(projection, part))
                await grow(store, 12)
                await before.aclose()  # the last deployment ends while this one waits for its slots
                reached = projection.run("SELECT coalesce(max(number), 0) FROM projection")[0][0]
                await grow(store, 24)
                await wait_until_async(lambda: all_projected(store, projection))

                async def shared(parts: list[tuple[int, int] | None] = parts, reached: int = reached) -> bool:
                    await grow(store, 12)
                    return parts_since(projection, reached) >= {str(part) for part in parts}

                await wait_until_async(shared)
                before = consumers.pop_all()
        await wait_until_async(lambda: all_projected(store, projection))
    finally:
        await before.aclose()
    disordered = (
        "SELECT 1 FROM (SELECT version, row_number() OVER (PARTITION BY tenant, stream ORDER BY number) AS nth "
        "FROM projection) AS numbered WHERE version <> nth"
    )
    assert projection.run(disordered) == []


async def frozen(store: EventStore) -> None:
    """End the renewal of a store's leases, as where its process is stopped."""
    renewals = store._renewals
    assert renewals._thread is not None
    await renewals.close()


async def test_a_part_whose_instance_is_stopped_is_taken_over_and_the_old_one_is_fenced(
    gapless_store: EventStore, database: Database
) -> None:
    await grow(gapless_store, 20)
    process = await EventStore.connect(database.url)  # of its own: the other instance's lease is renewed
    stopped = process.subscribe("stopped", part=(1, 2), lease=LEASE, batch_size=5)
    first = await anext(stopped)
    second = await anext(stopped)
    await frozen(process)
    async with contextlib.aclosing(gapless_store.subscribe("stopped", part=(1, 2), lease=LEASE)) as other:
        taken = await anext(other)
        assert [event.sequence_num for event in taken][:5] == [event.sequence_num for event in second]
        assert not {event.sequence_num for event in first} & {event.sequence_num for event in taken}
        async with await database.connect_async() as connection:
            with pytest.raises(SubscriptionLost):
                await second.acknowledge(connection)
        waiting = asyncio.create_task(anext(stopped))  # it waits for its part again
        await grow(gapless_store, 37)
        next_batch = await anext(other)  # acknowledges
        assert not waiting.done()
    later = await asyncio.wait_for(waiting, 30)
    assert later.events[0].sequence_num == next_batch.events[0].sequence_num > taken.events[-1].sequence_num
    await stopped.aclose()
    await process.close()


async def test_a_group_is_listed_moved_and_deleted_with_all_its_parts(gapless_store: EventStore) -> None:
    store = gapless_store
    await grow(store, 74)
    newest = (await store.read_all(limit=10_000))[-1].sequence_num
    first = store.subscribe("operated", part=(0, 2), lease=LEASE)
    second = store.subscribe("operated", part=(1, 2), lease=LEASE)
    events = len(await anext(first)), len(await anext(second))
    assert sum(events) == newest
    states = await store.list_subscriptions()
    assert [(one.name, one.part, one.slots, one.position, one.active) for one in states] == [
        ("operated", (0, 2), 128, 0, True),
        ("operated", (1, 2), 128, 0, True),
    ]
    assert tuple(one.lag_events for one in states) == events
    assert all(one.lag_seconds > 0 for one in states)
    await second.aclose()
    assert [(one.part, one.slots, one.active) for one in await store.list_subscriptions()] == [
        ((0, 2), 128, True),
        (None, 128, False),
    ]
    await store.reset_subscription("operated", 10)
    [state] = await store.list_subscriptions()
    assert (state.part, state.position, state.lag_events) == (None, 10, newest - 10)
    second = store.subscribe("operated", part=(1, 2), lease=LEASE)
    again = [*await asyncio.wait_for(anext(first), 30), *await asyncio.wait_for(anext(second), 30)]
    assert sorted(event.sequence_num for event in again) == list(range(11, newest + 1))
    assert await store.delete_subscription("operated")
    for instance in (first, second):
        with pytest.raises(SubscriptionDeleted):
            await asyncio.wait_for(anext(instance), 30)
    assert await store.list_subscriptions() == []


async def test_slots_that_become_free_are_taken_by_a_part_that_runs(gapless_store: EventStore) -> None:
    """Members with another number of parts hold some of its slots; the events of those come from their positions."""
    store = gapless_store
    await grow(store, 74)
    old = store.subscribe("overlap", part=(0, 2), lease=LEASE)
    taken = [event.sequence_num for event in await anext(old)]
    new = store.subscribe("overlap", part=(0, 3), lease=LEASE, poll_interval=600.0)
    own = [event.sequence_num for event in await anext(new)]
    assert not set(own) & set(taken)
    states = await store.list_subscriptions()
    assert [(one.part, one.slots) for one in states] == [((0, 2), 128), ((0, 3), 43), (None, 85)]
    waiting = asyncio.create_task(anext(new))  # acknowledges; then it is idle
    await old.aclose()  # without an acknowledgement
    more = [event.sequence_num for event in await asyncio.wait_for(waiting, 30)]
    assert more
    assert set(more) <= set(taken)
    states = await store.list_subscriptions()
    assert [(one.part, one.slots) for one in states] == [((0, 3), 86), (None, 170)]
    await new.aclose()


async def test_parts_of_some_tenants_and_types_are_all_of_their_events(gapless_store: EventStore) -> None:
    """A few tenants are read from their partitions, not through the feed."""
    await grow(gapless_store, 74)
    await gapless_store.append(TENANT, STREAM, [NewEvent("Rare")], ANY)
    reader = Reader(gapless_store._database, gapless_store._statements)
    for tenants, types in ((None, None), ([TENANT], None), (None, ["Rare"]), ([TENANT], ["E"])):
        expected = await gapless_store.read_all(tenants=tenants, types=types)
        events: list[StoredEvent] = []
        for part in range(3):
            slots = slot_positions(dict.fromkeys(range(part, SLOTS, 3), 0))
            page = await reader.page(START, 1000, replace(EventFilter.of(tenants, types), slots=slots))
            assert len(page.events) < len(expected) or len(expected) == 1
            events += page.events
        assert sorted(event.sequence_num for event in events) == [event.sequence_num for event in expected]


def test_the_lag_of_each_part_is_printed_and_exported(capsys: pytest.CaptureFixture[str]) -> None:
    held = SubscriptionState("sums", 7, True, datetime.now(UTC), STREAM, 3, 1.5, (0, 2), 100)
    rest = held._replace(active=False, position=5, holder=None, part=None, slots=156, lag_seconds=9.0)
    mails = held._replace(name="mails", part=None, slots=None, parked=2)
    for state in (held, rest, mails):
        print_subscription(state, as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        f"sums  part 0/2 (100 of 256 slots)  position 7  lag 3 events, 1.5 s  held by {STREAM}",
        "sums  no part (156 of 256 slots)  position 5  lag 3 events, 9.0 s  not active",
        f"mails  position 7  lag 3 events, 1.5 s  2 streams parked  held by {STREAM}",
    ]
    second = held._replace(position=6, lag_seconds=2.5)  # a second instance that holds slots of the same part
    text = exposition_of(lambda: readings([held, rest, second, mails], 8.0, "app", "bank"))
    lines = [line.removeprefix("openoutbox_eventstore_") for line in text.splitlines() if line[0] != "#"]
    sums = 'schema="bank",subscription="sums"'
    assert {
        f'checkpoint_active{{database="app",part="0/2",{sums}}} 1.0',
        f'checkpoint_active{{database="app",part="none",{sums}}} 0.0',
        f'checkpoint_position{{database="app",part="0/2",{sums}}} 6.0',
        f'checkpoint_lag_events{{database="app",part="0/2",{sums}}} 6.0',
        f'checkpoint_lag_seconds{{database="app",part="0/2",{sums}}} 2.5',
        f'checkpoint_lag_seconds{{database="app",part="none",{sums}}} 9.0',
        'checkpoint_lag_seconds{database="app",part="",schema="bank",subscription="mails"} 1.5',
        f'parked_streams{{database="app",{sums}}} 0.0',
        'parked_streams{database="app",schema="bank",subscription="mails"} 2.0',
        'listed_timestamp_seconds{database="app",schema="bank"} 8.0',
    } <= set(lines)
    assert len(lines) == 4 * 3 + 2 + 1


def lease_row(held_until: int, length: float | None = 3.0, number: int = 1) -> StoredLease:
    return StoredLease(UUID(int=number), datetime.fromtimestamp(held_until, UTC), length, ended=False)


def test_a_lease_that_is_not_renewed_ends_by_the_clock_of_who_waits() -> None:
    clock = [100.0]
    watch = LeaseWatch(lambda: clock[0])
    dead, renewed, earlier = lease_row(9_000), lease_row(1, number=2), lease_row(1, None, number=3)
    assert watch.unrenewed([dead, renewed, earlier]) == []
    clock[0] += 2
    assert watch.unrenewed([dead, lease_row(2, number=2), earlier]) == []
    clock[0] += 2
    assert watch.unrenewed([dead, lease_row(2, number=2), earlier]) == [dead]
    assert watch.unrenewed([]) == []
    assert watch.unrenewed([dead]) == []  # held again


@pytest.mark.parametrize("part", [None, (0, 2)])
async def test_a_step_back_of_the_servers_clock_does_not_stretch_a_lease(
    gapless_store: EventStore, database: Database, part: tuple[int, int] | None
) -> None:
    """A step by an hour leaves a lease that ends in an hour."""
    await grow(gapless_store, 74)
    stopped = gapless_store.subscribe("stepped", part=part, lease=LEASE)
    await anext(stopped)
    await frozen(gapless_store)
    table = "event_subscription" if part is None else "event_subscription_member"
    database.run(f"UPDATE {table} SET HeldUntil = now() + interval '1 hour'")
    async with contextlib.aclosing(gapless_store.subscribe("stepped", part=part, lease=LEASE)) as other:
        assert len(await asyncio.wait_for(anext(other), 20)) > 0
    await stopped.aclose()


@pytest.mark.parametrize("part", [(2, 2), (-1, 2), (0, 0), (0, 257), (0,), "01", 1, (0.0, 2)])
def test_parts_that_cannot_be_are_refused(part: object) -> None:
    with pytest.raises(ConfigError, match="part"):
        Part.of(part)


def test_the_slots_of_all_parts_are_all_slots() -> None:
    for parts in range(1, SLOTS + 1):
        assert sum(Part(number, parts).wanted_slots for number in range(parts)) == SLOTS


def test_every_statement_computes_the_same_slot() -> None:
    """Stored positions depend on it, so it must stay as it is."""
    lines = [
        line.strip()
        for file in ("read", "subscriptions")
        for line in load_sql(f"eventstore/{file}.sql").splitlines()
        if line.endswith("--? part") and "slots" in line
    ]
    assert len(lines) == 5
    hashed = "uuid_hash_extended(StreamId, uuid_hash_extended(TenantId, 0)) & 255"
    assert set(lines) == {f"-- AND SequenceNum > (%(slots)s::BIGINT[])[({hashed})::INT + 1] --? part"}


async def test_the_slot_of_a_stream_never_changes(database: Database) -> None:
    hashed = f"uuid_hash_extended('{STREAM}', uuid_hash_extended('{TENANT}', 0)) & 255"
    assert database.run(f"SELECT {hashed}") == [(249,)]


async def test_an_earlier_release_waits_for_a_group_and_cannot_reset_it(
    gapless_store: EventStore, database: Database
) -> None:
    """What an application of the release before sends."""
    await grow(gapless_store, 74)
    member = gapless_store.subscribe("newer", part=(0, 2), lease=LEASE)
    await anext(member)
    claim = (
        "UPDATE event_subscription SET Holder = gen_random_uuid(), HeldUntil = clock_timestamp() WHERE Name = 'newer' "
        "AND (Holder IS NULL OR HeldUntil < clock_timestamp()) RETURNING Position"
    )
    assert database.run(claim) == []
    with pytest.raises(psycopg.errors.CheckViolation):
        database.run("UPDATE event_subscription SET Position = 0, Holder = NULL, HeldUntil = NULL")
    await member.aclose()
