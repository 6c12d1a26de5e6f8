"""The table as others see it who know its names and nothing of us."""

from __future__ import annotations

import uuid

import psycopg
import pytest

from relay.core.errors import ConfigError
from relay.eventstore import ANY, NO_STREAM, EventStore, NewEvent, VersionConflict
from tests.eventstore.conftest import OTHER_TENANT, STREAM, TENANT
from tests.support.fixtures.postgres import Database, create_database
from tests.support.notifications import full_queue, small_queue
from tests.support.waiting import patience

PLAIN_INSERT = (
    "INSERT INTO Event (TenantId, StreamId, Version, Type, Meta, Data) VALUES (%s, %s, %s, 'EmptyEvent', '{}', NULL)"
)
_NOTIFIES_ALWAYS = """
CREATE OR REPLACE FUNCTION NotifyEvent() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_notify('eventrecorded', ''); RETURN NULL; END $$
"""
"""As the trigger's function was before migration 19, in a transaction of the application's."""


async def test_columns_and_constraints_have_the_names_of_the_contract(store: EventStore, database: Database) -> None:
    columns = database.run(
        "SELECT column_name, data_type, is_nullable FROM information_schema.columns "
        "WHERE table_name = 'event' ORDER BY ordinal_position"
    )
    assert columns == [
        ("sequencenum", "bigint", "NO"),
        ("tenantid", "uuid", "NO"),
        ("streamid", "uuid", "NO"),
        ("version", "integer", "NO"),
        ("type", "text", "NO"),
        ("meta", "jsonb", "NO"),
        ("data", "jsonb", "YES"),
        ("logdate", "timestamp with time zone", "NO"),
    ]
    constraints = database.run(
        "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint "
        "WHERE conrelid = 'event'::regclass AND contype IN ('p', 'u') ORDER BY 1"
    )
    assert constraints == [
        ("pk_event_sequencenum", "PRIMARY KEY (tenantid, sequencenum)"),
        ("uk_event_streamid_version", "UNIQUE (tenantid, streamid, version)"),
    ]
    assert database.run("SELECT pg_get_partkeydef('event'::regclass)") == [("LIST (tenantid)",)]
    triggers = database.run("SELECT tgfoid::regproc::text FROM pg_trigger WHERE tgname = 'trg_eventrecorded'")
    assert triggers == [("notifyevent",)]


async def test_each_tenant_has_one_partition_of_its_name(store: EventStore, database: Database) -> None:
    leaves = database.run(
        "SELECT relid::regclass::text FROM pg_partition_tree('event') WHERE isleaf AND relid::regclass::text ~ "
        "'^event_[0-9a-f]{32}$' ORDER BY 1"
    )
    assert leaves == sorted((f"event_{tenant.hex}",) for tenant in (TENANT, OTHER_TENANT))
    await store.append(TENANT, STREAM, [NewEvent("A")], NO_STREAM)
    assert database.run(f"SELECT count(*) FROM event_{TENANT.hex}") == [(1,)]
    assert database.run(f"SELECT count(*) FROM event_{OTHER_TENANT.hex}") == [(0,)]


async def test_a_plain_insert_gets_a_position_and_is_read_by_everyone(store: EventStore, database: Database) -> None:
    for version in (1, 2, 3):
        database.run(PLAIN_INSERT, (TENANT, STREAM, version))
    appended = await store.append(TENANT, STREAM, [NewEvent("B")], 3)
    assert appended == (4, 4, 4)
    rows = database.run("SELECT SequenceNum, Version FROM Event WHERE SequenceNum > 1 ORDER BY SequenceNum LIMIT 1000")
    assert rows == [(2, 2), (3, 3), (4, 4)]
    assert [event.sequence_num for event in await store.read_all()] == [1, 2, 3, 4]


async def test_one_insert_of_several_rows_for_several_tenants(store: EventStore, database: Database) -> None:
    database.run(
        "INSERT INTO Event (TenantId, StreamId, Version, Type, Meta) "
        "SELECT tenant, gen_random_uuid(), 1, 'E', '{}' FROM unnest(%s::uuid[]) AS tenant",
        ([TENANT, OTHER_TENANT, TENANT],),
    )
    assert [event.tenant_id for event in await store.read_all()] == [TENANT, OTHER_TENANT, TENANT]


async def test_an_insert_sends_the_payload_of_the_contract(store: EventStore, database: Database) -> None:
    with database.connect() as listener:
        listener.execute("LISTEN eventrecorded")
        await store.append(TENANT, STREAM, [NewEvent("First"), NewEvent("EmptyEvent")], NO_STREAM)
        received = [note.payload for note in listener.notifies(timeout=patience(), stop_after=2)]
    assert received == [
        "1/847ed1889e8b4d238eb49126ebd77a4d/a88f94db6e7a439e9861485f63cc8a13/1/First",
        "2/847ed1889e8b4d238eb49126ebd77a4d/a88f94db6e7a439e9861485f63cc8a13/2/EmptyEvent",
    ]


@pytest.mark.parametrize("character", ["T", "€", "🂡"])
async def test_a_type_too_long_for_a_notification_is_appended(
    store: EventStore, database: Database, character: str
) -> None:
    long_type = character * 10_000
    with database.connect() as listener:
        listener.execute("LISTEN eventrecorded")
        await store.append(TENANT, STREAM, [NewEvent(long_type)], NO_STREAM)
        (note,) = listener.notifies(timeout=patience(), stop_after=1)
    position, tenant, stream, version, cut = note.payload.split("/")
    assert (position, tenant, stream, version) == ("1", TENANT.hex, STREAM.hex, "1")
    assert cut
    assert long_type.startswith(cut)
    assert (await store.read_stream(TENANT, STREAM))[0].type == long_type


