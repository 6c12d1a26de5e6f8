"""Announcements of what is appended: rows of the outbox in the same transaction, with ids that no other writer has."""

from __future__ import annotations

import hashlib
import uuid

import pytest

from relay.core.errors import RowRefused, StorageError
from relay.eventstore import ANY, NO_STREAM, Announcement, EventStore, NewEvent, VersionConflict
from tests.eventstore.conftest import STREAM, TENANT
from tests.support.fixtures.postgres import Database


def events(*types: str) -> list[NewEvent]:
    return [NewEvent(name, {"name": name}, {"by": "test"}) for name in types]


def guessed_id(database: Database, version: int, position: int) -> uuid.UUID:
    """What an announcement of ``STREAM`` was called before the store had a secret: every writer could compute it."""
    [(store_id,)] = database.run("SELECT StoreId FROM event_store")
    digest = hashlib.sha256(f"{store_id}/{TENANT}/{STREAM}/{version}/{position}".encode()).digest()
    number = int.from_bytes(digest[:16]) & ~(0xF << 76 | 0x3 << 62) | 0x8 << 76 | 0x2 << 62
    return uuid.UUID(int=number)


async def test_an_append_and_its_announcement_appear_together(store: EventStore, outbox_database: Database) -> None:
    await store.append(TENANT, STREAM, events("Opened", "Secret"), NO_STREAM, {"Opened": "bank.accounts"})
    rows = outbox_database.run("SELECT event_id, event_type, partition_key, payload, headers FROM openoutbox_events")
    headers = {"tenant_id": str(TENANT), "stream_id": str(STREAM), "version": "1", "type": "Opened"}
    assert [row[1:] for row in rows] == [("bank.accounts", str(STREAM), b'{"name":"Opened"}', headers)]
    assert (rows[0][0].version, rows[0][0].variant) == (8, uuid.RFC_4122)
    with pytest.raises(VersionConflict):
        await store.append(TENANT, STREAM, events("Opened"), 1, {"Opened": "bank.accounts"})
    assert outbox_database.run("SELECT count(*) FROM openoutbox_events") == [(1,)]


@pytest.mark.parametrize("expected", [1, ANY])
async def test_announcements_by_function(store: EventStore, outbox_database: Database, expected: int) -> None:
    await store.append(TENANT, STREAM, events("A"), NO_STREAM)
    announcement = Announcement(
        lambda event: f"topic.{event.type}" if event.type != "Quiet" else None,
        payload=lambda event: event.type.encode(),
    )
    await store.append(TENANT, STREAM, events("B", "Quiet", "C"), expected, announcement)
    rows = outbox_database.run("SELECT event_type, payload, headers ->> 'version' FROM openoutbox_events ORDER BY 1")
    assert rows == [("topic.B", b"B", "2"), ("topic.C", b"C", "4")]


async def test_another_store_and_a_second_life_announce_events_of_their_own(
    store: EventStore, outbox_database: Database, positions: str
) -> None:
    """The same tenant, stream and version, four times."""
    async with await EventStore.connect(outbox_database.url, schema="second") as second:
        await second.migrate(positions=positions)  # type: ignore[arg-type]
        for one in (store, second):
            await one.provision_tenant(TENANT)
            await one.append(TENANT, STREAM, events("A"), NO_STREAM, {"A": "topic"})
            await one.drop_tenant(TENANT, confirm=TENANT)
            await one.provision_tenant(TENANT)
            await one.append(TENANT, STREAM, events("A"), ANY, {"A": "topic"})
    assert outbox_database.run("SELECT count(DISTINCT event_id) FROM openoutbox_events") == [(4,)]


async def test_positions_with_gaps_between_the_events_of_one_append_are_in_the_ids(
    store: EventStore, database: Database
) -> None:
    """In a settled store another writer may draw between them."""
    for stream, version in ((STREAM, 1), (uuid.uuid4(), 1), (STREAM, 2)):
        await store.append(TENANT, stream, events("A"), version - 1)
    ids = "SELECT event_announcement_ids(%s, %s, ARRAY[{}, 3, {}], {})"
    with database.connect(autocommit=False) as connection:
        both = connection.execute(ids.format(1, 2, 2).encode(), (TENANT, STREAM)).fetchone()
        last = connection.execute(ids.format(3, 2, 1).encode(), (TENANT, STREAM)).fetchone()
    assert both is not None
    assert last is not None
    assert len(set(both[0])) == 2
    assert both[0][1:] == last[0]


