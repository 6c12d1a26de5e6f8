"""Tenants come and go while others work."""

from __future__ import annotations

import asyncio
import uuid

import psycopg
import pytest

from relay.core.errors import ConfigError
from relay.eventstore import ANY, NO_STREAM, EventStore, NewEvent, TenantBusy, UnknownTenant
from tests.eventstore.conftest import OTHER_TENANT, STREAM, TENANT
from tests.support.fixtures.postgres import Database
from tests.support.waiting import eventually, patience


async def test_provisioning_is_idempotent_also_when_it_races(gapless_store: EventStore) -> None:
    newcomers = [uuid.uuid4() for _ in range(3)]
    await asyncio.gather(*(gapless_store.provision_tenant(tenant) for tenant in newcomers * 3))
    assert await gapless_store.list_tenants() == sorted([TENANT, OTHER_TENANT, *newcomers])
    for tenant in newcomers:
        await gapless_store.append(tenant, STREAM, [NewEvent("A")], NO_STREAM)


async def test_dropping_wants_the_id_again(gapless_store: EventStore) -> None:
    await gapless_store.append(TENANT, STREAM, [NewEvent("A")], NO_STREAM)
    for confirm in ("yes", OTHER_TENANT, ""):
        with pytest.raises(ConfigError, match="irreversible"):
            await gapless_store.drop_tenant(TENANT, confirm=confirm)
    assert len(await gapless_store.read_all()) == 1
    stranger = uuid.uuid4()
    with pytest.raises(UnknownTenant):
        await gapless_store.drop_tenant(stranger, confirm=stranger)
    await gapless_store.drop_tenant(str(TENANT).upper(), confirm=TENANT.hex)
    assert await gapless_store.list_tenants() == [OTHER_TENANT]


async def test_a_dropped_tenant_is_gone_and_can_be_provisioned_again(store: EventStore, database: Database) -> None:
    await store.append(TENANT, STREAM, [NewEvent("A"), NewEvent("B")], NO_STREAM)
    await store.append(OTHER_TENANT, STREAM, [NewEvent("C")], NO_STREAM)
    await store.drop_tenant(TENANT, confirm=str(TENANT))
    assert await store.list_tenants() == [OTHER_TENANT]
    assert [event.type for event in await store.read_all()] == ["C"]
    assert database.run("SELECT TenantId FROM event_feed") == [(OTHER_TENANT,)]
    assert database.run("SELECT to_regclass(%s)", (f"event_{TENANT.hex}",)) == [(None,)]
    with pytest.raises(UnknownTenant):
        await store.append(TENANT, STREAM, [NewEvent("A")], ANY)
    await store.provision_tenant(TENANT)
    assert (await store.append(TENANT, STREAM, [NewEvent("A")], NO_STREAM)).version == 1


@pytest.mark.parametrize("interrupted", ["detaching", "detached"])
async def test_an_interrupted_drop_is_completed_by_the_next(
    gapless_store: EventStore, database: Database, interrupted: str
) -> None:
    await gapless_store.append(TENANT, STREAM, [NewEvent("A")], NO_STREAM)
    interrupt_detach(database, TENANT)
    if interrupted == "detached":
        parent = "SELECT inhparent::regclass::text FROM pg_inherits WHERE inhrelid = %s::regclass"
        ((bucket,),) = database.run(parent, (f"event_{TENANT.hex}",))
        database.run(f"ALTER TABLE {bucket} DETACH PARTITION event_{TENANT.hex} FINALIZE")
    assert await gapless_store.list_tenants() == [OTHER_TENANT]
    with pytest.raises(TenantBusy, match="drop_tenant again"):
        await gapless_store.provision_tenant(TENANT)
    await gapless_store.drop_tenant(TENANT, confirm=TENANT)
    assert await gapless_store.read_all() == []
    await gapless_store.provision_tenant(TENANT)


