"""A settled store beside sessions that mean it ill: one that may only connect, and one that may append."""

from __future__ import annotations

import asyncio
import uuid

import psycopg
import pytest

from relay.core.errors import StorageBusy
from relay.eventstore import ANY, NO_STREAM, EventStore, NewEvent, append_sync
from tests.eventstore.conftest import STREAM, TENANT, as_role
from tests.support.fixtures.postgres import Database
from tests.support.waiting import eventually, patience

COPIED = """
    SELECT count(pg_advisory_lock_shared(classid::bigint::bit(32)::int, objid::bigint::bit(32)::int)) FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 2 AND pid <> pg_backend_pid()
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


async def test_a_strangers_locks_hold_up_neither_readers_nor_appends(database: Database, role: str) -> None:
    """Of a role that may only connect: the locks of an earlier release, exclusive ones, and copies of a writer's."""
    async with await EventStore.connect(database.url) as store:
        await store.migrate(positions="settled")
        await store.provision_tenant(TENANT)
        database.run(f'GRANT CREATE, USAGE ON SCHEMA public TO "{role}"')
        with psycopg.connect(as_role(database.url, role)) as stranger:
            every = "SELECT pg_advisory_lock(hashoid('public.event'::regclass::oid), n) FROM generate_series(0, 40) n"
            stranger.execute(every.encode())
            stranger.execute("SELECT pg_current_xact_id()")
            await asyncio.wait_for(store.append(TENANT, STREAM, [NewEvent("A")], NO_STREAM), patience(10))
            assert database.run("SELECT * FROM event_horizon()") == [(1, 1)]
            async with await database.connect_async(autocommit=False) as writer:
                await store.append(TENANT, STREAM, [NewEvent("B")], 1, connection=writer)
                assert stranger.execute(COPIED.encode()).fetchone() == (1,)
                assert database.run("SELECT * FROM event_horizon()") == [(1, 2)]
                await writer.commit()
            assert database.run("SELECT * FROM event_horizon()") == [(2, 2)]
            assert len(await store.read_all()) == 2


async def test_a_lock_that_is_taken_makes_no_append_wait(database: Database) -> None:
    """Who saw the lock of a transaction may wait for it, and gets it where a savepoint of that transaction ends."""
    async with await EventStore.connect(database.url) as store:
        await store.migrate(positions="settled")
        await store.provision_tenant(TENANT)
        async with await database.connect_async(autocommit=False) as writer:
            await writer.execute("SELECT pg_current_xact_id()")
            await writer.execute("SAVEPOINT undone")
            await writer.execute("SELECT event_register()")
            with psycopg.connect(database.url, autocommit=True) as stranger:
                exclusive = COPIED.replace("pg_advisory_lock_shared", "pg_advisory_lock")
                waiting = asyncio.create_task(asyncio.to_thread(stranger.execute, exclusive.encode()))
                await eventually(database.waiting_for_locks)
                await writer.execute("ROLLBACK TO SAVEPOINT undone")
                await waiting
                append = store.append(TENANT, STREAM, [NewEvent("A")], NO_STREAM, connection=writer)
                assert (await asyncio.wait_for(append, patience(10))).first_sequence_num == 2
                await writer.commit()
            assert [event.type for event in await store.read_all()] == ["A"]


REPLAY = "SELECT set_config('eventstore.registered', %s, TRUE)"
FORGED_CURSOR = """
    DO $$ DECLARE c REFCURSOR := concat(
        'registered ', 'event'::regclass::oid, ' ', pg_current_xact_id()::xid, ' 0'
    ); BEGIN OPEN c FOR SELECT 1; END $$
"""