async def test_no_writer_takes_the_ids_of_anothers_announcements(store: EventStore, outbox_database: Database) -> None:
    """Neither by computing them nor by asking for them in an append of its own that it takes back."""
    occupied = "INSERT INTO openoutbox_events (event_id, event_type, payload) VALUES (%s, 'topic', 'forged')"
    outbox_database.run(occupied, (guessed_id(outbox_database, 1, 1),))
    async with await outbox_database.connect_async(autocommit=False) as writer:
        await store.append(TENANT, STREAM, events("A"), NO_STREAM, connection=writer)
        asked = await writer.execute("SELECT (event_announcement_ids(%s, %s, ARRAY[1, 1, 1], 1))[1]", (TENANT, STREAM))
        [known] = await asked.fetchone() or [None]
        await writer.rollback()
    outbox_database.run(occupied, (known,))
    await store.append(TENANT, STREAM, events("A"), NO_STREAM, {"A": "topic"})
    announced = "SELECT convert_from(payload, 'UTF8') FROM openoutbox_events ORDER BY payload"
    assert outbox_database.run(announced) == [("forged",), ("forged",), ('{"name":"A"}',)]


async def test_an_announcement_whose_id_is_there_takes_the_append_with_it(
    store: EventStore, outbox_database: Database
) -> None:
    async with await outbox_database.connect_async(autocommit=False) as writer:
        number = (await store.append(TENANT, uuid.uuid4(), events("A"), NO_STREAM, connection=writer)).last_sequence_num
        await writer.execute(
            "INSERT INTO openoutbox_events (event_id, event_type, payload) "
            "SELECT (event_announcement_ids(%s, %s, ARRAY[%s, %s, 1], 1))[1], 'topic', 'there'",
            (TENANT, STREAM, number + 1, number + 1),
        )
        with pytest.raises(StorageError, match="duplicate key value"):
            await store.append(TENANT, STREAM, events("A"), NO_STREAM, {"A": "topic"}, connection=writer)
        assert await store.read_stream(TENANT, STREAM) == []


_HOSTILE = "CREATE FUNCTION hostile() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} RETURN NULL; END $$"
_ON_OUTBOX = "ON openoutbox_events {deferred} FOR EACH ROW WHEN (NEW.event_type = 'bad') EXECUTE FUNCTION hostile()"


@pytest.mark.parametrize("within", [False, True], ids=["alone", "in a transaction"])
@pytest.mark.parametrize("ids", [False, True], ids=["plain", "once"])
async def test_an_announcement_that_a_trigger_leaves_out_ends_the_append(
    gapless_store: EventStore, outbox_database: Database, within: bool, ids: bool
) -> None:
    outbox_database.run(_HOSTILE.format(body=""))
    outbox_database.run(f"CREATE TRIGGER hostile BEFORE INSERT {_ON_OUTBOX.format(deferred='')}")
    batch = [NewEvent(name, event_id=uuid.uuid4() if ids else None) for name in ("Good", "Bad", "Silent")]
    topics = {"Good": "good", "Bad": "bad"}
    async with await outbox_database.connect_async(autocommit=False) as connection:
        with pytest.raises(
            RowRefused, match=f"append to stream {STREAM} .*: a BEFORE trigger of table openoutbox_events"
        ):
            await gapless_store.append(
                TENANT, STREAM, batch, NO_STREAM, topics, connection=connection if within else None
            )
        await connection.commit()
    assert await gapless_store.read_stream(TENANT, STREAM) == []
    assert outbox_database.run("SELECT count(*) FROM openoutbox_events") == [(0,)]
    await gapless_store.append(TENANT, STREAM, [batch[0], batch[2]], NO_STREAM, topics)
    assert outbox_database.run("SELECT event_type FROM openoutbox_events") == [("good",)]


@pytest.mark.parametrize("state", ["P0001", "42P01", "40001"])
async def test_an_error_at_the_commit_of_an_append_keeps_its_state_and_names_it(
    gapless_store: EventStore, outbox_database: Database, state: str
) -> None:
    outbox_database.run(_HOSTILE.format(body=f"RAISE EXCEPTION 'not this one' USING ERRCODE = '{state}';"))
    on_outbox = _ON_OUTBOX.format(deferred="DEFERRABLE INITIALLY DEFERRED")
    outbox_database.run(f"CREATE CONSTRAINT TRIGGER hostile AFTER INSERT {on_outbox}")
    with pytest.raises(StorageError, match=f"^append to stream .*: not this one .SQLSTATE {state}") as appending:
        await gapless_store.append(TENANT, STREAM, events("A"), NO_STREAM, {"A": "bad"})
    assert appending.value.sqlstate == state
    assert await gapless_store.read_stream(TENANT, STREAM) == []
