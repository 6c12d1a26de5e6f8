"""Claims of rows that share one place in the order, as those of one INSERT do, on a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import chain

import psycopg
import pytest

from relay.core.event import EventId
from relay.outbox.outbox_options import PostgresOptions
from relay.outbox.span import BEFORE_ALL
from relay.outbox.storage import PostgresOutbox
from tests.support.clock import Clock
from tests.support.fixtures.outbox import Outbox
from tests.support.options import storage_options
from tests.support.waiting import wait_until

pytestmark = pytest.mark.postgres

INSERT = """
INSERT INTO openoutbox_events (event_id, event_type, payload, available_at, created_at)
SELECT gen_random_uuid(), 'type-' || n %% 2, repeat('a', %(bytes)s)::bytea, at, at
FROM generate_series(0, %(count)s - 1) AS n, (SELECT now() - INTERVAL '60 s' AS at) AS place
"""
READ = """
SELECT idx_scan, idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'idx_openoutbox_processing_queue'
"""


def insert(outbox: Outbox, count: int, size: int = 10) -> None:
    with outbox.database.connect() as connection:
        if size > 10:
            connection.execute("ALTER TABLE openoutbox_events ALTER COLUMN payload SET STORAGE PLAIN")
        connection.execute(INSERT, {"count": count, "bytes": size})


def options(outbox: Outbox, relay: str) -> PostgresOptions:
    return storage_options(outbox.relay_url, relay)


@pytest.fixture
async def storage(outbox: Outbox) -> AsyncIterator[PostgresOutbox]:
    """A relay whose claims begin at the head, and walk over a tie when its clock is moved."""
    relay = PostgresOutbox(options(outbox, "r"))
    await relay.open()
    relay.paused.head.walk_is_cheap = False
    relay.paused.head.place = BEFORE_ALL
    relay.paused.head._clock = Clock()
    yield relay
    await relay.close()


async def claim(storage: PostgresOutbox, limit: int = 100) -> list[EventId]:
    return [event.event_id for event in (await storage.claim(limit, 2**30)).events]


async def test_two_relays_claim_each_row_once_and_step_over_few_dead_entries(outbox: Outbox) -> None:
    with outbox.database.connect() as owner, psycopg.connect(outbox.url) as dump:
        dump.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        dump.execute("SELECT 1 FROM openoutbox_events")
        insert(outbox, 20_000)
        relays = [PostgresOutbox(options(outbox, name)) for name in ("one", "two")]
        for relay in relays:
            await relay.open()
            relay.paused.head.walk_is_cheap = False
            relay.paused.head.place = BEFORE_ALL
        owner.execute("SELECT pg_stat_reset()")

        async def drain(relay: PostgresOutbox) -> list[EventId]:
            claimed: list[EventId] = []
            while batch := await claim(relay):
                claimed += batch
            return claimed

        claimed = [*chain(*await asyncio.gather(*map(drain, relays)))]
        for relay in relays:
            await relay.close()
        assert (len(claimed), len(set(claimed))) == (20_000, 20_000)

        def entries_read() -> int:
            [(scans, entries)] = owner.execute(READ)
            return entries if scans else 0

        wait_until(entries_read, what="the statistics of the claims")
        # Each claim from the first entry on would read half of them on average: 2,000,000.
        assert entries_read() < 600_000
        dump.rollback()


@pytest.mark.parametrize("size", [10, 3000], ids=["50 rows a page", "2 rows a page"])
async def test_a_row_that_was_locked_amid_a_tie_comes_with_the_next_walk(
    outbox: Outbox, storage: PostgresOutbox, size: int
) -> None:
    insert(outbox, 500, size)
    with outbox.database.connect() as connection, connection.transaction():
        query = "SELECT event_id::text FROM openoutbox_events ORDER BY ctid LIMIT 1 FOR UPDATE"
        [(locked,)] = connection.execute(query)
        batches = [await claim(storage), await claim(storage)]
    batches.append(await claim(storage))
    assert storage.paused.head.in_tie
    assert [locked in batch for batch in batches] == [False] * 3
    storage.paused.head._clock.now += 2.0  # type: ignore[attr-defined]
    batch = await claim(storage)
    assert (len(batch), locked in batch) == (100, True)
    rest = await claim(storage) + await claim(storage) + await claim(storage)
    assert len({*chain(*batches), *batch, *rest}) == 500
    assert not storage.paused.head.in_tie


async def test_the_rest_of_a_tie_that_lies_far_away_in_the_table_is_found(
    outbox: Outbox, storage: PostgresOutbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay.outbox.claiming._TIE_PAGES", 1)
    insert(outbox, 300, 3000)
    batches = []
    while batch := await claim(storage):
        batches.append(batch)
    assert ([len(batch) for batch in batches], len({*chain(*batches)})) == ([100] * 3, 300)


async def test_what_was_left_out_amid_a_tie_is_claimed_when_it_returns(outbox: Outbox, storage: PostgresOutbox) -> None:
    insert(outbox, 500)
    storage.leave_out(["type-1"])
    assert len(await claim(storage)) == len(await claim(storage)) == 100
    assert storage.paused.head.in_tie
    storage.leave_out([])
    rows = [row for _ in range(3) for row in await claim(storage)]
    assert len(set(rows)) == 300


async def test_a_trigger_of_the_application_is_planned_as_ever(outbox: Outbox, storage: PostgresOutbox) -> None:
    with outbox.database.connect() as owner:
        owner.execute("CREATE TABLE seen (settings text)")
        owner.execute("GRANT INSERT ON seen TO PUBLIC")
        owner.execute("""
            CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                INSERT INTO seen VALUES (concat_ws(' ', current_setting('enable_indexscan'),
                    current_setting('enable_bitmapscan'), current_setting('enable_seqscan')));
                RETURN NEW;
            END $$""")
        owner.execute("CREATE TRIGGER note BEFORE UPDATE ON openoutbox_events FOR EACH ROW EXECUTE FUNCTION note()")
        insert(outbox, 300)
        while await claim(storage):
            pass
        assert owner.execute("SELECT DISTINCT settings FROM seen").fetchall() == [("on on on",)]
