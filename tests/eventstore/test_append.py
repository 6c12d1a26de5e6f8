"""Appending: versions, conflicts, the caller's transaction, and the announcement in the outbox."""

from __future__ import annotations

import asyncio
import uuid
from decimal import Decimal

import psycopg
import pytest

from relay.core.errors import ConfigError, EventError, SchemaError, StorageBusy, StorageError
from relay.eventstore import (
    ANY,
    NO_STREAM,
    Appended,
    EventStore,
    NewEvent,
    PositionsWentBack,
    UnknownTenant,
    VersionConflict,
    append_sync,
)
from tests.eventstore.conftest import OTHER_TENANT, STREAM, TENANT
from tests.support.fixtures.postgres import Database
from tests.support.waiting import eventually


def events(*types: str) -> list[NewEvent]:
    return [NewEvent(name, {"name": name}, {"by": "test"}) for name in types]


def insert_without_triggers(database: Database, position: int, stream: uuid.UUID, version: int) -> None:
    """As a restore does, which is the only way to a position that the store did not assign."""
    with database.connect() as connection:
        connection.execute("SET session_replication_role = replica")
        insert = "INSERT INTO Event (SequenceNum, TenantId, StreamId, Version, Type, Meta) "
        connection.execute(
            (insert + "VALUES (%s, %s, %s, %s, 'B', '{}')").encode(), (position, TENANT, stream, version)
        )


async def test_what_is_appended_is_read_back(store: EventStore) -> None:
    appended = await store.append(TENANT, STREAM, events("A", "B"), NO_STREAM)
    assert appended == Appended(1, 2, 2)
    first, second = await store.read_stream(str(TENANT), str(STREAM))
    assert (first.sequence_num, first.tenant_id, first.stream_id, first.version) == (1, TENANT, STREAM, 1)
    assert (first.type, first.meta, first.data) == ("A", {"by": "test"}, {"name": "A"})
    assert first.log_date.utcoffset() is not None
    assert second.version == 2


async def test_streams_are_read_by_version_from_either_end(store: EventStore) -> None:
    await store.append(TENANT, STREAM, events(*"ABCDE"), NO_STREAM)

    async def versions(**arguments: object) -> list[int]:
        return [event.version for event in await store.read_stream(TENANT, STREAM, **arguments)]  # type: ignore[arg-type]

    assert await versions() == [1, 2, 3, 4, 5]
    assert await versions(from_version=2, to_version=4) == [2, 3, 4]
    assert await versions(from_version=2, limit=2) == [2, 3]
    assert await versions(backward=True, limit=2) == [5, 4]
    assert await versions(to_version=3, backward=True) == [3, 2, 1]
    assert await store.read_stream(TENANT, uuid.uuid4()) == []


async def test_data_may_be_anything_that_json_can_say(store: EventStore) -> None:
    bodies: list[object] = [
        None,
        {},
        [],
        "text",
        "NULL",
        "{a,b}",
        '"q\\\\" \n,',
        17,
        -0.5,
        True,
        {"ä": ["€", None, {"x": 2.5}]},
    ]
    await store.append(TENANT, STREAM, [NewEvent("E", body) for body in bodies], NO_STREAM)  # type: ignore[arg-type]
    assert [event.data for event in await store.read_stream(TENANT, STREAM)] == bodies


@pytest.mark.parametrize("expected", [0, 1, 3, 7])
async def test_a_conflict_names_expected_and_actual_and_writes_nothing(store: EventStore, expected: int) -> None:
    await store.append(TENANT, STREAM, events("A", "B"), NO_STREAM)
    with pytest.raises(VersionConflict, match=f"version {expected}, but it has version 2") as caught:
        await store.append(TENANT, STREAM, events("C", "D", "E"), expected)
    assert (caught.value.expected, caught.value.actual) == (expected, 2)
    assert len(await store.read_stream(TENANT, STREAM)) == 2
    assert len(await store.read_all()) == 2


