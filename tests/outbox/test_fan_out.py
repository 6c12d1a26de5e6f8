"""The extension fan-out: every outbox remembers which of several destinations have acknowledged an event."""

from __future__ import annotations

import logging

import pytest

from relay.core.event import EventId
from relay.core.finding import Level
from relay.core.storage import OutboxStorage, Settled, Settlement
from relay.outbox.admin.outbox_check import check_storage
from relay.outbox.extensions import add_extension
from relay.outbox.outbox_options import KeyOrder
from relay.outbox.storage import PostgresOutbox
from relay.postgres.sql import TableName
from tests.outbox.harness import LEASE, TABLES, PostgresHarness, StorageHarness
from tests.outbox.test_conformance import ANY_BYTES, fence_of, ids
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.options import storage_options

GRANT = "GRANT UPDATE (acknowledged_by) ON openoutbox_events TO openoutbox_relay"
everywhere = pytest.mark.parametrize(
    "table", [*TABLES, "memory deleting", pytest.param("postgres deleting", marks=pytest.mark.postgres)], indirect=True
)


def extend(outbox: Outbox) -> None:
    """Add the column, as its owner does."""
    add_extension(outbox.owner_url, TableName(), "fan-out")
    outbox.database.run(GRANT)


@pytest.fixture
async def relay(table: StorageHarness, request: pytest.FixtureRequest) -> OutboxStorage:
    if isinstance(table, PostgresHarness):
        extend(request.getfixturevalue("outbox"))
    relay = table.relay()
    await relay.open()
    return relay


def names(table: StorageHarness, event_id: EventId) -> str | None:
    """What the column holds."""
    value = table.row(event_id)["acknowledged_by"]
    return ",".join(value) if isinstance(value, list) else value


async def claimed(relay: OutboxStorage) -> dict[EventId, str | None]:
    """What a claim brings, with the names."""
    return {event.event_id: event.acknowledged_by for event in (await relay.claim(10, ANY_BYTES)).events}


@everywhere
async def test_a_failed_event_keeps_the_names_and_the_next_claim_brings_them(
    table: StorageHarness, relay: OutboxStorage
) -> None:
    retried, buried, released, plain = (table.insert() for _ in range(4))
    claim = await relay.claim(10, ANY_BYTES)
    assert {event.acknowledged_by for event in claim.events} == {None}
    settlement = Settlement(
        fence_of(claim),
        retried=[(retried, "LEADER: changed", 0.0)],
        buried=[(buried, "TOO_LARGE: x")],
        released=[released, plain],
        acknowledged={retried: "main", buried: "main,audit", released: "a.b-c_1"},
    )
    assert await relay.settle([settlement]) == [Settled(0, 1, 1, 2)]
    assert names(table, buried) == "main,audit"
    table.advance(1)
    assert await claimed(relay) == {retried: "main", released: "a.b-c_1", plain: None}


@everywhere
async def test_names_stay_until_others_are_written(table: StorageHarness, relay: OutboxStorage) -> None:
    event_id = table.insert()
    for acknowledged, expected in (({event_id: "main"}, "main"), ({}, "main"), ({event_id: "main,b"}, "main,b")):
        fence = fence_of(await relay.claim(1, ANY_BYTES))
        await relay.settle([Settlement(fence, released=[event_id], acknowledged=acknowledged)])
        assert names(table, event_id) == expected
    await relay.claim(1, ANY_BYTES)
    table.advance(LEASE + 1)
    await relay.reap(10)
    table.advance(60)
    assert await claimed(relay) == {event_id: "main,b"}


@pytest.mark.parametrize("table", TABLES, indirect=True)
async def test_a_delivered_event_forgets_them_so_that_a_replay_goes_to_all(
    table: StorageHarness, relay: OutboxStorage
) -> None:
    event_id = table.insert()
    fence = fence_of(await relay.claim(1, ANY_BYTES))
    await relay.settle([Settlement(fence, released=[event_id], acknowledged={event_id: "main"})])
    fence = fence_of(await relay.claim(1, ANY_BYTES))
    await relay.settle([Settlement(fence, delivered=[event_id])])
    assert (table.status(event_id), names(table, event_id)) == ("DELIVERED", None)


@everywhere
async def test_names_are_fenced(table: StorageHarness, relay: OutboxStorage) -> None:
    event_id = table.insert()
    lost = fence_of(await relay.claim(1, ANY_BYTES))
    table.advance(LEASE + 1)
    await relay.reap(10)
    late = Settlement(table.aged(lost, LEASE + 1), released=[event_id], acknowledged={event_id: "main"})
    assert (await relay.settle([late]))[0].total == 0
    assert names(table, event_id) is None


