"""Rows that appear behind the head of claims, on a real server: each is claimed, and does not move the head."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from relay.core.event import Claim
from relay.core.storage import Settlement
from relay.outbox.extensions import add_extension
from relay.outbox.outbox_options import KeyOrder
from relay.outbox.storage import PostgresOutbox
from relay.postgres.sql import TableName
from tests.support.fixtures.outbox import Outbox
from tests.support.options import storage_options
from tests.support.waiting import pace_async, patience

pytestmark = pytest.mark.postgres

INSERT = """
INSERT INTO openoutbox_events (event_id, event_type, payload, partition_key, available_at, created_at)
SELECT gen_random_uuid(), %(type)s, '', %(key)s, at, at
FROM (
    SELECT now() - make_interval(secs => %(age)s + n * %(apart)s) AS at FROM generate_series(0, %(count)s - 1) AS n
) AS rows
"""


@pytest.fixture(params=[None, KeyOrder.SKIP], ids=["none", "key"])
async def storage(outbox: Outbox, request: pytest.FixtureRequest) -> AsyncIterator[PostgresOutbox]:
    if request.param:
        add_extension(outbox.url, TableName(), "key-order")
    relay = PostgresOutbox(storage_options(outbox.relay_url, "r", key_order=request.param))
    await relay.open()
    yield relay
    await relay.close()


def insert(outbox: Outbox, count: int = 1, age: float = 60.0, apart: float = 0.001, name: str = "a") -> None:
    with outbox.database.connect() as connection:
        values = {"type": name, "key": None, "age": age, "apart": apart, "count": count}
        connection.execute(INSERT, values)


async def claim(storage: PostgresOutbox, limit: int = 100) -> Claim:
    return await storage.claim(limit, 2**30)


async def types(storage: PostgresOutbox, limit: int = 100) -> list[str]:
    return [event.event_type for event in (await claim(storage, limit)).events]


async def found(storage: PostgresOutbox, count: int = 1) -> list[str]:
    """What claims bring while looks go on."""
    events: list[str] = []
    async with asyncio.timeout(patience(10.0)):
        while len(events) < count:
            rest = await storage.look()
            events += await types(storage)
            await pace_async(min(rest.seconds, 0.05))  # as the relay rests between two looks
    return events


async def put_in_force(outbox: Outbox, storage: PostgresOutbox, *, age: float = 5.0) -> None:
    """Claim rows up to that age, and let walks from the oldest entry on be dear."""
    storage.paused.head.walk_is_cheap = True
    insert(outbox, 3, age=age, name="before")
    assert await types(storage) == ["before"] * 3
    head = storage.paused.head
    insert(outbox, 1, age=age - 1.0, name="ahead")
    head.walk_is_cheap = False
    [(reached,)] = outbox.database.run(f"SELECT date_part('epoch', now()) - {age}")
    head.place = (reached, float("-inf"))
    storage.paused.looks._walk_at = float("inf")  # only rounds


@pytest.mark.parametrize("age", [8.0, 100.0, 100_000.0])
async def test_a_row_that_appears_behind_the_head_is_claimed_after_a_round(
    outbox: Outbox, storage: PostgresOutbox, age: float
) -> None:
    await put_in_force(outbox, storage)
    insert(outbox, age=age, name="behind")
    assert await types(storage, 1) == ["ahead"]
    assert await types(storage) == []
    assert await found(storage) == ["behind"]
    place = storage.paused.head.place
    assert await types(storage) == []
    assert storage.paused.head.place == place, "a straggler does not move the head"


async def test_a_locked_row_that_claims_went_past_is_claimed_once_it_is_free(
    outbox: Outbox, storage: PostgresOutbox
) -> None:
    await put_in_force(outbox, storage, age=60.0)
    insert(outbox, age=50.0, name="locked")
    with outbox.database.connect() as connection, connection.transaction():
        connection.execute("SELECT 1 FROM openoutbox_events WHERE event_type = 'locked' FOR UPDATE")
        assert await types(storage) == ["ahead"]
        head = storage.paused.head
        head.place = (head.place[0] + 55.0, float("-inf"))
        await storage.look()
        assert await types(storage) == []
    assert await found(storage) == ["locked"]


@pytest.mark.parametrize("storage", [KeyOrder.SKIP], ids=["key"], indirect=True)
async def test_a_claim_in_order_does_not_move_the_head_past_a_locked_row(
    outbox: Outbox, storage: PostgresOutbox
) -> None:
    await put_in_force(outbox, storage, age=60.0)
    insert(outbox, age=59.5, name="locked")
    with outbox.database.connect() as connection, connection.transaction():
        [(due,)] = connection.execute(
            "SELECT date_part('epoch', available_at) FROM openoutbox_events WHERE event_type = 'locked' FOR UPDATE"
        ).fetchall()
        assert await types(storage) == ["ahead"]
        assert storage.paused.head.place <= (due, due)


async def test_a_released_row_is_claimed_at_once(outbox: Outbox, storage: PostgresOutbox) -> None:
    await put_in_force(outbox, storage)
    insert(outbox, age=30.0, name="behind")
    storage.paused.head.place = (storage.paused.head.place[0] - 100.0, float("-inf"))
    claimed = await claim(storage)
    assert len(claimed.events) == 2
    storage.paused.head.place = (storage.paused.head.place[0] + 100.0, float("-inf"))
    assert claimed.fence is not None
    settlement = Settlement(claimed.fence)
    settlement.released.extend(event.event_id for event in claimed.events)
    await storage.settle([settlement])
    assert sorted([*await types(storage), *await types(storage)]) == ["ahead", "behind"]


async def test_a_row_of_a_transaction_that_was_open_for_longer_than_the_margin(
    outbox: Outbox, storage: PostgresOutbox
) -> None:
    await put_in_force(outbox, storage)
    with outbox.database.connect() as connection:
        with connection.transaction():
            connection.execute(INSERT, {"type": "late", "key": None, "age": 6.0, "apart": 0, "count": 1})
            assert await types(storage) == ["ahead"]
        assert await found(storage) == ["late"]


async def test_a_rescheduled_row_and_a_replayed_one_are_claimed(outbox: Outbox, storage: PostgresOutbox) -> None:
    await put_in_force(outbox, storage)
    assert await types(storage) == ["ahead"]
    outbox.database.run(
        "UPDATE openoutbox_events SET status = 'PENDING', locked_by = NULL, locked_at = NULL, available_at = NOW() "
        "WHERE event_type = 'ahead'"
    )
    assert await types(storage) == ["ahead"]
    insert(outbox, age=-3600.0, name="scheduled")
    assert await types(storage) == []
    outbox.database.run(
        "UPDATE openoutbox_events SET available_at = NOW() - INTERVAL '1 day' WHERE event_type = 'scheduled'"
    )
    assert await found(storage) == ["scheduled"]


async def test_more_rows_than_a_claim_takes_come_from_behind_the_head(outbox: Outbox, storage: PostgresOutbox) -> None:
    await put_in_force(outbox, storage)
    insert(outbox, 3000, age=100.0, apart=0.5, name="behind")
    assert len(await found(storage, 3001)) == 3001


async def test_a_relay_that_starts_begins_at_the_oldest_row(outbox: Outbox) -> None:
    insert(outbox, 5, age=1000.0)
    relay = PostgresOutbox(storage_options(outbox.relay_url, "r"))
    await relay.open()
    assert await types(relay) == ["a"] * 5
    await relay.close()


@pytest.mark.parametrize("storage", [KeyOrder.SKIP], ids=["key"], indirect=True)
async def test_the_oldest_rows_behind_the_head_wait_behind_rows_of_their_keys_that_come_later(
    outbox: Outbox, storage: PostgresOutbox
) -> None:
    """As where the first row of each key has failed, and is due again."""
    await put_in_force(outbox, storage)
    assert await types(storage) == ["ahead"]
    with outbox.database.connect() as connection:
        connection.execute(
            "INSERT INTO openoutbox_events (event_id, event_type, payload, partition_key, available_at, created_at) "
            "SELECT gen_random_uuid(), 'behind', '', 'key-' || n % 20, at, at "
            "FROM generate_series(0, 799) AS n, (SELECT now() - interval '30 s' AS at) AS one"
        )
        firsts = (
            "insertion_order < 20 + (SELECT MIN(insertion_order) FROM openoutbox_events WHERE event_type = 'behind')"
        )
        connection.execute(f"UPDATE openoutbox_events SET available_at = now() - interval '20 s' WHERE {firsts}")
    assert set(await found(storage, 100)) == {"behind"}
