"""A page is bounded in events, in bytes and in what its filter looks at, and says how far it came."""

from __future__ import annotations

import asyncio
import contextlib
import random
import uuid

import pytest

from relay.core.checkpoint import START
from relay.core.errors import ConfigError
from relay.eventstore import ANY, EventStore, NewEvent
from relay.eventstore.model import MOST_PAGE_BYTES
from relay.eventstore.read import EventFilter
from tests.eventstore.conftest import OTHER_TENANT, STREAM, TENANT
from tests.support.fixtures.postgres import Database

FILL = (
    "INSERT INTO event (TenantId, StreamId, Version, Type, Meta) "
    "SELECT %s, gen_random_uuid(), 1, 'Common', '{}' FROM generate_series(1, %s)"
)


@pytest.mark.parametrize("compressible", [False, True])
async def test_bytes_end_a_page(gapless_store: EventStore, compressible: bool) -> None:
    """Of one tenant and of two, also where PostgreSQL stores much less than the reader gets."""
    body = "x" * 1_500_000 if compressible else random.Random(5).randbytes(750_000).hex()
    for number in range(24):
        await gapless_store.append((TENANT, OTHER_TENANT)[number % 2], uuid.uuid4(), [NewEvent("E", body)], ANY)
    most = MOST_PAGE_BYTES // len(body) + 1
    for tenants, count in ((None, 24), ([TENANT, OTHER_TENANT], 24), ([TENANT], 12)):
        sizes, page = [], await gapless_store.read_all(tenants=tenants)
        while page:
            sizes.append(len(page))
            assert page.position >= page[-1].sequence_num
            page = await gapless_store.read_all(page.checkpoint, tenants=tenants)
        assert sum(sizes) == count
        assert max(sizes) <= most


async def test_many_tenants_share_the_bytes_of_a_page(gapless_store: EventStore) -> None:
    """More tenants than one statement reads: where one of them ends the page, no event of another one is skipped."""
    tenants = [uuid.uuid4() for _ in range(25)]
    body = random.Random(6).randbytes(1_000_000).hex()
    for number, tenant in enumerate(tenants):
        await gapless_store.provision_tenant(tenant)
        large = NewEvent("E", body if number in (3, 22, 23, 24) else number)
        await gapless_store.append(tenant, STREAM, [large] * 6, ANY)
    for _ in range(3):  # by plans that are made, and by plans that are kept
        positions: list[int] = []
        while page := await gapless_store.read_all(positions[-1] if positions else 0):
            assert sum(len(body) for event in page if event.data == body) < 1.5 * MOST_PAGE_BYTES
            positions += [event.sequence_num for event in page]
        assert positions == list(range(1, 151))


@pytest.mark.parametrize("tenants", [None, [TENANT]])
async def test_a_filter_looks_at_so_many_events_at_once(
    store: EventStore, database: Database, tenants: list[uuid.UUID] | None
) -> None:
    """Each statement ends in time, and the position moves on, however little the filter passes."""
    database.run(FILL, (TENANT, 12_000))
    await store.append(TENANT, STREAM, [NewEvent("Rare")], ANY)
    rare = EventFilter.of(tenants, ["Rare"])
    first = await store._reader.page(START, 10, rare)
    assert (first.events, first.more, first.checkpoint.position) == ([], True, 10_000)
    second = await store._reader.page(first.checkpoint, 10, rare)
    assert ([event.type for event in second.events], second.more) == (["Rare"], False)
    assert second.checkpoint.position == second.head == 12_001
    assert [event.type for event in await store.read_all(types=["Rare"], tenants=tenants)] == ["Rare"]
    async with contextlib.aclosing(
        store.subscribe("rare", types=["Rare"], tenants=tenants, poll_interval=3600.0)
    ) as batches:
        assert [event.type for event in await asyncio.wait_for(anext(batches), 60)] == ["Rare"]


async def test_a_page_says_how_far_it_came(store: EventStore) -> None:
    await store.append(TENANT, STREAM, [NewEvent("E", number) for number in range(1, 6)], ANY)
    page = await store.read_all(limit=2)
    assert (len(page), page.position, page.head, page.more) == (2, 2, 5, True)
    page = await store.read_all(page.checkpoint, until=4)
    assert ([event.data for event in page], page.position, page.more) == ([3, 4], 4, False)
    page = await store.read_all(types=["None"])
    assert (page, page.position, page.head, page.more) == ([], 5, 5, False)


@pytest.mark.parametrize("part", [None, (1, 2)])
async def test_an_own_write_is_waited_for(store: EventStore, part: tuple[int, int] | None) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        await store.wait_until("followed", 1)
    async with contextlib.aclosing(store.subscribe("followed", part=part)) as batches:
        written = await store.append(TENANT, STREAM, [NewEvent("E")], ANY)
        await anext(batches)
        with pytest.raises(TimeoutError):
            await store.wait_until("followed", written.last_sequence_num, timeout=0.1)
        acknowledging = asyncio.create_task(anext(batches))
        if part is None:
            await store.wait_until("followed", written.last_sequence_num)
        acknowledging.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await acknowledging
