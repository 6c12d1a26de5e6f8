"""Several claims in one transaction: what each of them takes, and what they take together."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from relay.core.errors import StorageError
from relay.core.event import Claim, EventId
from relay.core.ports import Settled, Settlement
from relay.outbox.extensions import add_extension
from relay.outbox.options import KeyOrder
from relay.outbox.storage import PostgresOutbox
from relay.postgres.connect import Connection
from relay.postgres.prepared import Preparation
from relay.postgres.sql import TableName
from tests.support.fixtures.outbox import Outbox, Row, through
from tests.support.options import storage_options

_SETTINGS = ("plan_cache_mode", "enable_seqscan", "enable_sort", "jit", "openoutbox.claimed_bytes")
_CURRENT = "SELECT " + ", ".join(f"CURRENT_SETTING('{name}', TRUE)" for name in _SETTINGS)
_PLANS = """
SELECT generic_plans > 0, custom_plans FROM pg_prepared_statements WHERE statement LIKE '%claimed_bytes%'
"""
_ON_ITS_LAST_ATTEMPT = """
UPDATE openoutbox_events SET attempts = 24, last_error = 'LEASE_EXPIRED: it ran out' WHERE event_type = 'last'
"""
_REFUSE = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not this one'; END $$;
CREATE TRIGGER refuse BEFORE UPDATE ON openoutbox_events FOR EACH ROW
WHEN (NEW.status = 'DELIVERING' AND NEW.event_type = 'bad') EXECUTE FUNCTION refuse()
"""
ANY_BYTES = 1 << 40


async def opened(outbox: Outbox, relay_id: str = "relay", **changes: Any) -> PostgresOutbox:
    storage = PostgresOutbox(storage_options(outbox.relay_url, relay_id, **changes))
    await storage.open()
    return storage


def ids(claim: Claim) -> list[EventId]:
    return [event.event_id for event in claim.events]


async def deliver(storage: PostgresOutbox, claim: Claim) -> None:
    assert claim.fence is not None
    delivered = ids(claim)
    [settled] = await storage.settle([Settlement(claim.fence, delivered=delivered)])
    assert settled == Settled(delivered=len(delivered))


async def asked(storage: PostgresOutbox, sql: Any) -> list[tuple[Any, ...]]:
    async def work(session: Connection) -> list[tuple[Any, ...]]:
        return await (await session.execute(sql)).fetchall()

    return await storage._claiming.run("asking", work)


@pytest.mark.parametrize("preparation", [Preparation.AUTO, Preparation.OFF])
@pytest.mark.parametrize("pooled", [False, True], ids=["direct", "pooled"])
async def test_each_takes_the_next_rows_under_one_fence(
    outbox: Outbox, pgbouncer: str, preparation: Preparation, *, pooled: bool
) -> None:
    inserted = [outbox.insert([Row("topic")])[0] for _ in range(70)]
    storage = await opened(through(outbox, pgbouncer) if pooled else outbox, prepared=preparation)
    for first in (0, 30):
        claim = await storage.claim(10, ANY_BYTES, times=3)
        assert ids(claim) == inserted[first : first + 30]
        await deliver(storage, claim)
    assert ids(await storage.claim(10, ANY_BYTES, times=3)) == inserted[60:]
    assert (await storage.claim(10, ANY_BYTES, times=3)).events == []
    assert outbox.rows("count(DISTINCT locked_at)") == [(1,)]
    await storage.close()
    outbox.check_invariants()


async def test_rows_of_one_time_are_each_claimed_once(outbox: Outbox) -> None:
    outbox.fill("topic", 500)
    storage = await opened(outbox)
    seen: list[EventId] = []
    while (claim := await storage.claim(40, ANY_BYTES, times=3)).events:
        assert len(claim.events) in (120, 20)
        seen += ids(claim)
        await deliver(storage, claim)
    await storage.close()
    assert len(seen) == len(set(seen)) == 500