@pytest.mark.parametrize("expected", [NO_STREAM, 1, ANY])
async def test_above_read_committed_a_lost_race_may_be_tried_again(
    store: EventStore, database: Database, expected: int
) -> None:
    """The event that is in the way is one that the transaction's snapshot does not show."""
    if expected == 1:
        await store.append(TENANT, STREAM, events("A"), NO_STREAM)
    async with await database.connect_async(autocommit=False) as connection:
        await connection.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
        await connection.execute("SELECT 1 FROM event_store")
        insert_without_triggers(database, 900, STREAM, max(expected, 0) + 1)
        with pytest.raises(StorageBusy):
            await store.append(TENANT, STREAM, events("C"), expected, connection=connection)
        await connection.rollback()
    assert [event.type for event in await store.read_stream(TENANT, STREAM)][-1] == "B"


@pytest.mark.parametrize("expected", [NO_STREAM, 1, ANY])
async def test_a_position_that_is_taken_is_no_conflict_of_versions(
    store: EventStore, database: Database, expected: int
) -> None:
    """As in a copy of the database that did not bring the counter along."""
    await store.append(TENANT, STREAM, events("A"), NO_STREAM)
    insert_without_triggers(database, 2, uuid.uuid4(), 7)
    stream = STREAM if expected == 1 else uuid.uuid4()
    with pytest.raises(StorageError, match=r"duplicate key|behind the events"):
        await store.append(TENANT, stream, events("B"), expected)
    assert len(await store.read_stream(TENANT, STREAM)) == 1


async def test_a_counter_that_was_not_carried_over_is_named_and_nothing_is_written(
    store: EventStore, database: Database, positions: str
) -> None:
    """As in a copy by logical replication: a free position below the events would take a row that no reader sees."""
    await store.append(TENANT, STREAM, events("A", "B", "C"), NO_STREAM)
    await store.delete_stream(TENANT, STREAM, confirm=STREAM)
    await store.append(TENANT, STREAM, events("D"), ANY)
    behind, remedy = {
        "gapless": ("UPDATE event_position SET Last = 0, Part = 0", "UPDATE public.event_position SET Last = 4,"),
        "settled": (
            "SELECT setval('event_sequencenum_seq', 1, FALSE)",
            "SELECT setval('public.event_sequencenum_seq', 4)",
        ),
    }[positions]
    database.run(behind)
    async with await EventStore.connect(database.url) as other:
        for expected in (ANY, NO_STREAM, 1):
            stream = STREAM if expected == 1 else uuid.uuid4()
            with pytest.raises(SchemaError, match=r"stands at 0, below position 4 of the events") as refused:
                await other.append(TENANT, stream, events("E"), expected)
            assert remedy in str(refused.value)
        with pytest.raises(psycopg.Error, match="was not carried over"):
            database.run(
                "INSERT INTO Event (TenantId, StreamId, Version, Type, Meta) VALUES (%s, %s, 1, 'F', '{}')",
                (OTHER_TENANT, STREAM),
            )
        database.run(str(refused.value).partition("Run as the owner: ")[2].partition(" (SQLSTATE")[0])
        assert (await other.append(TENANT, STREAM, events("E"), ANY)).first_sequence_num == 5
        assert [event.type for event in await other.read_all()] == ["D", "E"]


async def test_any_appends_wherever_the_stream_is(store: EventStore) -> None:
    assert (await store.append(TENANT, STREAM, events("A"), ANY)).version == 1
    assert (await store.append(TENANT, STREAM, events("B", "C"), ANY)).version == 3


async def test_the_error_for_an_unknown_tenant_says_how_to_provision_it(store: EventStore) -> None:
    stranger = uuid.uuid4()
    for expected in (ANY, NO_STREAM, 5):
        with pytest.raises(UnknownTenant, match=rf"provision_tenant\('{stranger}'\)"):
            await store.append(stranger, STREAM, events("A"), expected)
    assert await store.read_stream(stranger, STREAM) == []


async def test_what_cannot_be_an_append_is_refused(store: EventStore) -> None:
    with pytest.raises(EventError, match="events: empty"):
        await store.append(TENANT, STREAM, [], ANY)
    with pytest.raises(EventError, match="tenant_id"):
        await store.append("tenant one", STREAM, events("A"), ANY)
    with pytest.raises(EventError, match="expected_version"):
        await store.append(TENANT, STREAM, events("A"), -2)
    with pytest.raises(EventError, match="JSON"):
        NewEvent("A", Decimal(1))  # type: ignore[arg-type]
    assert await store.read_all() == []


