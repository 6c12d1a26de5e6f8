"""Events with ids: an append that is repeated writes nothing twice."""

from __future__ import annotations

import asyncio
import dataclasses
import uuid
from pathlib import Path

import psycopg
import pytest

from relay.core.errors import EventError, StorageBusy
from relay.eventstore import ANY, NO_STREAM, Appended, EventIdConflict, EventStore, NewEvent, VersionConflict
from tests.eventstore.conftest import OTHER_TENANT, STREAM, TENANT, as_role
from tests.support.fixtures.postgres import Database

OUTBOX = {"E": "topic"}


def identified(*data: object) -> list[NewEvent]:
    return [NewEvent("E", {"n": one}, {"by": "test"}, uuid.uuid4()) for one in data]


async def test_a_repeated_append_writes_nothing_and_returns_the_first_result(
    store: EventStore, outbox_database: Database
) -> None:
    events = identified(1, 2)
    first = await store.append(TENANT, STREAM, events, ANY, OUTBOX)
    between = await store.append(TENANT, uuid.uuid4(), [NewEvent("Other")], ANY)
    later = await store.append(TENANT, STREAM, identified(3), ANY, OUTBOX)
    outbox_database.run("DELETE FROM openoutbox_events")  # as delivered and pruned
    for expected in (ANY, NO_STREAM, first.version, 7):
        assert await store.append(TENANT, STREAM, events, expected, OUTBOX) == first == Appended(1, 2, 2)
    assert await store.append(TENANT, STREAM, events[1:], ANY) == (2, 2, 2)
    assert outbox_database.run("SELECT 1 FROM openoutbox_events") == []
    assert len(await store.read_all()) == 4
    new = await store.append(TENANT, STREAM, identified(4), later.version, OUTBOX)
    assert (new.version, new.last_sequence_num) == (4, between.last_sequence_num + 2), "no position was used up"
    assert outbox_database.run("SELECT headers ->> 'version' FROM openoutbox_events") == [("4",)]


async def test_an_id_is_unique_within_its_stream(store: EventStore) -> None:
    events = identified(1)
    for tenant, stream in ((TENANT, STREAM), (TENANT, uuid.uuid4()), (OTHER_TENANT, STREAM)):
        assert (await store.append(tenant, stream, events, NO_STREAM)).version == 1
    assert len(await store.read_all()) == 3


async def test_the_same_id_with_other_content_is_refused(store: EventStore) -> None:
    first, second = identified(1, 2)
    await store.append(TENANT, STREAM, [first, second], NO_STREAM)
    others = [
        [dataclasses.replace(first, type="Other")],
        [dataclasses.replace(first, data={"n": 7})],
        [dataclasses.replace(first, data=None)],
    ]
    for events in others:
        with pytest.raises(EventIdConflict, match=f"other content.*{first.event_id}"):
            await store.append(TENANT, STREAM, events, ANY)
    stranger = identified(3)[0]
    with pytest.raises(EventIdConflict, match=f"{second.event_id} is in the stream, but event {stranger.event_id}"):
        await store.append(TENANT, STREAM, [stranger, second], ANY)
    with pytest.raises(EventError, match="all events of an append or to none"):
        await store.append(TENANT, STREAM, [stranger, NewEvent("E")], ANY)
    with pytest.raises(EventError, match="two events"):
        await store.append(TENANT, STREAM, [stranger, stranger], ANY)
    with pytest.raises(EventError, match="event_id"):
        NewEvent("E", event_id="no uuid")
    assert len(await store.read_all()) == 2


async def test_a_refused_append_leaves_no_id(store: EventStore) -> None:
    await store.append(TENANT, STREAM, [NewEvent("A")], NO_STREAM)
    events = identified(1)
    with pytest.raises(VersionConflict):
        await store.append(TENANT, STREAM, events, 7)
    assert (await store.append(TENANT, STREAM, events, 1)).version == 2


async def test_of_racing_repetitions_one_writes(store: EventStore, outbox_database: Database) -> None:
    events = identified(1, 2)
    results = await asyncio.gather(
        *(store.append(TENANT, STREAM, events, ANY, OUTBOX) for _ in range(10)),
        *(store.append(TENANT, STREAM, identified(n), ANY, OUTBOX) for n in range(10)),
    )
    assert len(set(results[:10])) == 1
    assert len({event.version for event in await store.read_stream(TENANT, STREAM)}) == 12
    assert outbox_database.run("SELECT count(*) FROM openoutbox_events") == [(12,)]


async def test_a_snapshot_that_does_not_show_the_first_append_repeats_nothing(
    store: EventStore, database: Database
) -> None:
    events = identified(1)
    async with await database.connect_async(autocommit=False) as connection:
        await connection.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
        await connection.execute("SELECT 1 FROM event_store")
        await store.append(TENANT, STREAM, events, ANY)
        with pytest.raises(StorageBusy):
            await store.append(TENANT, STREAM, events, ANY, connection=connection)
        await connection.rollback()
        assert (await store.append(TENANT, STREAM, events, ANY, connection=connection)).version == 1
    assert len(await store.read_all()) == 1


async def test_an_isolated_role_repeats_its_appends(store: EventStore, database: Database, role: str) -> None:
    await store.isolate_tenants(role)
    events = identified(1)
    await store.append(OTHER_TENANT, STREAM, events, ANY)
    async with await EventStore.connect(as_role(database.url, role), tenant=TENANT) as own:
        first = await own.append(TENANT, STREAM, events, ANY)
        assert await own.append(TENANT, STREAM, events, ANY) == first
    with psycopg.connect(as_role(database.url, role)) as connection:
        connection.execute("SELECT set_config('eventstore.tenant', %s, false)", (str(TENANT),))
        assert connection.execute("SELECT TenantId FROM event_id").fetchall() == [(TENANT,)]
        insert = "INSERT INTO event_id VALUES (%s, %s, gen_random_uuid(), 9)"
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(insert, (OTHER_TENANT, STREAM))


async def test_ids_come_along_with_an_export_and_go_with_their_tenant(
    store: EventStore, database: Database, tmp_path: Path
) -> None:
    events = identified(1, 2)
    await store.append(TENANT, STREAM, [NewEvent("Without")], ANY)
    await store.append(TENANT, STREAM, events, ANY)
    file = tmp_path / "tenant.jsonl"
    await store.export_tenant(TENANT, file)
    await store.drop_tenant(TENANT, confirm=TENANT)
    assert database.run("SELECT 1 FROM event_id") == []
    await store.import_tenant(file)
    assert (await store.append(TENANT, STREAM, events, ANY)).version == 3
    assert [event.type for event in await store.read_stream(TENANT, STREAM)] == ["Without", "E", "E"]


async def test_a_repetition_may_have_other_metadata(store: EventStore, caplog: pytest.LogCaptureFixture) -> None:
    """A command that is sent again has a new trace. The first one stays, and the log says so."""
    first, second = identified(1, 2)
    written = await store.append(TENANT, STREAM, [first, second], NO_STREAM)
    assert await store.append(TENANT, STREAM, [first, second], ANY) == written
    assert caplog.messages == []
    again = dataclasses.replace(second, meta={"trace": "another"})
    assert await store.append(TENANT, STREAM, [first, again], ANY) == written
    assert [message for message in caplog.messages if "other metadata" in message and str(STREAM) in message]
    assert [event.meta for event in await store.read_all()] == [first.meta, second.meta]
