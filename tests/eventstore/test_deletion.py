"""Deleting a stream: its events are gone everywhere, and no version from before is accepted again."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from pathlib import Path

import psycopg
import pytest

from relay.core.errors import ConfigError, SchemaError, StorageBusy
from relay.eventstore import ANY, NO_STREAM, Appended, EventStore, NewEvent, UnknownTenant, VersionConflict, deletion
from tests.eventstore.conftest import OTHER_TENANT, STREAM, TENANT, as_role
from tests.support.fixtures.postgres import Database

OTHER_STREAM = uuid.UUID(int=7)


def events(*types: str) -> list[NewEvent]:
    return [NewEvent(name) for name in types]


async def types_of(store: EventStore) -> list[str]:
    return [event.type for event in await store.read_all()]


async def test_a_deleted_stream_is_gone_and_its_versions_stay_used(
    store: EventStore, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion, "_VERSIONS_AT_ONCE", 2)
    await store.append(TENANT, STREAM, events("A", "B"), NO_STREAM)
    await store.append(TENANT, OTHER_STREAM, events("C"), NO_STREAM)
    await store.append(OTHER_TENANT, STREAM, events("D"), NO_STREAM)
    await store.append(TENANT, STREAM, [NewEvent("E", event_id=uuid.uuid4())], 2)
    for confirm in ("yes", OTHER_STREAM, TENANT):
        with pytest.raises(ConfigError, match="irreversible"):
            await store.delete_stream(TENANT, STREAM, confirm=confirm)
    with pytest.raises(UnknownTenant):
        await store.delete_stream(STREAM, STREAM, confirm=STREAM)
    assert await types_of(store) == ["A", "B", "C", "D", "E"]
    assert await store.delete_stream(TENANT, STREAM, confirm=STREAM.hex.upper()) == 3
    assert await types_of(store) == ["C", "D"]
    assert database.run("SELECT count(*) FROM event_feed") == [(2,)]
    assert database.run("SELECT count(*) FROM event_id") == [(0,)]
    assert await store.read_stream(TENANT, STREAM) == []
    assert await store.delete_stream(TENANT, STREAM, confirm=STREAM) == 0
    for version in (1, 2, 3, 4):
        with pytest.raises(VersionConflict) as caught:
            await store.append(TENANT, STREAM, events("Late"), version)
        assert caught.value.actual == 0
    assert (await store.append(TENANT, STREAM, events("F"), NO_STREAM)).version == 4
    assert (await store.append(TENANT, STREAM, events("G"), ANY)).version == 5
    for version in (NO_STREAM, 1, 2, 3, 4):
        with pytest.raises(VersionConflict) as caught:
            await store.append(TENANT, STREAM, events("Late"), version)
        assert caught.value.actual == 5
    assert await store.delete_stream(TENANT, STREAM, confirm=STREAM) == 2
    assert (await store.append(TENANT, STREAM, events("H"), ANY)).version == 6
    assert (await store.append(TENANT, OTHER_STREAM, events("I"), 1)).version == 2


async def test_a_stream_without_events_leaves_no_tombstone(gapless_store: EventStore, database: Database) -> None:
    assert await gapless_store.delete_stream(TENANT, STREAM, confirm=STREAM) == 0
    assert database.run("SELECT 1 FROM event_tombstone") == []
    assert (await gapless_store.append(TENANT, STREAM, events("A"), NO_STREAM)).version == 1


async def test_appends_that_race_with_a_deletion_write_no_deleted_version(
    store: EventStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion, "_VERSIONS_AT_ONCE", 1)
    versions: list[int] = []

    async def append(expected: int) -> None:
        for _ in range(8):
            with contextlib.suppress(VersionConflict):
                versions.append((await appended(expected)).version)

    async def appended(expected: int) -> Appended:
        while True:
            # The deletion takes the row away that appends wait for, so two may write one version; one gets this error.
            with contextlib.suppress(StorageBusy):
                return await store.append(TENANT, STREAM, events("E"), expected)

    async def delete() -> None:
        for _ in range(4):
            await store.delete_stream(TENANT, STREAM, confirm=STREAM)

    await asyncio.gather(delete(), *(append(expected) for expected in (ANY, ANY, NO_STREAM, 1, 2, 3)))
    assert len(set(versions)) == len(versions) >= 16
    assert [event.version for event in await store.read_stream(TENANT, STREAM)] == [
        event.version for event in await store.read_all()
    ]


async def test_subscriptions_go_on_past_deleted_events(gapless_store: EventStore) -> None:
    await gapless_store.append(TENANT, STREAM, events("A", "B"), NO_STREAM)
    await gapless_store.append(TENANT, OTHER_STREAM, events("C"), NO_STREAM)
    async with contextlib.aclosing(gapless_store.subscribe("reader", batch_size=1)) as batches:
        assert [event.type for event in await anext(batches)] == ["A"]
        await gapless_store.delete_stream(TENANT, STREAM, confirm=STREAM)
        await gapless_store.append(TENANT, STREAM, events("D"), NO_STREAM)
        assert [[event.type for event in await anext(batches)] for _ in range(2)] == [["C"], ["D"]]


async def test_an_export_brings_the_tombstones_along(
    gapless_store: EventStore, tmp_path: Path, database: Database
) -> None:
    await gapless_store.append(TENANT, STREAM, events("A", "B"), NO_STREAM)
    await gapless_store.append(TENANT, OTHER_STREAM, events("C"), NO_STREAM)
    await gapless_store.delete_stream(TENANT, STREAM, confirm=STREAM)
    file = tmp_path / "tenant.jsonl"
    assert await gapless_store.export_tenant(TENANT, file) == 1
    await gapless_store.drop_tenant(TENANT, confirm=TENANT)
    assert database.run("SELECT 1 FROM event_tombstone") == []
    await gapless_store.import_tenant(file)
    with pytest.raises(VersionConflict):
        await gapless_store.append(TENANT, STREAM, events("Late"), 2)
    assert (await gapless_store.append(TENANT, STREAM, events("D"), NO_STREAM)).version == 3
    assert await types_of(gapless_store) == ["C", "D"]


async def test_only_the_owner_deletes(gapless_store: EventStore, database: Database, role: str) -> None:
    await gapless_store.append(TENANT, STREAM, events("A"), NO_STREAM)
    await gapless_store.append(TENANT, OTHER_STREAM, events("B"), NO_STREAM)
    await gapless_store.delete_stream(TENANT, STREAM, confirm=STREAM)
    await gapless_store.isolate_tenants(role)
    async with await EventStore.connect(as_role(database.url, role), tenant=TENANT) as own:
        with pytest.raises(SchemaError, match="only the owner"):
            await own.delete_stream(TENANT, OTHER_STREAM, confirm=OTHER_STREAM)
        assert (await own.append(TENANT, STREAM, events("C"), NO_STREAM)).version == 2
    with psycopg.connect(as_role(database.url, role), autocommit=True) as connection:
        connection.execute("SELECT set_config('eventstore.changes', 'allowed', false)")
        assert connection.execute("SELECT * FROM event_tombstone").fetchall() == []
        for sql in ("DELETE FROM event", "DELETE FROM event_tombstone", "INSERT INTO event_tombstone DEFAULT VALUES"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(sql.encode())
    assert await types_of(gapless_store) == ["B", "C"]


@pytest.mark.parametrize("change", ["UPDATE Event SET Type = 'X'", "DELETE FROM Event", "TRUNCATE Event"])
async def test_stored_events_are_not_changed_by_mistake(
    gapless_store: EventStore, database: Database, change: str
) -> None:
    await gapless_store.append(TENANT, STREAM, events("A"), NO_STREAM)
    with pytest.raises(psycopg.Error, match=f"{change.partition(' ')[0]} of the table of events is refused") as caught:
        database.run(change)
    assert caught.value.sqlstate == "ES004"
    assert "SET LOCAL eventstore.changes = 'allowed'" in str(caught.value.diag.message_hint)
    assert await types_of(gapless_store) == ["A"]
    with database.connect(autocommit=False) as connection:
        connection.execute("SET LOCAL eventstore.changes = 'allowed'")
        connection.execute(change.encode())
        connection.commit()
        with pytest.raises(psycopg.Error, match="refused"):
            connection.execute(change.encode())
    assert await types_of(gapless_store) == (["X"] if change.startswith("UPDATE") else [])
