"""The store's own connections: a network that goes silent, a lost connection, and the end of the store."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import psycopg
import pytest

from relay.core.errors import StorageBusy, StorageError, StorageTimeout, StorageUnavailable
from relay.eventstore import ANY, NO_STREAM, EventStore, NewEvent, VersionConflict
from relay.eventstore import database as connections
from tests.eventstore.conftest import STREAM, TENANT, as_role
from tests.outbox.proxy import Proxy
from tests.support.fixtures.postgres import Database
from tests.support.waiting import eventually, patience, wait_until_async

USES: dict[str, Callable[[EventStore], Awaitable[object]]] = {
    "append": lambda store: store.append(TENANT, STREAM, [NewEvent("E", 2)], ANY),
    "read_all": lambda store: store.read_all(),
    "list_subscriptions": lambda store: store.list_subscriptions(),
    "provision_tenant": lambda store: store.provision_tenant(STREAM),
}


@pytest.mark.parametrize("use", USES)
async def test_a_silent_network_is_given_up_at_the_deadline(
    gapless_store: EventStore, database: Database, monkeypatch: pytest.MonkeyPatch, use: str
) -> None:
    """No socket is closed, so that only the deadline can end it; the next use has a new connection."""
    await gapless_store.append(TENANT, STREAM, [NewEvent("E", 1)], NO_STREAM)
    monkeypatch.setattr(connections, "DEADLINE", 1.5)
    async with Proxy(database.url) as proxy, await EventStore.connect(proxy.url) as store:
        await store.list_tenants()
        proxy.swallow()
        async with asyncio.timeout(patience()):
            with pytest.raises(StorageTimeout, match="no answer within"):
                await USES[use](store)
        proxy.flow()

        async def reads() -> bool:
            with contextlib.suppress(StorageTimeout):  # on a busy machine
                return bool(await store.read_stream(TENANT, STREAM))
            return False

        await wait_until_async(reads)


async def test_a_subscription_goes_on_after_a_silence(
    gapless_store: EventStore, database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await gapless_store.append(TENANT, STREAM, [NewEvent("E", 1)], NO_STREAM)
    monkeypatch.setattr(connections, "DEADLINE", 1.5)
    async with (
        Proxy(database.url) as proxy,
        await EventStore.connect(proxy.url) as store,
        asyncio.timeout(patience()),
        contextlib.aclosing(store.subscribe("silence", poll_interval=0.1)) as batches,
    ):
        assert [event.data for event in await anext(batches)] == [1]
        proxy.swallow()
        following = asyncio.create_task(anext(batches))
        await eventually(lambda: caplog.text.count("it tries again") > 2, what="attempts to connect again")
        proxy.flow()
        await gapless_store.append(TENANT, STREAM, [NewEvent("E", 2)], 1)
        bodies = [event.data for event in await following]
        while bodies[-1] != 2:  # the acknowledgement of the first batch was lost in the silence
            bodies = [event.data for event in await anext(batches)]


async def test_a_cancelled_append_leaves_nothing_behind(gapless_store: EventStore, database: Database) -> None:
    """It waits for a lock, which its server's process would otherwise get later, and commit."""
    with database.connect(autocommit=False) as holder:
        holder.execute("LOCK TABLE event IN ACCESS EXCLUSIVE MODE")
        append = asyncio.create_task(gapless_store.append(TENANT, STREAM, [NewEvent("E")], NO_STREAM))
        await eventually(database.waiting_for_locks)
        append.cancel()
        with pytest.raises(asyncio.CancelledError):
            await append
        await eventually(lambda: not database.waiting_for_locks())
    assert await gapless_store.read_stream(TENANT, STREAM) == []


async def test_a_lost_connection_costs_one_use(gapless_store: EventStore, database: Database) -> None:
    """All others are replaced before they are used again."""
    async with await EventStore.connect(database.url) as store:
        await asyncio.gather(*(store.read_all() for _ in range(8)))
        cut = (
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = %s AND datname = %s"
        )
        database.run(cut, ("openoutbox-eventstore", database.name))
        with pytest.raises(StorageUnavailable):
            await store.append(TENANT, STREAM, [NewEvent("E")], NO_STREAM)
        await asyncio.gather(*(store.read_all() for _ in range(8)))