@pytest.mark.parametrize("setting", ["-5", "{store}", "{store} -5", "{store} 0"])
async def test_no_setting_of_a_session_lets_it_write_below_the_readers(
    database: Database, role: str, setting: str
) -> None:
    """A writer that fills a gap behind the readers, with a cursor of its own too."""
    async with await EventStore.connect(database.url) as store:
        await store.migrate(positions="settled")
        await store.provision_tenant(TENANT)
        await store.grant(role, "writer")
        database.run(f'GRANT CONNECT ON DATABASE "{database.name}" TO "{role}"')
        with psycopg.connect(as_role(database.url, role)) as writer:
            writer.execute("SELECT event_next_position()")
            [store_id] = writer.execute("SELECT 'event'::regclass::oid::text").fetchone() or [""]
            writer.rollback()
            await store.append(TENANT, STREAM, [NewEvent("A")], NO_STREAM)
            assert [event.sequence_num for event in await store.read_all()] == [2]
            for name in ("eventstore.registered", "eventstore.drawn"):
                writer.execute("SELECT set_config(%s, %s, TRUE)", (name, setting.format(store=store_id)))
            writer.execute(FORGED_CURSOR.encode())
            with pytest.raises(psycopg.Error, match="was not assigned by the event store"):
                writer.execute(INSERT_FIRST.encode(), (TENANT, STREAM))


INSERT_FIRST = """
    INSERT INTO Event (SequenceNum, TenantId, StreamId, Version, Type, Meta) VALUES (1, %s, %s, 2, 'B', '{}')
"""


async def test_a_registration_ends_with_its_savepoint(database: Database, role: str) -> None:
    """A writer that rolled its registration back, and so its lock, and then repeats the setting that it made."""
    async with await EventStore.connect(database.url) as store:
        await store.migrate(positions="settled")
        await store.provision_tenant(TENANT)
        await store.grant(role, "writer")
        database.run(f'GRANT CONNECT ON DATABASE "{database.name}" TO "{role}"')
        with psycopg.connect(as_role(database.url, role)) as writer:
            writer.execute("SELECT pg_current_xact_id()")
            writer.execute("SAVEPOINT undone")
            assert writer.execute("SELECT event_next_position()").fetchone() == (1,)
            registered = writer.execute("SELECT current_setting('eventstore.registered')").fetchone()
            writer.execute("ROLLBACK TO SAVEPOINT undone")
            await store.append(TENANT, STREAM, [NewEvent("A")], NO_STREAM)
            assert [event.sequence_num for event in await store.read_all()] == [2]
            writer.execute(REPLAY.encode(), registered)
            with pytest.raises(psycopg.Error, match="was not assigned by the event store"):
                writer.execute(INSERT_FIRST.encode(), (TENANT, STREAM))


STREAM_LOCK = "SELECT pg_advisory_lock(uuid_hash_extended(%s, uuid_hash_extended(%s, 0)))"


@pytest.mark.parametrize("identified", [False, True])
async def test_a_stranger_with_the_lock_of_a_stream_does_not_stop_its_appends(
    database: Database, role: str, identified: bool
) -> None:
    """It waits for the lock behind an append, gets it, and keeps it; another append that was waiting goes on."""
    event = NewEvent("B", event_id=uuid.uuid4() if identified else None)
    async with await EventStore.connect(database.url) as store:
        await store.migrate(positions="settled")
        await store.provision_tenant(TENANT)
        database.run(f'GRANT CONNECT ON DATABASE "{database.name}" TO "{role}"')
        with psycopg.connect(as_role(database.url, role), autocommit=True) as stranger:
            async with await database.connect_async(autocommit=False) as writer:
                await store.append(TENANT, STREAM, [NewEvent("A")], NO_STREAM, connection=writer)
                taking = asyncio.create_task(
                    asyncio.to_thread(stranger.execute, STREAM_LOCK.encode(), (TENANT, STREAM))
                )
                await eventually(lambda: len(database.waiting_for_locks()) == 1)
                appending = asyncio.create_task(store.append(TENANT, STREAM, [event], ANY))
                await eventually(lambda: len(database.waiting_for_locks()) == 2)
                await writer.commit()
            await taking
            assert (await asyncio.wait_for(appending, patience(20))).version == 2
            await asyncio.wait_for(store.append(TENANT, STREAM, [NewEvent("C")], 2), patience(20))
            with database.connect() as connection:
                connection.execute("SET lock_timeout = 300")
                with pytest.raises(StorageBusy):
                    append_sync(connection, TENANT, STREAM, [NewEvent("D")], ANY)
                assert connection.execute("SHOW lock_timeout").fetchone() == ("300ms",)
        assert [stored.type for stored in await store.read_all()] == ["A", "B", "C"]