async def test_an_append_whose_notification_fails_is_appended(
    store: EventStore, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    """It is sent after the commit: what fails then, as with a queue that is full, is not the append."""
    database.run(
        "CREATE OR REPLACE FUNCTION NotifyEvent() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN "
        "PERFORM set_config('eventstore.kept', '{' || repeat('x', 8000) || '}', TRUE); RETURN NULL; END $$"
    )
    assert await store.append(TENANT, STREAM, [NewEvent("A")], NO_STREAM) == (1, 1, 1)
    assert "its notifications failed" in caplog.text
    with pytest.raises(VersionConflict):
        await store.append(TENANT, STREAM, [NewEvent("Late")], NO_STREAM)
    event = NewEvent("B", event_id=uuid.uuid4())
    appended = await store.append(TENANT, STREAM, [event], 1)
    assert await store.append(TENANT, STREAM, [event], 1) == appended
    assert [event.type for event in await store.read_stream(TENANT, STREAM)] == ["A", "B"]


@pytest.mark.postgres
async def test_a_full_queue_of_notifications_makes_no_transaction_of_the_application_fail() -> None:
    """A store of the release before is as a new one once it is migrated."""
    with small_queue() as server:
        database = create_database(server.url)
        async with await EventStore.connect(database.url) as store:
            await store.migrate()
            await store.provision_tenant(TENANT)
            database.run(_NOTIFIES_ALWAYS)
            database.run("DELETE FROM event_migration WHERE Number >= 19")
            with full_queue(database):
                with pytest.raises(psycopg.errors.ProgramLimitExceeded):
                    database.run(PLAIN_INSERT, (TENANT, STREAM, 1))
                await store.migrate()
                database.run(PLAIN_INSERT, (TENANT, STREAM, 1))
                async with await database.connect_async(autocommit=False) as own:
                    await store.append(TENANT, STREAM, [NewEvent("B")], 1, connection=own)
                assert await store.append(TENANT, STREAM, [NewEvent("C")], 2) == (3, 3, 3)


async def test_a_store_that_was_not_migrated_yet_notifies_within_the_append(
    store: EventStore, database: Database
) -> None:
    """The program is newer than its database for as long as a deployment takes."""
    database.run("DROP PROCEDURE event_append_then_notify")
    with database.connect() as listener:
        listener.execute("LISTEN eventrecorded")
        await store.append(TENANT, STREAM, [NewEvent("First")], NO_STREAM)
        (note,) = listener.notifies(timeout=patience(), stop_after=1)
    assert note.payload.endswith("/1/First")


async def test_notifications_are_switched_per_store(store: EventStore, database: Database, positions: str) -> None:
    await store.migrate(positions=positions, notify=False)  # type: ignore[arg-type]
    with database.connect() as listener:
        listener.execute("LISTEN eventrecorded")
        await store.append(TENANT, STREAM, [NewEvent("Silent")], NO_STREAM)
        await store.migrate(positions=positions, notify=True)  # type: ignore[arg-type]
        await store.append(TENANT, STREAM, [NewEvent("Loud")], 1)
        (note,) = listener.notifies(timeout=patience(), stop_after=1)
    assert note.payload.endswith("/2/Loud")


async def test_migrate_is_repeatable_and_keeps_the_positions(store: EventStore, positions: str) -> None:
    await store.append(TENANT, STREAM, [NewEvent("A")], NO_STREAM)
    await store.migrate(positions=positions, notify=True)  # type: ignore[arg-type]
    assert (await store.append(TENANT, STREAM, [NewEvent("B")], 1)).last_sequence_num == 2
    other = "settled" if positions == "gapless" else "gapless"
    with pytest.raises(ConfigError, match=f"has '{positions}', which cannot change"):
        await store.migrate(positions=other)  # type: ignore[arg-type]


async def test_two_stores_live_in_one_database(store: EventStore, database: Database, positions: str) -> None:
    async with await EventStore.connect(database.url, schema="Second Store") as second:
        await second.migrate(positions=positions)  # type: ignore[arg-type]
        await second.provision_tenant(TENANT)
        await second.append(TENANT, STREAM, [NewEvent("Second")], ANY)
        await store.append(TENANT, STREAM, [NewEvent("First")], ANY)
        assert [event.type for event in await second.read_all()] == ["Second"]
        assert [event.type for event in await store.read_all()] == ["First"]
        assert await second.list_tenants() == [TENANT]


async def test_the_newest_major_version_works_too(newest_database: Database, positions: str) -> None:
    async with await EventStore.connect(newest_database.url) as store:
        await store.migrate(positions=positions)  # type: ignore[arg-type]
        await store.provision_tenant(TENANT)
        await store.append(TENANT, STREAM, [NewEvent("A", {"n": 1})], NO_STREAM)
        await store.append(TENANT, STREAM, [NewEvent("B")], 1)
        assert [event.type for event in await store.read_all()] == ["A", "B"]
        await store.drop_tenant(TENANT, confirm=TENANT)
        assert await store.read_all() == []


@pytest.mark.parametrize("schema", ["", "a.b", "quo'te", 'quo"te', "x" * 64, "dollar$"])
async def test_a_schema_that_cannot_be_is_refused_before_connecting(schema: str) -> None:
    with pytest.raises(ConfigError, match="schema"):
        await EventStore.connect("postgres://nobody@localhost:1/none", schema=schema)


async def test_a_store_that_was_never_made_says_so(database: Database) -> None:
    async with await EventStore.connect(database.url) as store:
        with pytest.raises(Exception, match="migrate") as caught:
            await store.append(uuid.uuid4(), uuid.uuid4(), [NewEvent("A")], ANY)
        assert isinstance(caught.value.__cause__, psycopg.Error)