async def test_a_caller_learns_that_all_connections_stay_in_use(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_LONGEST_WAIT", 0.1)
    async with await EventStore.connect(database.url, max_connections=1) as store:
        await store.migrate()
        with database.connect(autocommit=False) as holder:
            holder.execute("LOCK TABLE event IN ACCESS EXCLUSIVE MODE")
            first = asyncio.create_task(store.read_stream(TENANT, STREAM))
            await eventually(database.waiting_for_locks)
            with pytest.raises(StorageBusy, match="all 1 connections were in use"):
                await store.read_stream(TENANT, STREAM)
        assert await first == []


async def test_a_closed_store_connects_no_more(database: Database) -> None:
    store = await EventStore.connect(database.url)
    await store.close()
    with pytest.raises(StorageUnavailable, match="closed"):
        await store.list_tenants()


async def test_a_role_may_have_another_default_isolation(database: Database) -> None:
    """Levels are the database's own: detaching a partition works in no transaction at all."""
    with psycopg.connect(database.url, autocommit=True) as owner:
        owner.execute(
            f'ALTER DATABASE "{database.name}" SET default_transaction_isolation = "repeatable read"'.encode()
        )
    async with await EventStore.connect(database.url) as store:
        await store.migrate()
        await store.provision_tenant(TENANT)
        await store.drop_tenant(TENANT, confirm=TENANT)
        assert await store._database.rows("look", "SHOW transaction_isolation") == [("repeatable read",)]


_AUDITED = """
CREATE TABLE audit (at timestamptz DEFAULT now());
CREATE FUNCTION hostile() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'not this one' USING ERRCODE = '{state}'; END $$;
CREATE CONSTRAINT TRIGGER hostile AFTER INSERT ON audit DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION hostile();
CREATE FUNCTION audited() RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS
$$ BEGIN INSERT INTO audit DEFAULT VALUES; RETURN TRUE; END $$;
CREATE POLICY audited ON event USING (audited());
ALTER TABLE event ENABLE ROW LEVEL SECURITY
"""
"""A policy that writes down who has looked, and a trigger that refuses it at the commit of what only reads."""


@pytest.mark.parametrize("state", ["P0001", "40001"])
@pytest.mark.parametrize("from_end", [False, True], ids=["a page", "a position"])
async def test_an_error_at_the_commit_of_a_read_keeps_its_state(
    gapless_store: EventStore, database: Database, role: str, state: str, from_end: bool
) -> None:
    await gapless_store.append(TENANT, STREAM, [NewEvent("E", 1)], NO_STREAM)
    [event] = await gapless_store.read_all()
    await gapless_store.grant(role, "reader")
    with database.connect() as connection:
        connection.execute(_AUDITED.format(state=state).encode())
    async with await EventStore.connect(as_role(database.url, role)) as reader:
        with pytest.raises(StorageError, match=f"^read events: not this one .SQLSTATE {state}") as reading:
            await reader.read_all(event.checkpoint if from_end else 0)
        assert (reading.value.answered, reading.value.sqlstate) == (True, state)
        database.run("ALTER POLICY audited ON event USING (TRUE)")
        assert len(await reader.read_all(event.checkpoint if from_end else 0)) == (not from_end)


async def test_an_append_is_prepared_once_and_a_failed_one_leaves_nothing(
    gapless_store: EventStore, database: Database
) -> None:
    await gapless_store.append(TENANT, STREAM, [NewEvent("E", 1)], NO_STREAM)
    look = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%event_append%'"
    async with await EventStore.connect(database.url, max_connections=1) as store:
        for expected, prepared in ((NO_STREAM, 0), (ANY, 1)):
            for _ in range(5):
                with contextlib.nullcontext() if prepared else pytest.raises(VersionConflict):
                    await store.append(TENANT, STREAM, [NewEvent("E", 1)], expected)
            assert await store._database.rows("look", look) == [(prepared,)]
