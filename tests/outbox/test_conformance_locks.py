"""A row that another session has locked is skipped and reported: nothing waits (docs/design/guarantees.md#failures)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from relay.core.event import EventId, Fence
from relay.core.storage import OutboxStorage, Reaped, Renewal, Settled, Settlement
from tests.outbox.harness import LEASE, StorageHarness, both_modes

ANY_BYTES = 1 << 40


async def claim(table: StorageHarness, relay: OutboxStorage, count: int) -> tuple[list[EventId], Fence]:
    inserted = [table.insert() for _ in range(count)]
    fence, events, *_ = await relay.claim(count, ANY_BYTES)
    assert fence is not None
    assert [event.event_id for event in events] == inserted
    return inserted, fence


def verdict(kind: str, fence: Fence, ids: list[EventId]) -> Settlement:
    match kind:
        case "delivered":
            return Settlement(fence, delivered=ids)
        case "retried":
            return Settlement(fence, retried=[(one, "e", 1.0) for one in ids])
        case "buried":
            return Settlement(fence, buried=[(one, "e") for one in ids])
        case _:
            return Settlement(fence, released=ids)


@both_modes
@pytest.mark.parametrize("kind", ["delivered", "retried", "buried", "released"])
async def test_a_settle_skips_a_locked_row_and_reports_it(table: StorageHarness, kind: str) -> None:
    relay = table.relay()
    inserted, fence = await claim(table, relay, 3)
    with table.lock(inserted[1]):
        async with asyncio.timeout(10):
            [settled] = await relay.settle([verdict(kind, fence, inserted)])
        written: dict[str, Any] = {kind: 2}
        assert settled == Settled(**written, locked=frozenset(inserted[1:2]))
        assert table.row(inserted[1])["status"] == "DELIVERING"
    assert await relay.settle([verdict(kind, fence, inserted)]) == [Settled(**(written | {kind: 1}))]


@both_modes
async def test_a_locked_row_of_one_claim_is_reported_for_that_claim_alone(table: StorageHarness) -> None:
    relay = table.relay()
    (first, second), fence = await claim(table, relay, 2)
    (third,), later_fence = await claim(table, relay, 1)
    with table.lock(second):
        settled = await relay.settle(
            [Settlement(fence, delivered=[first], released=[second]), Settlement(later_fence, delivered=[third])]
        )
    assert settled == [Settled(delivered=1, locked=frozenset([second])), Settled(delivered=1)]


@both_modes
async def test_a_locked_row_whose_lease_was_lost_is_not_reported(table: StorageHarness) -> None:
    relay = table.relay()
    (first, second), fence = await claim(table, relay, 2)
    with table.lock(second):
        assert await relay.settle([Settlement(Fence(fence - timedelta(seconds=1)), delivered=[first, second])]) == [
            Settled()
        ]


async def test_a_renewal_skips_a_locked_row_which_keeps_its_lease(table: StorageHarness) -> None:
    relay = table.relay()
    (first, second), fence = await claim(table, relay, 2)
    with table.lock(second):
        async with asyncio.timeout(10):
            renewal = await relay.renew(fence, [first, second])
        assert renewal == Renewal(renewal.fence, frozenset([first]), frozenset([second]))
        assert renewal.fence > fence
        assert await relay.renew(fence, [second]) == Renewal(fence, frozenset(), frozenset([second]))
    again = await relay.renew(fence, [second])
    assert again == Renewal(again.fence, frozenset([second]))
    assert (
        await relay.settle([Settlement(renewal.fence, delivered=[first]), Settlement(again.fence, [second])])
        == [Settled(delivered=1)] * 2
    )


async def test_a_claim_and_the_reaper_skip_locked_rows(table: StorageHarness) -> None:
    relay = table.relay()
    (first, second), _ = await claim(table, relay, 2)
    table.advance(LEASE + 1)
    with table.lock(first):
        assert await relay.reap(10) == Reaped(1, 0)
    table.advance(100)
    with table.lock(second):
        assert await relay.reap(10) == Reaped(1, 0)
        assert (await relay.claim(10, ANY_BYTES)).events == []
    assert [event.event_id for event in (await relay.claim(10, ANY_BYTES)).events] == [second]


async def test_excluded_rows_are_neither_claimed_nor_reaped(table: StorageHarness) -> None:
    relay = table.relay()
    (first, second), _ = await claim(table, relay, 2)
    table.advance(LEASE + 1)
    assert await relay.reap(10, [first]) == Reaped(1, 0)
    table.advance(100)
    assert (await relay.claim(10, ANY_BYTES, [second])).events == []
    assert [event.event_id for event in (await relay.claim(10, ANY_BYTES, [first])).events] == [second]
