"""Claims beside pauses: paused rows stay, the others are claimed, and none is passed over whatever its place."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime

import pytest

from relay.core.pause import EVERYTHING, Pause, PauseScope, PauseTarget
from relay.outbox.extensions import add_extension
from relay.outbox.outbox_options import KeyOrder
from relay.outbox.storage import PostgresOutbox
from relay.postgres.sql import TableName
from tests.support.fixtures.outbox import Outbox
from tests.support.options import storage_options

pytestmark = pytest.mark.postgres

ONLY_A = PauseTarget(PauseScope.TYPE, "a")
INSERT = """
INSERT INTO openoutbox_events (event_id, event_type, payload, partition_key, available_at, created_at)
SELECT gen_random_uuid(), %s, '', %s, at, at
FROM (
    SELECT now() - make_interval(secs => %s) - n * make_interval(secs => %s) AS at FROM generate_series(1, %s) AS n
) AS place
"""


@pytest.fixture
async def storage(outbox: Outbox) -> AsyncIterator[PostgresOutbox]:
    relay = PostgresOutbox(storage_options(outbox.relay_url, "r"))
    yield relay
    await relay.close()


@pytest.fixture
async def in_order(outbox: Outbox) -> AsyncIterator[PostgresOutbox]:
    add_extension(outbox.url, TableName(), "key-order")
    relay = PostgresOutbox(storage_options(outbox.relay_url, "r", key_order=KeyOrder.SKIP))
    yield relay
    await relay.close()


def insert(
    outbox: Outbox, event_type: str, count: int = 1, *, age: float = 60.0, apart: float = 0.001, key: str | None = None
) -> None:
    """Insert due events, the youngest ``age`` seconds old; with ``apart`` 0 all at one place."""
    with outbox.database.connect() as connection:
        connection.execute(INSERT, (event_type, key, age, apart, count))


def hold(storage: PostgresOutbox, *targets: PauseTarget) -> None:
    now = datetime.now(UTC)
    storage.paused.set([Pause(target, None, "ann", "", now) for target in targets])


async def claim(storage: PostgresOutbox, limit: int = 100, excluded: Sequence[str] = ()) -> list[str]:
    return [event.event_type for event in (await storage.claim(limit, 2**30, (), excluded)).events]


async def look(storage: PostgresOutbox) -> None:
    await storage.look()


async def test_paused_types_stay_and_the_others_are_claimed(outbox: Outbox, storage: PostgresOutbox) -> None:
    for event_type in ("a", "a.b", "b", "50%"):
        insert(outbox, event_type)
    hold(storage, ONLY_A, PauseTarget(PauseScope.TYPE, "50%"))
    assert sorted(await claim(storage)) == ["a.b", "b"]
    hold(storage, PauseTarget(PauseScope.PREFIX, "5"))
    assert await claim(storage) == ["a"]
    hold(storage)
    assert await claim(storage) == ["50%"]


async def test_with_the_whole_outbox_paused_nothing_is_claimed(outbox: Outbox, storage: PostgresOutbox) -> None:
    insert(outbox, "a")
    hold(storage, EVERYTHING, ONLY_A)
    assert await claim(storage) == []
    hold(storage, ONLY_A)
    insert(outbox, "b")
    assert await claim(storage) == ["b"]


async def test_a_paused_event_holds_back_its_key_and_no_other(outbox: Outbox, in_order: PostgresOutbox) -> None:
    insert(outbox, "b", key="one")
    insert(outbox, "a", key="one")
    insert(outbox, "b", key="one")
    insert(outbox, "b", key="two")
    insert(outbox, "a")
    insert(outbox, "b")
    hold(in_order, ONLY_A)
    assert len(await claim(in_order)) == 3
    assert await claim(in_order) == []
    assert outbox.database.run("SELECT event_type FROM openoutbox_events WHERE status = 'PENDING' ORDER BY 1") == [
        ("a",),
        ("a",),
        ("b",),
    ]
    outbox.database.run("UPDATE openoutbox_events SET status = 'DELIVERED' WHERE status = 'DELIVERING'")
    hold(in_order)
    assert sorted(await claim(in_order)) == ["a", "a", "b"]


async def test_in_order_a_claim_goes_past_more_paused_rows_than_it_looks_at(
    outbox: Outbox, in_order: PostgresOutbox
) -> None:
    insert(outbox, "a", 3000, key="one")
    insert(outbox, "b", 2, age=30.0, key="two")
    insert(outbox, "b", age=30.0)
    hold(in_order, ONLY_A)
    claimed: list[str] = []
    for _ in range(20):  # each from a random key on
        claimed += await claim(in_order)
    assert claimed == ["b", "b", "b"]
    insert(outbox, "b", 2, age=30.0, key="three")
    await look(in_order)
    assert await claim(in_order) == ["b", "b"]


async def test_a_claim_that_leaves_rows_out_does_not_move_the_head(outbox: Outbox, storage: PostgresOutbox) -> None:
    insert(outbox, "slow", age=90.0)
    insert(outbox, "b", 2)
    hold(storage, ONLY_A)
    assert await claim(storage, 10, ["slow"]) == ["b", "b"]
    assert await claim(storage) == ["slow"]


async def test_types_whose_destinations_are_away_stay_and_are_late(outbox: Outbox, storage: PostgresOutbox) -> None:
    insert(outbox, "a", age=900.0)
    insert(outbox, "50%", age=600.0)
    insert(outbox, "500", age=10.0)
    hold(storage, ONLY_A)
    storage.leave_out(["50%"])
    for _ in range(2):
        assert 590 < (await storage.backlog()).oldest_due_age < 800
        assert 590 < await storage.oldest_due_age() < 800
        await look(storage)
    assert await claim(storage) == ["500"]
    storage.leave_out([])
    assert await claim(storage) == ["50%"]


async def test_in_order_a_type_that_is_away_holds_back_its_keys(outbox: Outbox, in_order: PostgresOutbox) -> None:
    insert(outbox, "b", key="one")
    insert(outbox, "a", key="one")
    insert(outbox, "b", key="one")
    insert(outbox, "b", key="two")
    in_order.leave_out(["a"])
    assert await claim(in_order) == ["b", "b"]
    outbox.database.run("UPDATE openoutbox_events SET status = 'DELIVERED' WHERE status = 'DELIVERING'")
    assert await claim(in_order) == []
    in_order.leave_out([])
    assert await claim(in_order) == ["a", "b"]


async def test_paused_rows_count_and_are_not_late(outbox: Outbox, storage: PostgresOutbox) -> None:
    insert(outbox, "a", age=600.0)
    insert(outbox, "b", age=10.0)
    hold(storage, ONLY_A)
    for _ in range(2):
        backlog = await storage.backlog()
        assert backlog.pending_new == 2
        assert backlog.oldest_age > 590
        assert 9 < backlog.oldest_due_age < 60
        assert 9 < await storage.oldest_due_age() < 60
        await look(storage)
    hold(storage, EVERYTHING)
    assert await storage.oldest_due_age() == 0.0


async def test_pauses_are_known_before_the_first_claim(outbox: Outbox) -> None:
    insert(outbox, "a")
    add_extension(outbox.owner_url, TableName(), "pause")
    outbox.database.run("INSERT INTO openoutbox_pauses (scope, name, paused_by) VALUES ('type', 'a', 'ann')")
    for granted, types in ((False, ["a"]), (True, [])):
        if granted:
            outbox.database.run("GRANT SELECT ON openoutbox_pauses TO openoutbox_relay")
            insert(outbox, "a")
        relay = PostgresOutbox(storage_options(outbox.relay_url, "r"))
        await relay.open()
        assert await claim(relay) == types
        await relay.close()


def test_pattern_and_holds_agree(outbox: Outbox) -> None:
    names = ["a", "a.b", "A", "50%", "50x", "a_b", "aXb", "back\\slash", ""]
    targets = [
        EVERYTHING,
        *(PauseTarget(scope, name) for scope in (PauseScope.TYPE, PauseScope.PREFIX) for name in names),
    ]
    for target in targets:
        with outbox.database.connect() as connection:
            rows = connection.execute("SELECT name LIKE %s FROM unnest(%s::text[]) AS name", (target.pattern, names))
            assert [row[0] for row in rows] == [target.holds(name) for name in names], target