async def test_an_interrupted_drop_holds_up_no_other_of_its_bucket(
    gapless_store: EventStore, database: Database
) -> None:
    same_bucket = """
        SELECT tenant FROM (SELECT gen_random_uuid() AS tenant FROM generate_series(1, 5000)) AS tenants,
        (SELECT bucket FROM generate_series(0, 63) AS bucket
         WHERE satisfies_hash_partition('event_tenants'::regclass, 64, bucket, %s::uuid)) AS wanted
        WHERE satisfies_hash_partition('event_tenants'::regclass, 64, bucket, tenant) LIMIT 2
    """
    ((neighbour,), (newcomer,)) = database.run(same_bucket, (TENANT,))
    for tenant in (TENANT, neighbour):
        await gapless_store.provision_tenant(tenant)
        await gapless_store.append(tenant, STREAM, [NewEvent("A")], NO_STREAM)
    interrupt_detach(database, TENANT)
    await gapless_store.drop_tenant(neighbour, confirm=neighbour)
    await gapless_store.provision_tenant(newcomer)
    assert await gapless_store.list_tenants() == sorted([OTHER_TENANT, newcomer])
    with pytest.raises(TenantBusy, match=f"{TENANT} is only partly dropped"):
        await gapless_store.provision_tenant(TENANT)
    assert len(database.run("SELECT 1 FROM event_feed")) == 1
    await gapless_store.drop_tenant(TENANT, confirm=TENANT)
    assert database.run("SELECT 1 FROM event_feed") == []


def interrupt_detach(database: Database, tenant: uuid.UUID) -> None:
    """Leave a detach pending, as a drop does whose process ends while it waits for a transaction."""
    parent = "SELECT inhparent::regclass::text FROM pg_inherits WHERE inhrelid = %s::regclass"
    ((bucket,),) = database.run(parent, (f"event_{tenant.hex}",))
    with database.connect(autocommit=False) as reader:
        reader.execute("SELECT count(*) FROM event")
        with database.connect() as impatient:
            impatient.execute("SET statement_timeout = '300ms'")
            with pytest.raises(psycopg.errors.QueryCanceled):
                impatient.execute(f"ALTER TABLE {bucket} DETACH PARTITION event_{tenant.hex} CONCURRENTLY".encode())


@pytest.mark.parametrize("schema", ["event_tenants_00", f"event_{uuid.UUID(int=0).hex}"])
async def test_a_schema_may_have_the_name_of_a_table_of_the_store(database: Database, schema: str) -> None:
    async with await EventStore.connect(database.url, schema=schema) as store:
        await store.migrate()
        await store.provision_tenant(TENANT)
        await store.append(TENANT, STREAM, [NewEvent("A")], NO_STREAM)
        assert len(await store.read_all()) == 1
        await store.drop_tenant(TENANT, confirm=TENANT)
        assert await store.list_tenants() == []


async def test_tenants_come_and_go_while_others_write(store: EventStore) -> None:
    """Writers of one tenant go on; the longest pause between two of their appends stays below the deadline."""
    stop = asyncio.Event()
    pauses: list[float] = []

    async def write() -> int:
        loop, written, stream = asyncio.get_running_loop(), 0, uuid.uuid4()
        while not stop.is_set():
            began = loop.time()
            await store.append(OTHER_TENANT, stream, [NewEvent("E", written)], written)
            pauses.append(loop.time() - began)
            written += 1
        return written

    writers = [asyncio.create_task(write()) for _ in range(4)]
    for _ in range(8):
        tenant = uuid.uuid4()
        await store.provision_tenant(tenant)
        await asyncio.gather(*(store.append(tenant, uuid.uuid4(), [NewEvent("X")], NO_STREAM) for _ in range(5)))
        await store.drop_tenant(tenant, confirm=tenant)
    stop.set()
    written = sum(await asyncio.gather(*writers))
    assert written > 8
    assert len(await store.read_all(limit=100_000)) == written
    assert max(pauses) < 10
    assert await store.list_tenants() == sorted([TENANT, OTHER_TENANT])


