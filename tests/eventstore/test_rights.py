"""What a role may do: nothing by default, and what a grant names afterwards."""

from __future__ import annotations

import uuid
from pathlib import Path

import psycopg
import pytest

from relay.core.errors import ConfigError, SchemaError
from relay.eventstore import NO_STREAM, EventStore, NewEvent, VersionConflict
from tests.eventstore.conftest import STREAM, TENANT, as_role
from tests.support.fixtures.postgres import Database

OTHER_STREAM = uuid.UUID(int=7)


async def test_no_function_of_the_store_is_open_to_every_role(store: EventStore, database: Database) -> None:
    assert isinstance(store, EventStore)
    executable = """
        SELECT proname FROM pg_proc
        WHERE pronamespace = 'public'::regnamespace AND proname ~ '^(event_|notifyevent)'
        AND (proacl IS NULL OR EXISTS (SELECT FROM aclexplode(proacl) WHERE grantee = 0))
    """
    assert database.run(executable) == []


@pytest.mark.parametrize("count", ["-2", "0", "NULL"])
async def test_positions_are_taken_one_or_more_at_a_time(
    gapless_store: EventStore, database: Database, count: str
) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        database.run(f"SELECT event_take_positions({count})")
    assert (await gapless_store.append(TENANT, STREAM, [NewEvent("A")], NO_STREAM)).first_sequence_num == 1


async def test_the_feeds_function_serves_the_events_table_only(store: EventStore, database: Database) -> None:
    forged = "CREATE TEMPORARY TABLE forged (LIKE event); CREATE TRIGGER t AFTER INSERT ON forged "
    forged += "REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT EXECUTE FUNCTION event_feed_inserted();"
    forged += "INSERT INTO forged SELECT 99, gen_random_uuid(), gen_random_uuid(), 1, 'X', '{}', NULL, now();"
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="forged"):
        database.run(forged)
    assert await store.read_all() == []


async def test_each_kind_of_access_is_granted_alone(
    store: EventStore, database: Database, role: str, tmp_path: Path
) -> None:
    await store.append(TENANT, STREAM, [NewEvent("first")], NO_STREAM)
    database.run(f'GRANT CONNECT ON DATABASE "{database.name}" TO "{role}"')
    async with await EventStore.connect(as_role(database.url, role)) as own:
        with pytest.raises(SchemaError):
            await own.read_all()
        await store.grant(role, "reader")
        assert [event.type for event in await own.read_all()] == ["first"]
        assert await own.export_tenant(TENANT, tmp_path / "tenant.jsonl") == 1
        with pytest.raises(SchemaError):
            await own.append(TENANT, STREAM, [NewEvent("second")], 1)
        await store.grant(role, "writer")
        assert (await own.append(TENANT, STREAM, [NewEvent("second")], 1)).version == 2
        insert = "INSERT INTO Event (TenantId, StreamId, Version, Type, Meta) VALUES (%s, %s, 3, 'third', '{}')"
        with psycopg.connect(as_role(database.url, role), autocommit=True) as connection:
            connection.execute(insert, (TENANT, STREAM))
        with pytest.raises(SchemaError):
            await own.list_subscriptions()
        await store.grant(role, "subscriber")
        batches = own.subscribe("granted")
        assert [event.type for event in await anext(batches)] == ["first", "second", "third"]
        await batches.aclose()


async def test_a_grant_names_its_access_and_a_store_that_exists(database: Database) -> None:
    async with await EventStore.connect(database.url) as store:
        with pytest.raises(ConfigError, match="owner"):
            await store.grant("postgres", "owner")  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="migrate"):
            await store.grant("postgres", "reader")


@pytest.mark.parametrize("position", [-1, 0, 1, 3, 4, 1000])
async def test_only_the_store_assigns_positions(store: EventStore, database: Database, position: int) -> None:
    await store.append(TENANT, STREAM, [NewEvent("first"), NewEvent("second")], NO_STREAM)
    explicit = (
        "INSERT INTO Event (SequenceNum, TenantId, StreamId, Version, Type, Meta) VALUES (%s, %s, %s, 1, 'X', '{}')"
    )
    refused = r"position -?\d+ was not assigned by the event store|duplicate key"
    with pytest.raises(psycopg.Error, match=refused):
        database.run(explicit, (position, TENANT, OTHER_STREAM))
    with psycopg.connect(database.url) as connection:
        plain = "INSERT INTO Event (TenantId, StreamId, Version, Type, Meta) VALUES (%s, %s, 1, 'plain', '{}')"
        connection.execute(plain, (TENANT, uuid.uuid4()))
        with pytest.raises(psycopg.Error, match=refused):
            connection.execute(explicit, (position, TENANT, OTHER_STREAM))
        connection.rollback()
    with pytest.raises(VersionConflict):
        await store.append(TENANT, OTHER_STREAM, [NewEvent("third")], 1)
    assert (await store.append(TENANT, STREAM, [NewEvent("third")], 2)).version == 3
    assert [event.type for event in await store.read_all()] == ["first", "second", "third"]
