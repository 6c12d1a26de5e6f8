"""Claims commit before large payloads travel: over slow links, and for a relay that is frozen while it receives."""

from __future__ import annotations

import asyncio
import os
import time

import pytest

from relay.core.errors import StorageUnavailable
from relay.core.event import EventId
from relay.core.storage import Reaped, Settlement
from relay.outbox.extensions import add_extension
from relay.outbox.outbox_options import KeyOrder
from relay.outbox.payloads import INLINE_BYTES, Appetite
from relay.outbox.storage import PostgresOutbox
from relay.postgres.prepared import Preparation
from relay.postgres.sql import TableName
from tests.outbox.harness import StorageHarness
from tests.outbox.proxy import Proxy
from tests.support.fixtures.measured import Measured
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.options import storage_options

ANY_BYTES = 1 << 40


async def test_large_payloads_are_what_was_inserted(table: StorageHarness) -> None:
    relay = table.relay()
    payloads = [os.urandom(700_000), b"x" * 9_000_000, b"", b"small", os.urandom(5_000_000)]
    inserted = [table.insert(payload) for payload in payloads]
    claim = await relay.claim(10, ANY_BYTES)
    assert [(event.event_id, event.payload) for event in claim.events] == list(zip(inserted, payloads, strict=True))
    assert not claim.unread
    assert claim.fence is not None
    [settled] = await relay.settle([Settlement(claim.fence, delivered=inserted)])
    assert settled.delivered == len(payloads)