async def test_the_bytes_of_all_of_them_are_bounded_and_a_larger_row_goes_alone(outbox: Outbox) -> None:
    small = [outbox.insert([Row("topic", b"x" * 300)])[0] for _ in range(9)]
    [large] = outbox.insert([Row("topic", b"x" * 5000)])
    last = [outbox.insert([Row("topic", b"x" * 300)])[0] for _ in range(3)]
    storage = await opened(outbox)
    claims = []
    while (claim := await storage.claim(2, 2000, times=4)).events:
        claims.append(ids(claim))
    await storage.close()
    assert claims == [small[:6], small[6:], [large], last]


async def test_more_than_a_reply_carries_is_for_the_next_round_trip(outbox: Outbox) -> None:
    """So that the transaction commits although its client does not read."""
    outbox.insert([Row("topic", b"x" * 20_000)] * 20)
    storage = await opened(outbox)
    most = storage._claims._appetite.inline_bytes
    claim = await storage.claim(2, ANY_BYTES, times=8)
    assert sum(event.size for event in claim.events) <= most
    assert len(claim.events) == 4
    assert len((await storage.claim(10, ANY_BYTES, times=2)).events) == 10, "the first alone is more"
    await storage.close()


async def test_an_event_that_may_kill_its_relay_is_claimed_alone(outbox: Outbox) -> None:
    before = [outbox.insert([Row("topic")])[0] for _ in range(3)]
    [last] = outbox.insert([Row("last")])
    outbox.insert([Row("topic")] * 10)
    outbox.database.run(_ON_ITS_LAST_ATTEMPT)
    storage = await opened(outbox)
    claims = [ids(await storage.claim(2, ANY_BYTES, times=4)) for _ in range(2)]
    await storage.close()
    assert claims == [before, [last]]


@pytest.mark.parametrize("prepared", [Preparation.AUTO, Preparation.OFF])
async def test_two_relays_beside_each_other_claim_no_event_twice(outbox: Outbox, prepared: Preparation) -> None:
    outbox.fill("topic", 3000)
    claimed: list[EventId] = []

    async def work(relay_id: str) -> None:
        storage = await opened(outbox, relay_id, prepared=prepared)
        while (claim := await storage.claim(50, ANY_BYTES, times=4)).events:
            claimed.extend(ids(claim))
            await deliver(storage, claim)
        await storage.close()

    await asyncio.gather(work("one"), work("other"))
    assert len(claimed) == len(set(claimed)) == 3000


async def test_one_that_fails_takes_nothing(outbox: Outbox) -> None:
    outbox.insert([Row("topic")] * 15 + [Row("bad")])
    outbox.database.run(_REFUSE)
    storage = await opened(outbox)
    with pytest.raises(StorageError) as raised:
        await storage.claim(8, ANY_BYTES, times=2)
    assert raised.value.may_blame_row
    assert raised.value.event_id is None
    assert outbox.counts() == {"PENDING": 16}
    assert len((await storage.claim(8, ANY_BYTES)).events) == 8
    await storage.close()


@pytest.mark.session
async def test_they_keep_one_plan_and_leave_the_session_as_it_was(outbox: Outbox) -> None:
    outbox.insert([Row("topic")] * 60)
    storage = await opened(outbox)
    before = await asked(storage, _CURRENT)
    for _ in range(2):
        assert len((await storage.claim(10, ANY_BYTES, times=3)).events) == 30
    assert [row[:4] for row in await asked(storage, _CURRENT)] == [row[:4] for row in before]
    assert await asked(storage, "SELECT COALESCE(CURRENT_SETTING('openoutbox.claimed_bytes', TRUE), '')") == [("",)]
    assert await asked(storage, _PLANS) == [(True, 0)]
    await storage.close()


async def test_in_order_per_key_there_is_one(outbox: Outbox) -> None:
    add_extension(outbox.url, TableName(), "key-order")
    outbox.fill("topic", 100)
    storage = await opened(outbox, key_order=KeyOrder.SKIP)
    assert len((await storage.claim(10, ANY_BYTES, times=3)).events) == 10
    await storage.close()
