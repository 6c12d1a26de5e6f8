"""With ON_DELIVERED=delete a delivery deletes its own row, and nothing else."""

from __future__ import annotations

import pytest

from relay.core.storage import Reaped, Settled, Settlement
from tests.outbox.harness import DELETED, DELETING, LEASE, StorageHarness
from tests.outbox.test_conformance import ANY_BYTES, claim_one, fence_of, ids

pytestmark = pytest.mark.parametrize("table", DELETING, indirect=True)


async def test_an_acknowledged_event_is_deleted(table: StorageHarness) -> None:
    relay = table.relay()
    await relay.open()
    event_id, fence = await claim_one(table, relay, attempts=2)
    other = table.insert()
    assert await relay.settle([Settlement(fence, delivered=[event_id])]) == [Settled(delivered=1)]
    assert table.status(event_id) == DELETED
    assert await relay.settle([Settlement(fence, delivered=[event_id])]) == [Settled()]
    assert ids(await relay.claim(10, ANY_BYTES)) == [other]


async def test_what_another_relay_delivered_and_kept_is_not_deleted(table: StorageHarness) -> None:
    table.delete_delivered = False
    keeper = table.relay()
    table.delete_delivered = True
    deleter = table.relay()
    event_id, fence = await claim_one(table, keeper)
    assert await keeper.settle([Settlement(fence, delivered=[event_id])]) == [Settled(delivered=1)]
    assert await deleter.settle([Settlement(fence, delivered=[event_id])]) == [Settled()]
    assert table.status(event_id) == "DELIVERED"


async def test_a_late_delivery_of_a_reclaimed_event_deletes_nothing(table: StorageHarness) -> None:
    relay, reaper = table.relay(), table.relay("relay-b")
    event_id, fence = await claim_one(table, relay)
    table.advance(LEASE + 1)
    assert await reaper.reap(10) == Reaped(1, 0)
    late = Settlement(table.aged(fence, LEASE + 1), delivered=[event_id])
    assert await relay.settle([late]) == [Settled()]
    assert table.status(event_id) == "PENDING"
    table.advance(100)
    again = await reaper.claim(1, ANY_BYTES)
    assert ids(again) == [event_id]
    assert await reaper.settle([Settlement(fence_of(again), delivered=[event_id])]) == [Settled(delivered=1)]
    assert table.status(event_id) == DELETED
