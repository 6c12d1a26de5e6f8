"""Every outbox counts and ages what waits, and what was delivered, alike: in memory, and in a real PostgreSQL."""

from __future__ import annotations

from relay.core.storage import Backlog, Settlement
from tests.outbox.harness import StorageHarness
from tests.outbox.test_conformance import claim_one


async def test_the_backlog_counts_and_ages_what_waits(table: StorageHarness) -> None:
    relay = table.relay()
    assert await relay.backlog() == Backlog(0, 0, 0.0, 0.0, 0)
    assert await relay.oldest_due_age() == 0.0
    dead, fence = await claim_one(table, relay)
    await relay.settle([Settlement(fence, buried=[(dead, "e")])])
    await claim_one(table, relay)
    table.insert(due_in=1000)
    table.advance(50)
    table.insert()
    table.insert(attempts=3)
    table.advance(20)
    backlog = await relay.backlog()
    assert (backlog.pending_new, backlog.pending_retrying, backlog.dead) == (2, 1, 1)
    assert 70 <= backlog.oldest_age < 100
    assert 20 <= backlog.oldest_due_age < 50
    assert 20 <= await relay.oldest_due_age() < 50


async def test_the_oldest_delivery_is_aged(table: StorageHarness) -> None:
    relay = table.relay()
    assert (await relay.upkeep()).oldest_delivered_age == 0.0
    for _ in range(2):
        event_id, fence = await claim_one(table, relay)
        await relay.settle([Settlement(fence, delivered=[event_id])])
        table.advance(50)
    age = (await relay.upkeep()).oldest_delivered_age
    assert age is not None
    assert 100 <= age < 130