async def test_a_large_event_is_refused_before_anything_is_locked(database: Database, positions: str) -> None:
    async with await EventStore.connect(database.url, max_event_bytes=1000) as store:
        await store.migrate(positions=positions)  # type: ignore[arg-type]
        await store.provision_tenant(TENANT)
        for large in (NewEvent("A", "x" * 1000), NewEvent("A", "\u20ac" * 334), NewEvent("A", meta={"a": "x" * 1000})):
            with pytest.raises(EventError, match=r"event 'A': 10\d\d bytes .* at most 1000 .* max_event_bytes"):
                await store.append(TENANT, STREAM, [NewEvent("B"), large], ANY)
        assert (await store.append(TENANT, STREAM, [NewEvent("A", "\u20ac" * 331)], ANY)).last_sequence_num == 1
    with database.connect() as connection, pytest.raises(EventError, match=r"at most 16777216 are allowed"):
        append_sync(connection, TENANT, STREAM, [NewEvent("A", "x" * 2**24)], ANY)


async def test_of_racing_appends_exactly_the_winners_are_in_the_stream(store: EventStore) -> None:
    rounds, racers = 5, 20
    winners: list[str] = []
    for round_number in range(rounds):
        names = [f"{round_number}-{racer}" for racer in range(racers)]
        results = await asyncio.gather(
            *(store.append(TENANT, STREAM, events(name), round_number) for name in names), return_exceptions=True
        )
        successes = [name for name, result in zip(names, results, strict=True) if isinstance(result, Appended)]
        conflicts = [result for result in results if isinstance(result, VersionConflict)]
        assert len(successes) == 1
        assert len(conflicts) == racers - 1
        assert {(one.expected, one.actual) for one in conflicts} == {(round_number, round_number + 1)}
        winners += successes
    assert [event.type for event in await store.read_stream(TENANT, STREAM)] == winners


async def test_numbers_beyond_their_type_are_no_fault_of_the_database(store: EventStore) -> None:
    largest = 2**31 - 1
    await store.append(TENANT, STREAM, events("A"), NO_STREAM)
    for version in (largest, largest + 1, 2**70):
        with pytest.raises(VersionConflict) as caught:
            await store.append(TENANT, STREAM, events("B"), version)
        assert (caught.value.expected, caught.value.actual) == (version, 1)
    for limit in (0, 2**31, 2**70):
        with pytest.raises(ConfigError, match="limit"):
            await store.read_stream(TENANT, STREAM, limit=limit)
        with pytest.raises(ConfigError, match="limit"):
            await store.read_all(limit=limit)
        with pytest.raises(ConfigError, match="limit"):
            store.subscribe("any", batch_size=limit)
    assert await store.read_stream(TENANT, STREAM, 2**40) == []
    assert len(await store.read_stream(TENANT, STREAM, -(2**40), 2**40)) == 1
    with pytest.raises(PositionsWentBack):
        await store.read_all(after=2**70)
    assert len(await store.read_all(after=-1)) == 1
    for position in (-1, 2**63):
        with pytest.raises(EventError, match="position of 0 or more"):
            await store.reset_subscription("any", position)
        with pytest.raises(EventError, match="start"):
            store.subscribe("any", start=position)


async def test_racing_appends_to_any_version_all_win(store: EventStore) -> None:
    results = await asyncio.gather(*(store.append(TENANT, STREAM, events(f"{n}"), ANY) for n in range(20)))
    assert sorted(result.version for result in results) == list(range(1, 21))
    assert {event.type for event in await store.read_stream(TENANT, STREAM)} == {f"{n}" for n in range(20)}


async def test_an_append_belongs_to_the_callers_transaction(store: EventStore, database: Database) -> None:
    async with await database.connect_async(autocommit=False) as connection:
        await store.append(TENANT, STREAM, events("A"), NO_STREAM, connection=connection)
        await connection.rollback()
        await store.append(TENANT, STREAM, events("B"), NO_STREAM, connection=connection)
        with pytest.raises(VersionConflict) as caught:
            await store.append(TENANT, STREAM, events("C"), NO_STREAM, connection=connection)
        assert caught.value.actual == 1
        assert await store.read_stream(TENANT, STREAM) == []
        await store.append(TENANT, STREAM, events("D"), 1, connection=connection)
        await connection.commit()
    assert [event.type for event in await store.read_stream(TENANT, STREAM)] == ["B", "D"]


