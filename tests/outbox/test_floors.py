"""Claims in order per key beside a held horizon: they step over what was delivered, and the order holds.

What is bounded are the pages that a claim reads, counted by EXPLAIN of the very statement that the relay sends.
"""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any, LiteralString

import psycopg
import pytest

from relay.core.event import Claim
from relay.core.storage import Settlement
from relay.outbox.extensions import add_extension
from relay.outbox.floors import KeyFloors
from relay.outbox.ordered import OrderedClaim
from relay.outbox.outbox_options import KeyOrder
from relay.outbox.span import BEFORE_ALL
from relay.outbox.storage import PostgresOutbox
from relay.postgres.sql import TableName
from tests.outbox.test_plans import kept_plan
from tests.support.fixtures.outbox import Outbox
from tests.support.options import storage_options
from tests.support.waiting import wait_until

DELIVERED = 25_000
LEARNED = 4  # claims of a key until its floor is known
INSERT = """
INSERT INTO openoutbox_events (event_id, event_type, partition_key, payload, available_at, created_at)
SELECT gen_random_uuid(), 't', %(key)s, convert_to(n::text, 'UTF8'), at, at
FROM (
    SELECT n, now() - make_interval(secs => %(age)s - n * 0.00001) AS at
    FROM generate_series(%(first)s::int, %(first)s + %(count)s - 1) AS n
) AS rows
"""
SETTLED = (
    "UPDATE openoutbox_events SET status = 'DELIVERING', locked_by = 'before', locked_at = now()",
    "UPDATE openoutbox_events SET status = 'DELIVERED', locked_by = NULL, locked_at = NULL, delivered_at = now()",
)
REPLAY = """
UPDATE openoutbox_events
SET status = 'PENDING', attempts = 0, last_error = NULL, delivered_at = NULL, available_at = now(), updated_at = now()
WHERE payload = convert_to(%s::text, 'UTF8')
"""

ANY_REPLAY = """
UPDATE openoutbox_events
SET status = 'PENDING', attempts = 0, last_error = NULL, delivered_at = NULL, available_at = now(), updated_at = now()
WHERE event_id = (
    SELECT event_id FROM openoutbox_events
    WHERE partition_key = %s AND status IN ('DELIVERED', 'DEAD') ORDER BY random() LIMIT 1
)
"""
PASSED = """
SELECT passed.insertion_order, claimed.insertion_order
FROM openoutbox_events AS claimed
JOIN openoutbox_events AS passed
  ON passed.partition_key = claimed.partition_key AND passed.insertion_order < claimed.insertion_order
WHERE claimed.event_id = ANY(%s::uuid[]) AND passed.status IN ('PENDING', 'DELIVERING')
  AND passed.event_id <> ALL(%s::uuid[])
"""


def insert(outbox: Outbox, first: int, count: int = 1, key: str = "hot", age: float = 1.0) -> None:
    with outbox.database.connect() as connection:
        connection.execute(INSERT, {"key": key, "age": age, "first": first, "count": count})


