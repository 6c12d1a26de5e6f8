"""Row-level security: an application's role sees and writes one tenant only."""

from __future__ import annotations

import asyncio
import uuid

import psycopg
import pytest

from relay.core.errors import SchemaError
from relay.eventstore import ANY, NO_STREAM, EventStore, NewEvent, VersionConflict
from tests.eventstore.conftest import OTHER_TENANT, STREAM, TENANT, as_role
from tests.support.fixtures.postgres import Database
from tests.support.waiting import patience


async def test_a_role_stays_inside_its_tenant(store: EventStore, database: Database, role: str) -> None:
    await store.isolate_tenants(role)
    await store.isolate_tenants(role)
    await store.append(TENANT, STREAM, [NewEvent("mine")], NO_STREAM)
    await store.append(OTHER_TENANT, STREAM, [NewEvent("theirs")], NO_STREAM)
    async with await EventStore.connect(as_role(database.url, role), tenant=TENANT) as own:
        assert (await own.append(TENANT, STREAM, [NewEvent("more")], 1)).version == 2
        assert (await own.append(TENANT, STREAM, [NewEvent("any")], ANY)).version == 3
        with pytest.raises(VersionConflict) as caught:
            await own.append(TENANT, STREAM, [NewEvent("more")], 1)
        assert caught.value.actual == 3
        assert [event.type for event in await own.read_stream(TENANT, STREAM)] == ["mine", "more", "any"]
        assert [event.type for event in await own.read_all()] == ["mine", "more", "any"]
        assert await own.read_stream(OTHER_TENANT, STREAM) == []
        assert await own.read_all(tenants=[OTHER_TENANT]) == []
        for expected in (ANY, NO_STREAM, 1):
            with pytest.raises(SchemaError, match="row-level security"):
                await own.append(OTHER_TENANT, STREAM, [NewEvent("intruder")], expected)
        with pytest.raises(SchemaError):
            await own.provision_tenant(uuid.uuid4())
    assert [event.type for event in await store.read_stream(OTHER_TENANT, STREAM)] == ["theirs"]
    assert len(await store.read_all()) == 4


async def test_plain_sql_of_the_role_stays_inside_too(store: EventStore, database: Database, role: str) -> None:
    await store.isolate_tenants(role)
    await store.append(TENANT, STREAM, [NewEvent("mine")], NO_STREAM)
    await store.append(OTHER_TENANT, STREAM, [NewEvent("theirs")], NO_STREAM)
    with psycopg.connect(as_role(database.url, role), autocommit=True) as connection:
        assert connection.execute("SELECT * FROM Event").fetchall() == []
        connection.execute("SELECT set_config('eventstore.tenant', %s, false)", (str(TENANT),))
        assert connection.execute("SELECT Type FROM Event").fetchall() == [("mine",)]
        assert connection.execute("SELECT Type FROM event_feed").fetchall() == [("mine",)]
        insert = "INSERT INTO Event (TenantId, StreamId, Version, Type, Meta) VALUES (%s, %s, 2, 'more', '{}')"
        connection.execute(insert, (TENANT, STREAM))
        for statement in (
            f"INSERT INTO Event VALUES (9, '{OTHER_TENANT}', '{STREAM}', 2, 'X', '{{}}')",
            f"SELECT * FROM event_{TENANT.hex}",
            f"SELECT * FROM event_{OTHER_TENANT.hex}",
            "UPDATE Event SET Type = 'changed'",
            "DELETE FROM Event",
            "DELETE FROM event_feed",
            "INSERT INTO event_feed VALUES (1000, gen_random_uuid(), gen_random_uuid(), 1, 'X')",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.encode())
    assert [event.type for event in await store.read_all()] == ["mine", "theirs", "more"]


async def test_a_role_learns_nothing_of_other_tenants(store: EventStore, database: Database, role: str) -> None:
    await store.isolate_tenants(role)
    with database.connect() as listener:
        listener.execute("LISTEN eventrecorded")
        await store.append(OTHER_TENANT, STREAM, [NewEvent("theirs")], NO_STREAM)
        (note,) = listener.notifies(timeout=patience(), stop_after=1)
    assert note.payload == ""
    async with await EventStore.connect(as_role(database.url, role), tenant=TENANT) as own:
        assert await own.list_tenants() == [TENANT]
        with pytest.raises(
            SchemaError, match=f"confines this session to tenant {TENANT}; connect with tenant="
        ) as caught:
            await own.append(OTHER_TENANT, STREAM, [NewEvent("intruder")], ANY)
        assert "migrate" not in str(caught.value)
    assert len(await store.list_tenants()) == 2


async def test_a_role_subscribes_within_its_tenant(store: EventStore, database: Database, role: str) -> None:
    await store.isolate_tenants(role)
    await store.append(OTHER_TENANT, STREAM, [NewEvent("theirs")], NO_STREAM)
    await store.append(TENANT, STREAM, [NewEvent("mine")], NO_STREAM)
    url = as_role(database.url, role)
    async with (
        await EventStore.connect(url, tenant=TENANT) as own,
        await EventStore.connect(url, tenant=OTHER_TENANT) as other,
    ):
        for one, expected in ((own, "mine"), (other, "theirs")):
            batches = one.subscribe("same name", poll_interval=3600.0)
            assert [event.type for event in await anext(batches)] == [expected]
            waiting = asyncio.create_task(anext(batches))
            await one.append(TENANT if one is own else OTHER_TENANT, STREAM, [NewEvent("more")], 1)
            assert [event.type for event in await waiting] == ["more"]
            await batches.aclose()
            assert [state.name for state in await one.list_subscriptions()] == ["same name"]
        await own.reset_subscription("same name")
        assert [state.position for state in await own.list_subscriptions()] == [0]
        assert (await other.list_subscriptions())[0].position > 0
        assert await own.delete_subscription("same name")
        assert await own.list_subscriptions() == []
    assert [state.name for state in await store.list_subscriptions()] == [f"{OTHER_TENANT}/same name"]