async def test_an_outbox_that_is_not_there_takes_the_append_with_it(store: EventStore) -> None:
    with pytest.raises(Exception, match="openoutbox_events"):
        await store.append(TENANT, STREAM, events("A"), NO_STREAM, {"A": "topic"})
    assert await store.read_all() == []


@pytest.mark.parametrize("step", ["openoutbox_events", "event"])
async def test_a_connection_killed_between_append_and_announcement_leaves_neither(
    store: EventStore, outbox_database: Database, step: str
) -> None:
    """One of the two INSERTs waits for a lock that we hold; then its connection is killed."""
    with outbox_database.connect(autocommit=False) as blocker:
        blocker.execute(f"LOCK TABLE {step} IN SHARE MODE".encode())
        append = asyncio.create_task(store.append(TENANT, STREAM, events("A"), ANY, {"A": "topic"}))
        (pid,) = await eventually(outbox_database.waiting_for_locks)
        outbox_database.run("SELECT pg_terminate_backend(%s)", (pid,))
        with pytest.raises(Exception, match="append to stream"):
            await append
    assert await store.read_all() == []
    assert outbox_database.run("SELECT count(*) FROM openoutbox_events") == [(0,)]
    await store.append(TENANT, STREAM, events("A"), ANY, {"A": "topic"})
    assert len(await store.read_all()) == 1
    assert outbox_database.run("SELECT count(*) FROM openoutbox_events") == [(1,)]


async def test_an_aborted_append_leaves_no_gap_in_a_gapless_store(
    gapless_store: EventStore, database: Database
) -> None:
    with database.connect(autocommit=False) as connection:
        connection.execute(
            "INSERT INTO Event (TenantId, StreamId, Version, Type, Meta) VALUES (%s, %s, 1, 'A', '{}')",
            (TENANT, STREAM),
        )
        connection.rollback()
    with pytest.raises(psycopg.Error), database.connect() as connection:
        connection.execute(
            "INSERT INTO Event (TenantId, StreamId, Version, Type) VALUES (%s, %s, 1, 'A')", (TENANT, STREAM)
        )
    assert (await gapless_store.append(TENANT, STREAM, events("A"), NO_STREAM)).first_sequence_num == 1


PLAIN = "INSERT INTO Event (TenantId, StreamId, Version, Type, Meta) VALUES {} ON CONFLICT DO NOTHING"


def plain(*versions: int) -> str:
    return PLAIN.format(", ".join(f"('{TENANT}', '{STREAM}', {version}, 'A', '{{}}')" for version in versions))


async def test_a_row_that_is_left_out_leaves_no_gap_in_a_gapless_store(
    gapless_store: EventStore, database: Database
) -> None:
    database.run(plain(1))
    database.run(plain(1))
    database.run(plain(2, 1))
    with database.connect() as connection, connection.transaction():
        connection.execute(plain(2).encode())
        connection.execute(plain(3).encode())
        connection.execute(plain(3, 2, 1).encode())
        connection.execute(plain(4).encode())
    with database.connect() as connection, connection.transaction():
        connection.execute(plain(4).encode())
    for versions in ((1, 5), (5, 1, 6)):
        with pytest.raises(psycopg.Error, match="its position would be a gap"):
            database.run(plain(*versions))
    with pytest.raises(VersionConflict):
        await gapless_store.append(TENANT, STREAM, events("B", "C"), 3)
    assert (await gapless_store.append(TENANT, STREAM, events("B", "C"), 4)).first_sequence_num == 5
    database.run(plain(6))
    assert (await gapless_store.append(TENANT, STREAM, events("D"), ANY)).first_sequence_num == 7
    assert [event.sequence_num for event in await gapless_store.read_all()] == list(range(1, 8))
    assert (await gapless_store.read_all()).head == 7
