"""Claims in order per key, in memory and in a real PostgreSQL: what may be claimed, beside what, and when."""

from __future__ import annotations

import asyncio

import pytest

from relay.core.event import EventId
from relay.core.storage import OutboxStorage, Reaped, Settlement
from relay.outbox.outbox_options import KeyOrder
from tests.outbox.harness import IN_ORDER, LEASE, RETRY, StorageHarness
from tests.outbox.test_conformance import ANY_BYTES, fence_of, ids

pytestmark = pytest.mark.parametrize("table", IN_ORDER, indirect=True)


async def claim(relay: OutboxStorage, limit: int = 10) -> list[EventId]:
    return ids(await relay.claim(limit, ANY_BYTES))


async def test_the_rows_of_a_key_are_claimed_together_in_order_of_insertion(table: StorageHarness) -> None:
    a = [table.insert(key="a", due_in=due) for due in (-1, -30, -20)]
    b = [table.insert(key="b") for _ in range(2)]
    keyless = table.insert()
    assert await claim(table.relay()) == [*a, *b, keyless]


async def test_what_is_behind_a_claimed_row_waits_and_others_flow_on(table: StorageHarness) -> None:
    relay, other = table.relay(), table.relay("relay-b")
    a = [table.insert(key="a") for _ in range(3)]
    first = await relay.claim(1, ANY_BYTES)
    assert ids(first) == a[:1]
    b, keyless = table.insert(key="b"), table.insert()
    assert await claim(other) == [b, keyless]
    assert await claim(relay) == []
    await relay.settle([Settlement(fence_of(first), delivered=a[:1])])
    assert await claim(other) == a[1:]


async def test_what_is_in_flight_holds_what_is_behind_it_when_the_first_row_is_released(table: StorageHarness) -> None:
    relay, other = table.relay(), table.relay("relay-b")
    a = [table.insert(key="a") for _ in range(3)]
    claimed = await relay.claim(2, ANY_BYTES)
    assert ids(claimed) == a[:2]
    await relay.settle([Settlement(fence_of(claimed), released=a[:1])])
    assert await claim(other) == a[:1]


async def test_room_is_shared_among_the_keys_before_any_key_takes_more(table: StorageHarness) -> None:
    hot = [table.insert(key="hot") for _ in range(20)]
    cold = [table.insert(key=f"cold-{number}") for number in range(3)]
    assert await claim(table.relay(), 8) == [*hot[:2], *cold]
    assert await claim(table.relay(), 8) == []


async def test_an_event_that_backs_off_holds_its_key(table: StorageHarness) -> None:
    relay = table.relay()
    a = [table.insert(key="a") for _ in range(2)]
    claimed = await relay.claim(10, ANY_BYTES)
    await relay.settle([Settlement(fence_of(claimed), retried=[(a[0], "e", 30.0)], released=a[1:])])
    assert await claim(relay) == []
    table.advance(31)
    assert await claim(relay) == a


async def test_a_scheduled_event_holds_its_key(table: StorageHarness) -> None:
    relay = table.relay()
    a = [table.insert(key="a"), table.insert(key="a", due_in=100), table.insert(key="a")]
    first = await relay.claim(10, ANY_BYTES)
    assert ids(first) == a[:1]
    await relay.settle([Settlement(fence_of(first), delivered=a[:1])])
    assert await claim(relay) == []
    table.advance(101)
    assert await claim(relay) == a[1:]


async def test_an_expired_lease_holds_its_key_until_it_is_tried_again(table: StorageHarness) -> None:
    relay, reaper = table.relay(), table.relay("relay-b")
    a = [table.insert(key="a") for _ in range(3)]
    assert await claim(relay, 2) == a[:2]
    table.advance(LEASE + 1)
    assert await claim(reaper) == []
    assert await reaper.reap(1) == Reaped(1, 0)
    table.advance(RETRY.max_delay * 2)
    while (taken := await claim(reaper)) == []:  # whichever of the two was taken back first
        assert await reaper.reap(10) == Reaped(1, 0)
        table.advance(RETRY.max_delay * 2)
    assert taken == a or taken == a[:1]


@pytest.mark.parametrize("key_order", list(KeyOrder))
async def test_a_dead_event_is_passed_by_or_holds_its_key(table: StorageHarness, key_order: KeyOrder) -> None:
    table.key_order = key_order
    relay = table.relay()
    a = [table.insert(key="a") for _ in range(4)]
    other = table.insert(key="b")
    claimed = await relay.claim(10, ANY_BYTES)
    assert ids(claimed) == [*a, other]
    dead_in_the_middle = Settlement(fence_of(claimed), buried=[(a[1], "e")], released=[a[0], *a[2:], other])
    await relay.settle([dead_in_the_middle])
    wanted = [a[0], *a[2:], other] if key_order is KeyOrder.SKIP else [a[0], other]
    claimed = await relay.claim(10, ANY_BYTES)
    assert ids(claimed) == wanted
    await relay.settle([Settlement(fence_of(claimed), delivered=[a[0], other], released=wanted[1:-1])])
    assert await claim(relay) == ([] if key_order is KeyOrder.BLOCK else a[2:])


async def test_one_key_with_a_long_backlog_does_not_hold_up_the_others(table: StorageHarness) -> None:
    relay, other = table.relay(), table.relay("relay-b")
    for _ in range(200):
        table.insert(key="hot", due_in=-60)
    others = {table.insert(key=f"cold-{number}") for number in range(20)} | {table.insert() for _ in range(5)}
    assert len(await claim(relay, 1)) == 1
    taken: set[EventId] = set()
    while len(taken) < len(others):
        claimed = await claim(other, 4)
        assert claimed
        taken.update(claimed)
    assert taken == others
    assert await claim(other) == []


async def test_claimers_at_once_never_take_what_is_behind_an_unfinished_row(table: StorageHarness) -> None:
    keys = {table.insert(key=f"key-{number % 7}"): number % 7 for number in range(210)}
    order = list(keys)
    relays = [table.relay(f"relay-{number}") for number in range(3)]
    delivered: list[EventId] = []

    async def drain(relay: OutboxStorage) -> None:
        while len(delivered) < len(order):
            claimed = await relay.claim(4, ANY_BYTES)
            for key in {keys[one] for one in ids(claimed)}:
                mine = [one for one in ids(claimed) if keys[one] == key]
                done = {one for one in delivered if keys[one] == key}
                everything = [one for one in order if keys[one] == key]
                assert mine == everything[len(done) : len(done) + len(mine)]
            delivered.extend(ids(claimed))
            waiting = ids(claimed)
            while waiting:  # a claim at the same moment may have locked one of them
                [settled] = await relay.settle([Settlement(fence_of(claimed), delivered=waiting)])
                waiting = list(settled.locked)
            await asyncio.sleep(0)

    await asyncio.gather(*(drain(relay) for relay in relays))
    assert sorted(delivered) == sorted(order)