async def test_dropping_waits_for_a_transaction_in_flight_and_blocks_no_other(
    store: EventStore, database: Database
) -> None:
    async with await database.connect_async(autocommit=False) as reader:
        await reader.execute("SELECT count(*) FROM Event")
        drop = asyncio.create_task(store.drop_tenant(TENANT, confirm=TENANT))
        await eventually(lambda: database.run("SELECT 1 FROM pg_inherits WHERE inhdetachpending"))
        appended = await asyncio.wait_for(store.append(OTHER_TENANT, STREAM, [NewEvent("A")], NO_STREAM), patience())
        assert appended.version == 1
        assert len(await asyncio.wait_for(store.read_all(), patience())) == 1
        await (await reader.execute("SELECT count(*) FROM Event")).fetchall()
        assert not drop.done()
        await reader.rollback()
        await asyncio.wait_for(drop, patience())


async def test_dropping_says_which_transaction_it_waits_for(
    gapless_store: EventStore, database: Database, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay.eventstore.sessions._WAITED_LONG", 0.05)
    async with await database.connect_async(autocommit=False) as idle:
        await idle.execute("SELECT set_config('application_name', 'reports', false), count(*) FROM Event")
        drop = asyncio.create_task(gapless_store.drop_tenant(TENANT, confirm=TENANT))
        await eventually(lambda: f"waits for pid {idle.info.backend_pid} (user " in caplog.text)
        assert f"drop tenant {TENANT}: waits for pid" in caplog.text
        assert "application reports, its transaction is " in caplog.text
        await idle.rollback()
        await asyncio.wait_for(drop, patience())
    assert caplog.text.count("waits for pid") == 1


async def test_a_partition_that_was_created_by_hand_is_dropped(store: EventStore, database: Database) -> None:
    """Below the table itself, while another transaction reads it."""
    tenant = uuid.uuid4()
    database.run(f"CREATE TABLE Event_{tenant.hex} PARTITION OF Event FOR VALUES IN ('{tenant}')")
    await store.provision_tenant(tenant)
    await store.append(tenant, STREAM, [NewEvent("E")], NO_STREAM)
    assert tenant in await store.list_tenants()
    async with await database.connect_async(autocommit=False) as reader:
        await reader.execute("SELECT 1 FROM event")
        dropping = asyncio.create_task(store.drop_tenant(tenant, confirm=tenant))
        await eventually(database.waiting_for_locks)
        await store.append(TENANT, STREAM, [NewEvent("E")], NO_STREAM)  # goes on between two turns
        await reader.rollback()
        await dropping
    assert tenant not in await store.list_tenants()
    assert [event.tenant_id for event in await store.read_all()] == [TENANT]
    assert database.run("SELECT count(*) FROM event_feed") == [(1,)]


@pytest.mark.parametrize("dropped", [False, True])
async def test_what_a_partition_that_was_dropped_by_hand_leaves_is_removed(
    store: EventStore, database: Database, dropped: bool
) -> None:
    """A tenant of the same id begins anew: no command of its second life is taken for one of the first."""
    await store.append(TENANT, STREAM, [NewEvent("E", event_id=STREAM)], NO_STREAM)
    deleted = uuid.uuid4()
    await store.append(TENANT, deleted, [NewEvent("E")], NO_STREAM)
    await store.delete_stream(TENANT, deleted, confirm=deleted)
    database.run(f"DROP TABLE event_{TENANT.hex} CASCADE")
    if dropped:
        await store.drop_tenant(TENANT, confirm=TENANT)
        tables = ("event_feed", "event_id", "event_tombstone")
        assert [database.run(f"SELECT count(*) FROM {table}") for table in tables] == [[(0,)]] * 3
        with pytest.raises(UnknownTenant):
            await store.drop_tenant(TENANT, confirm=TENANT)
    await store.provision_tenant(TENANT)
    assert (await store.append(TENANT, STREAM, [NewEvent("F", event_id=STREAM)], NO_STREAM)).version == 1
    assert (await store.append(TENANT, deleted, [NewEvent("F")], NO_STREAM)).version == 1
    assert [event.type for event in await store.read_all()] == ["F", "F"]