def test_replies_carry_more_while_they_come_fast_and_a_claim_that_fails_halves_them() -> None:
    appetite = Appetite(6.0)
    assert appetite.inline_bytes == INLINE_BYTES // 8
    appetite.arrived(100, 0.01)  # too little to tell
    appetite.in_time(1 << 26)
    assert appetite.inline_bytes == INLINE_BYTES // 8
    for _ in range(3):  # of one claim
        appetite.arrived(appetite.inline_bytes, 0.01)
    appetite.in_time(1 << 26)
    assert appetite.inline_bytes == INLINE_BYTES // 4
    for _ in range(5):
        appetite.arrived(appetite.inline_bytes, 0.01)
        appetite.in_time(1 << 26)
    assert appetite.inline_bytes == INLINE_BYTES
    appetite.claim_failed()
    appetite.claim_failed()
    assert (appetite.inline_bytes, appetite.payload(1000)) == (INLINE_BYTES // 4, 1000)


def test_replies_that_take_a_part_of_the_lease_carry_what_comes_in_time() -> None:
    appetite = Appetite(6.0)
    appetite.arrived(INLINE_BYTES // 8, 1.3)  # 50 KB/s
    assert appetite.inline_bytes == INLINE_BYTES // 16
    for _ in range(10):
        appetite.arrived(appetite.inline_bytes, appetite.inline_bytes / 50_000)
        appetite.in_time(1 << 26)
    assert appetite.inline_bytes <= INLINE_BYTES // 8
    assert appetite.slice_bytes / 50_000 < 12.0


def test_payloads_that_come_late_bound_the_next_claim() -> None:
    appetite = Appetite(6.0)
    appetite.read_late(3 << 20)
    assert appetite.payload(1 << 26) == 3 << 20
    appetite.in_time(1 << 26)
    assert appetite.payload(1 << 26) == 6 << 20
    for _ in range(4):
        appetite.in_time(1 << 26)
    assert appetite.payload(1 << 26) == 1 << 26


async def drain(storage: PostgresOutbox, outbox: Outbox) -> None:
    """Claim and settle until all is delivered; what was not read is released."""
    while outbox.unfinished():
        try:
            claim = await storage.claim(100, ANY_BYTES)
        except StorageUnavailable:
            continue
        if claim.fence is not None:
            delivered = [event.event_id for event in claim.events]
            await storage.settle([Settlement(claim.fence, delivered=delivered, released=list(claim.unread))])


@pytest.mark.parametrize(
    ("sizes", "pace"), [([500_000] * 8 + [100] * 100, 2e6), ([4_000] * 100, 2e5)], ids=["large rows", "small rows"]
)
async def test_a_backlog_gets_through_a_slow_link(
    outbox: Outbox, measured: Measured, sizes: list[int], pace: float
) -> None:
    """Receiving all of it in one statement takes twice the deadline."""
    outbox.insert([Row("t", os.urandom(size)) for size in sizes])
    async with Proxy(outbox.relay_url) as proxy:
        storage = PostgresOutbox(storage_options(proxy.url, "relay", statement_timeout=1.0))
        await storage.open()
        proxy.bytes_per_second = pace
        began = time.monotonic()
        async with asyncio.timeout(60):
            await drain(storage, outbox)
        measured(bytes=sum(sizes), bytes_per_second=pace, delivered_in_s=time.monotonic() - began)
        await storage.close()
    assert outbox.rows("sum(attempts)") == [(0,)]


async def test_a_relay_that_is_frozen_while_it_receives_a_claim_holds_a_lease_and_no_lock(
    outbox: Outbox,
) -> None:
    inserted = outbox.insert([Row("t", os.urandom(200_000))] * 60)
    async with Proxy(outbox.relay_url) as proxy:
        frozen = PostgresOutbox(storage_options(proxy.url, "frozen", prepared=Preparation.OFF))

        def freeze(data: bytes) -> None:
            if b"SKIP LOCKED" in data:
                proxy.swallow()

        proxy.watch = freeze
        task = asyncio.ensure_future(frozen.claim(100, ANY_BYTES))
        other = PostgresOutbox(storage_options(outbox.relay_url, "other", lease_timeout=0.2))
        reaped = Reaped(0, 0)
        async with asyncio.timeout(30):
            while reaped == Reaped(0, 0):
                reaped = await other.reap(100)
        assert reaped == Reaped(60, 0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        proxy.flow()
        for storage in (frozen, other):
            await storage.close()
    assert {outbox.row(EventId(one))["status"] for one in inserted} == {"PENDING"}


def damage(outbox: Outbox) -> None:
    """Take away the stored payload of the only row there is, as a lost page would."""
    run = outbox.database.run
    run("CREATE EXTENSION pg_surgery")
    [(toast,)] = run("SELECT reltoastrelid::regclass::text FROM pg_class WHERE relname = 'openoutbox_events'")
    run(f"SELECT heap_force_kill('{toast}', (SELECT array_agg(ctid) FROM {toast}))")


@pytest.mark.parametrize("size", [700_000, 20_000], ids=["read apart", "carried by the claim"])
async def test_a_damaged_payload_is_named_and_holds_up_no_other(
    outbox: Outbox, caplog: pytest.LogCaptureFixture, size: int
) -> None:
    [bad] = outbox.insert([Row("t", os.urandom(size))])
    damage(outbox)
    storage = PostgresOutbox(storage_options(outbox.relay_url, "relay"))
    await storage.open()
    for _ in range(3):
        good = outbox.insert([Row("t", os.urandom(number)) for number in (1_000, 1_000, 300_000)])
        claim = await storage.claim(100, ANY_BYTES)
        assert ([event.event_id for event in claim.events], list(claim.unread)) == (good, [bad])
        assert claim.fence is not None
        released = [EventId(bad)]
        await storage.settle([Settlement(claim.fence, delivered=[EventId(one) for one in good], released=released)])
    await storage.close()
    lines = [record for record in caplog.records if getattr(record, "action", "") == "payload_damaged"]
    assert len(lines) == 3
    assert bad in lines[0].getMessage()


async def test_payloads_that_a_lost_connection_keeps_are_reported(
    outbox: Outbox, caplog: pytest.LogCaptureFixture
) -> None:
    inserted = outbox.insert([Row("t", os.urandom(400_000))] * 3)
    async with Proxy(outbox.relay_url) as proxy:
        storage = PostgresOutbox(storage_options(proxy.url, "relay"))
        await storage.open()
        proxy.watch = lambda data: "lose request" if b"payloads of claimed rows" in data else None
        claim = await storage.claim(100, ANY_BYTES)
        assert (claim.events, sorted(claim.unread)) == ([], sorted(inserted))
        await storage.close()
    [record] = [record for record in caplog.records if getattr(record, "action", "") == "payloads_unread"]
    assert "the payloads of 3 claimed events were not read" in record.getMessage()


async def test_in_order_per_key_nothing_passes_a_payload_that_is_not_read(outbox: Outbox) -> None:
    add_extension(outbox.url, TableName(), "key-order")
    [bad] = outbox.insert([Row("t", os.urandom(20_000), partition_key="a")])
    damage(outbox)
    behind, other = outbox.insert([Row("t", b"x", partition_key="a"), Row("t", b"x", partition_key="b")])
    storage = PostgresOutbox(storage_options(outbox.relay_url, "relay", key_order=KeyOrder.SKIP))
    await storage.open()
    claim = await storage.claim(100, ANY_BYTES)
    await storage.close()
    assert [event.event_id for event in claim.events] == [other]
    assert set(claim.unread) == {bad, behind}
