"""Row-level security: an application's role sees and writes one tenant only."""

from __future__ import annotations

import uuid

import psycopg
import pytest

from relay.core.errors import SchemaError
from relay.eventstore import ANY, NO_STREAM, EventStore, NewEvent, VersionConflict
from tests.eventstore.conftest import OTHER_TENANT, STREAM, TENANT, as_role
from tests.support.fixtures.postgres import Database


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