@pytest.fixture
def dump(outbox: Outbox) -> Iterator[psycopg.Connection]:
    """A snapshot that is kept open, then the events of a key that are delivered."""
    add_extension(outbox.url, TableName(), "key-order")
    outbox.database.run("ALTER TABLE openoutbox_events SET (autovacuum_enabled = off)")
    with psycopg.connect(outbox.url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT count(*) FROM pg_class")
        insert(outbox, 0, DELIVERED, age=100.0)
        for statement in SETTLED:
            outbox.database.run(statement)
        yield connection


@pytest.fixture
async def storage(outbox: Outbox, dump: psycopg.Connection) -> AsyncIterator[PostgresOutbox]:
    relay = PostgresOutbox(storage_options(outbox.relay_url, "r", key_order=KeyOrder.SKIP))
    await relay.open()
    relay.paused.head.walk_is_cheap = False
    yield relay
    await relay.close()


async def deliver(storage: PostgresOutbox, limit: int = 10) -> list[int]:
    """The next events of a claim."""
    claim = await storage.claim(limit, 2**30)
    if claim.fence is not None:
        settlement = Settlement(claim.fence)
        settlement.delivered.extend(event.event_id for event in claim.events)
        await storage.settle([settlement])
    return [int(event.payload) for event in claim.events]


def settled(outbox: Outbox) -> None:
    """Wait until each transaction that is in progress has ended: other tests have some on the same server."""
    [(unseen_from,)] = outbox.database.run("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
    oldest = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
    wait_until(lambda: outbox.database.run(oldest)[0][0] >= unseen_from, 60, "transactions of others to end")


async def learn(storage: PostgresOutbox, monkeypatch: pytest.MonkeyPatch, outbox: Outbox | None = None) -> None:
    """Claim until the floor of the key is known: what one claim saw counts from the next but two on.

    Without ``outbox`` where a transaction stays open meanwhile.
    """
    monkeypatch.setattr("relay.outbox.floors._DRAWN", 0.0)
    for _ in range(LEARNED):
        if outbox is not None:
            settled(outbox)
        assert await deliver(storage, 1)


@pytest.fixture
def pages(outbox: Outbox, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many pages each statement of a claim reads, carried out before the relay does it."""
    counts: list[int] = []
    execute = OrderedClaim._execute

    async def explain(self: OrderedClaim, connection: Any, sql: LiteralString, values: dict[str, Any]) -> Any:
        with outbox.database.connect() as other:
            plan = kept_plan(other, "ANALYZE, BUFFERS, FORMAT JSON", sql, "ordered", {**self._fixed, **values})[0]
        counts.append(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
        return await execute(self, connection, sql, values)

    monkeypatch.setattr(OrderedClaim, "_execute", explain)
    return counts


async def test_a_claim_reads_as_few_pages_as_with_the_horizon_free(
    outbox: Outbox,
    storage: PostgresOutbox,
    dump: psycopg.Connection,
    pages: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    insert(outbox, DELIVERED, 100)
    await learn(storage, monkeypatch, outbox)
    pages.clear()
    assert len(await deliver(storage)) == 10
    held = sum(pages)
    dump.rollback()
    outbox.database.run("VACUUM ANALYZE openoutbox_events")
    pages.clear()
    assert len(await deliver(storage)) == 10
    assert held <= 3 * sum(pages) + 50


async def test_a_key_that_this_relay_has_never_met_stands_on_the_ground(
    outbox: Outbox, storage: PostgresOutbox, pages: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    insert(outbox, 0, DELIVERED, key="cold", age=90.0)
    for statement in SETTLED:
        outbox.database.run(f"{statement} WHERE partition_key = 'cold'")
    insert(outbox, DELIVERED, 10)
    insert(outbox, 0, key="behind", age=90.0)
    await learn(storage, monkeypatch, outbox)
    pages.clear()
    insert(outbox, DELIVERED, key="cold", age=0.5)
    insert(outbox, 1, key="behind", age=0.5)
    storage.paused.head.place = (time.time() - 30.0, float("-inf"))  # an event of the third key is behind it
    known = await deliver(storage, 20)  # a key that has not been seen yet is in the next claim
    assert sorted([*known, *await deliver(storage, 20)]) == [
        *range(DELIVERED, DELIVERED + 1),
        *range(DELIVERED + LEARNED, DELIVERED + 10),
    ]
    assert sum(pages) < DELIVERED / 10


async def test_the_floors_of_a_claim_cost_no_statement_of_their_own(
    outbox: Outbox, storage: PostgresOutbox, pages: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for one a second; an event of a key that no claim has seen is in the second claim after it."""
    insert(outbox, DELIVERED, 100)
    await learn(storage, monkeypatch, outbox)
    monkeypatch.setattr("relay.outbox.floors._ASK_AGAIN", 1000.0)
    await deliver(storage)
    pages.clear()
    assert len(await deliver(storage)) == 10
    assert len(pages) == 1
    insert(outbox, 0, key="new", age=0.5)
    pages.clear()
    taken = [await deliver(storage, 20) for _ in range(2)]
    assert 0 in taken[0] + taken[1]
    assert len(pages) == 2


async def test_a_replayed_event_goes_first_though_its_key_has_a_floor(
    outbox: Outbox, storage: PostgresOutbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert(outbox, DELIVERED, 400)  # more than a claim looks at
    await learn(storage, monkeypatch, outbox)
    outbox.database.run(REPLAY, ["7"])
    assert await deliver(storage, 3) == [7, DELIVERED + LEARNED, DELIVERED + LEARNED + 1]


async def test_what_waits_for_its_retry_holds_its_key(
    outbox: Outbox, storage: PostgresOutbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert(outbox, DELIVERED, 10)
    await learn(storage, monkeypatch, outbox)
    claim = await storage.claim(1, 2**30)
    assert claim.fence is not None
    failed = Settlement(claim.fence)
    failed.retried.append((claim.events[0].event_id, "t", 60.0))
    await storage.settle([failed])
    for _ in range(3):
        assert await deliver(storage, 1) == []


async def test_an_event_that_commits_late_goes_before_those_inserted_after_its_commit(
    outbox: Outbox, storage: PostgresOutbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = storage.paused.head
    with outbox.database.connect() as connection:
        [(head_at,)] = connection.execute("SELECT date_part('epoch', now()) - 10").fetchall()
        with connection.transaction():
            connection.execute(INSERT, {"key": "hot", "age": 60.0, "first": 1_000_000, "count": 1})
            insert(outbox, DELIVERED, 5)
            await learn(storage, monkeypatch)
        head.place = (head_at, float("-inf"))  # what was late is behind it
        insert(outbox, DELIVERED + 5)
        assert await deliver(storage, 1) == []
        head.place = BEFORE_ALL
        assert await deliver(storage, 1) == [1_000_000]


async def test_without_the_index_of_what_came_back_no_floor_is_used(
    outbox: Outbox, storage: PostgresOutbox, pages: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    insert(outbox, DELIVERED, 10)
    await learn(storage, monkeypatch, outbox)
    outbox.database.run("DROP INDEX idx_openoutbox_order_again")
    await deliver(storage, 1)
    pages.clear()
    assert await deliver(storage, 1) == [DELIVERED + LEARNED + 1]
    assert len(pages) == 1
    assert pages[0] > DELIVERED


async def test_a_key_that_comes_after_the_floors_were_asked_for_is_the_next_claims(
    outbox: Outbox, storage: PostgresOutbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert(outbox, DELIVERED, 2)
    of = KeyFloors.of

    def late(self: KeyFloors, keys: Iterable[int]) -> str:
        monkeypatch.undo()
        insert(outbox, 7, key="late", age=0.5)
        return of(self, keys)

    monkeypatch.setattr(KeyFloors, "of", late)
    assert await deliver(storage) == [DELIVERED, DELIVERED + 1]
    assert await deliver(storage) == [7]


class History:
    """Random steps of applications, an operator and two relays on few keys; no claim may pass an unfinished event."""

    def __init__(self, outbox: Outbox, seed: int) -> None:
        self._outbox = outbox
        self._random = random.Random(seed)
        self._open: list[psycopg.Connection] = []
        self._claims: list[tuple[PostgresOutbox, Claim]] = []
        self.relays: list[PostgresOutbox] = []
        self.claimed = 0

    async def step(self) -> None:
        """One of them."""
        steps = [self.insert, self.begin, self.commit, self.replay, *[self.claim] * 4, *[self.settle] * 5]
        step = self._random.choice(steps)
        if (later := step()) is not None:
            await later

    def insert(self) -> None:
        insert(self._outbox, 0, self._random.randint(1, 6), self._key(), age=self._random.choice([0.0, 1.0, 100.0]))

    def begin(self) -> None:
        """A transaction that inserts and stays open."""
        connection = psycopg.connect(self._outbox.url)
        connection.execute(
            INSERT, {"key": self._key(), "age": self._random.choice([0.0, 50.0]), "first": 0, "count": 1}
        )
        self._open.append(connection)

    def commit(self) -> None:
        if self._open and self._random.random() < 0.5:
            connection = self._open.pop(self._random.randrange(len(self._open)))
            connection.rollback() if self._random.random() < 0.2 else connection.commit()
            connection.close()

    def replay(self) -> None:
        self._outbox.database.run(ANY_REPLAY, [self._key()])

    async def claim(self) -> None:
        relay = self._random.choice(self.relays)
        relay.paused.head.walk_is_cheap = False
        relay.paused.head.place = (self._random.choice([0.0, time.time() - 20.0]), float("-inf"))
        claim = await relay.claim(self._random.randint(1, 4), 2**30)
        if claim.fence is not None:
            ids = [event.event_id for event in claim.events]
            assert self._outbox.database.run(PASSED, [ids, ids]) == []
            self._claims.append((relay, claim))
            self.claimed += len(ids)

    async def settle(self) -> None:
        if not self._claims:
            return
        relay, claim = self._claims.pop(self._random.randrange(len(self._claims)))
        assert claim.fence is not None
        settlement = Settlement(claim.fence)
        for event in claim.events:
            match self._random.choice(["delivered", "delivered", "delivered", "retried", "buried", "released"]):
                case "retried":
                    settlement.retried.append((event.event_id, "t", self._random.choice([0.0, 0.0, 0.1])))
                case "buried":
                    settlement.buried.append((event.event_id, "t"))
                case verdict:
                    getattr(settlement, verdict).append(event.event_id)
        await relay.settle([settlement])

    def _key(self) -> str:
        return f"key-{self._random.randrange(2)}"

    def close(self) -> None:
        for connection in self._open:
            connection.close()


def insert_held(outbox: Outbox, first: int) -> None:
    """One event of each of 400 keys."""
    with outbox.database.connect() as connection:
        values = [{"key": f"held {n}", "age": 0.02, "first": first + n, "count": 1} for n in range(400)]
        connection.cursor().executemany(INSERT, values)


async def test_going_from_key_to_key_rests_and_claims_look_further_meanwhile(
    outbox: Outbox, storage: PostgresOutbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a held horizon it reads all dead entries, and all that is oldest waits for events that are in flight."""
    monkeypatch.setattr("relay.outbox.ordered._LONG_WALK", -1.0)
    monkeypatch.setattr("relay.outbox.ordered._REST", 1e6)
    walks = []
    walked = OrderedClaim._walked

    async def counted(*arguments: Any) -> Any:
        walks.append(arguments)
        return await walked(*arguments)

    monkeypatch.setattr(OrderedClaim, "_walked", counted)
    insert_held(outbox, 0)
    assert sum([len((await storage.claim(400, 2**30)).events) for _ in range(4)]) == 400
    insert_held(outbox, 1000)
    brought = 0
    for number in range(2):
        insert(outbox, number, key=f"free {number}", age=0.01)
        brought += sum([len((await storage.claim(10, 2**30)).events) for _ in range(8)])
    assert (brought, len(walks)) == (2, 1)


@pytest.mark.parametrize("seed", range(3))
async def test_no_claim_passes_an_unfinished_event_of_its_key(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr("relay.outbox.floors._DRAWN", 0.0)
    add_extension(outbox.url, TableName(), "key-order")
    history = History(outbox, seed)
    for name in ("a", "b"):
        relay = PostgresOutbox(storage_options(outbox.relay_url, name, key_order=KeyOrder.SKIP))
        await relay.open()
        history.relays.append(relay)
    try:
        for _ in range(400):
            await history.step()
        assert history.claimed > 50
    finally:
        history.close()
        for relay in history.relays:
            await relay.close()


# What is known of a key.