@pytest.mark.parametrize("table", TABLES, indirect=True)
async def test_of_a_type_in_part_only_what_some_destinations_have_is_left_out(
    table: StorageHarness, relay: OutboxStorage
) -> None:
    waiting = table.insert()
    fence = fence_of(await relay.claim(1, ANY_BYTES))
    await relay.settle([Settlement(fence, released=[waiting], acknowledged={waiting: "main"})])
    fresh = table.insert()
    relay.leave_out((), ["test"])
    assert ids(await relay.claim(10, ANY_BYTES)) == [fresh]
    relay.leave_out(())
    assert waiting in ids(await relay.claim(10, ANY_BYTES))


@pytest.mark.postgres
@pytest.mark.parametrize("column", [False, True])
async def test_without_the_column_or_the_right_all_is_as_before_and_that_is_said(
    outbox: Outbox, caplog: pytest.LogCaptureFixture, column: bool
) -> None:
    if column:
        add_extension(outbox.owner_url, TableName(), "fan-out")
    relay = PostgresOutbox(storage_options(outbox.relay_url, "r", fan_out=True))
    with caplog.at_level(logging.WARNING):
        await relay.open()
    assert [vars(record)["action"] for record in caplog.records] == ["fan_out_not_recorded"]
    outbox.insert([Row("t")])
    claim = await relay.claim(10, ANY_BYTES)
    one = claim.events[0].event_id
    await relay.settle([Settlement(fence_of(claim), released=[one], acknowledged={one: "main"})])
    relay.leave_out((), ["t"])
    assert (await relay.claim(10, ANY_BYTES)).events == []
    relay.leave_out(())
    assert [event.acknowledged_by for event in (await relay.claim(10, ANY_BYTES)).events] == [None]
    await relay.close()


@pytest.mark.postgres
def test_check_says_what_is_missing_and_how_to_add_it(outbox: Outbox) -> None:
    def finding(wanted: Level = Level.WARNING) -> tuple[Level, str, str]:
        findings, _ = check_storage(outbox.relay_url, TableName(), 180.0, retention=1.0, fan_out=wanted)
        [one] = [one for one in findings if one.subject == "fan-out"]
        return one.level, one.message, one.advice

    level, message, advice = finding()
    assert (level, message.partition(":")[0]) == (Level.WARNING, "there is no column acknowledged_by")
    assert "while one does not answer the others wait for events of that type" in message
    assert finding(Level.ERROR)[:2] == (Level.ERROR, "there is no column acknowledged_by: KAFKA_TRANSACTIONS needs it")
    assert "relay-cli migrate --table openoutbox_events --with fan-out" in advice
    assert add_extension(outbox.owner_url, TableName(), "fan-out")
    assert not add_extension(outbox.owner_url, TableName(), "fan-out")
    level, message, advice = finding()
    assert (level, "may not write acknowledged_by" in message) == (Level.WARNING, True)
    assert "GRANT UPDATE (acknowledged_by)" in advice
    outbox.database.run(GRANT)
    assert finding()[0] is Level.OK


@pytest.mark.postgres
@pytest.mark.parametrize("key_order", [None, KeyOrder.SKIP])
async def test_the_head_goes_past_what_is_left_out_in_part_and_no_further(
    outbox: Outbox, key_order: KeyOrder | None
) -> None:
    extend(outbox)
    if key_order is not None:
        add_extension(outbox.owner_url, TableName(), "key-order")
    relay = PostgresOutbox(storage_options(outbox.relay_url, "r", key_order=key_order))
    await relay.open()
    outbox.insert([Row("a")] * 20)
    outbox.database.run("UPDATE openoutbox_events SET acknowledged_by = '{main}'")
    outbox.insert([Row("b"), Row("a")])
    age = "UPDATE openoutbox_events SET available_at = NOW() - INTERVAL '1 hour'"
    outbox.database.run(age)

    async def types(most: int = 100) -> list[str]:
        return sorted(event.event_type for event in (await relay.claim(most, ANY_BYTES)).events)

    relay.leave_out((), ["a"])
    await relay.look()
    assert await types() == ["a", "b"]
    relay.leave_out(["a"])
    assert await types() == []
    relay.leave_out(())
    assert len(await types()) == 20
    await relay.close()
