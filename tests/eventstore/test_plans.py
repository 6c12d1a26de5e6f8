"""What statements touch when there are many tenants: one partition, at any number of them."""

from __future__ import annotations

import asyncio
import random
import re
import statistics
import time
import uuid
from collections.abc import AsyncIterator

import pytest

from relay.eventstore import ANY, EventStore, NewEvent
from relay.eventstore.groups import slot_positions
from relay.eventstore.statements import EventStoreStatements
from tests.eventstore.conftest import TENANT
from tests.support.fixtures.postgres import Database

_LEAF = re.compile(r"event_[0-9a-f]{32}")


async def _provisioned(store: EventStore, count: int) -> tuple[list[uuid.UUID], list[float]]:
    """That many tenants, and the seconds that each took."""
    chance = random.Random(count)
    tenants = [uuid.UUID(int=chance.getrandbits(128)) for _ in range(count)]
    spent = []
    for tenant in tenants:
        began = time.perf_counter()
        await store.provision_tenant(tenant)
        spent.append(time.perf_counter() - began)
    return tenants, spent


async def _explained(database: Database, statement: str, values: dict[str, object]) -> tuple[set[str], float]:
    """The partitions a plan names, and its planning time in ms, on a connection that has planned it before."""
    async with await database.connect_async() as connection:
        plan = ""
        for _ in range(3):
            cursor = await connection.execute(f"EXPLAIN (ANALYZE) {statement}".encode(), values, prepare=False)
            plan = "\n".join(row[0] for row in await cursor.fetchall())
    match = re.search(r"Planning Time: ([\d.]+) ms", plan)
    assert match is not None
    return set(_LEAF.findall(plan)), float(match.group(1))


async def _locked_by_append(store: EventStore, database: Database, tenant: uuid.UUID) -> set[str]:
    """The tenants' partitions that an append holds a lock on."""
    async with await database.connect_async(autocommit=False) as connection:
        for expected in (0, 1, ANY):
            await store.append(tenant, uuid.UUID(int=7), [NewEvent("E")], expected, connection=connection)
        cursor = await connection.execute(
            "SELECT relation::regclass::text FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation'"
        )
        names = {row[0] for row in await cursor.fetchall()}
        await connection.rollback()
    return {name for name in names if _LEAF.fullmatch(name)}


async def check_scale(store: EventStore, database: Database, count: int) -> dict[str, float]:
    """Everything section by section, returning the figures in milliseconds."""
    tenants, spent = await _provisioned(store, count)
    statements = EventStoreStatements()
    one = random.Random(1).choice(tenants)
    stream = {"tenant": one, "stream": uuid.UUID(int=7), "from_version": 1, "to_version": 10, "limit": 10}
    touched, stream_planning = await _explained(
        database, statements.text("eventstore/read:read_stream", "forward"), stream
    )
    assert touched == {f"event_{one.hex}"}
    page = {"tenant": one, "after": 0, "horizon": 10, "types": None, "limit": 10}
    touched, page_planning = await _explained(database, statements.text("eventstore/read:tenant_page"), page)
    assert touched == {f"event_{one.hex}"}
    some = tenants[:5]
    fetch = {"tenants": some, "after": 0, "last": 10, "types": None, "most_bytes": 1000}
    touched, fetch_planning = await _explained(database, statements.text("eventstore/read:fetch_page"), fetch)
    assert touched == {f"event_{tenant.hex}" for tenant in some}
    assert await _locked_by_append(store, database, one) == {f"event_{one.hex}"}
    figures = await _reading(store, tenants)
    newcomer = uuid.uuid4()
    began = time.perf_counter()
    await store.provision_tenant(newcomer)
    figures["the last provisioning"] = 1000 * (time.perf_counter() - began)
    began = time.perf_counter()
    await store.drop_tenant(newcomer, confirm=newcomer)
    figures["drop"] = 1000 * (time.perf_counter() - began)
    figures["provisioning, median of the first 50"] = 1000 * statistics.median(spent[:50])
    figures["provisioning, median of the last 50"] = 1000 * statistics.median(spent[-50:])
    figures["planning read_stream"] = stream_planning
    figures["planning a page of one tenant"] = page_planning
    figures["planning a fetch from 5 tenants"] = fetch_planning
    assert len(await store.list_tenants()) == count
    return figures


async def _reading(store: EventStore, tenants: list[uuid.UUID]) -> dict[str, float]:
    """A page of 1,000 events of 10 tenants, of 100, and of as many as there are (up to 1,000)."""
    figures: dict[str, float] = {}
    for spread in (10, 100, 1000):
        chosen = tenants[-spread:]
        after = (await store.append(chosen[0], uuid.uuid4(), [NewEvent("Mark")], ANY)).last_sequence_num
        each = 1000 // len(chosen)
        for tenant in chosen:
            await store.append(tenant, uuid.uuid4(), [NewEvent("E", {"n": n}) for n in range(each)], ANY)
        spent = []
        for _ in range(5):
            began = time.perf_counter()
            events = await store.read_all(after=after, limit=1000)
            spent.append(1000 * (time.perf_counter() - began))
            assert len(events) == each * len(chosen)
            assert len({event.tenant_id for event in events}) == len(chosen)
        figures[f"read_all of {len(events)} events of {len(chosen)} tenants, the best of five"] = min(spent)
    return figures


@pytest.fixture
async def small_pool(database: Database) -> AsyncIterator[EventStore]:
    async with await EventStore.connect(database.url, max_connections=2) as store:
        await store.migrate(positions="settled")
        yield store


def show(count: int, figures: dict[str, float]) -> None:
    print(f"\n{count} tenants, milliseconds:")
    for name, value in figures.items():
        print(f"  {name}: {value:.1f}")


async def test_a_page_is_walked_in_order_before_anything_was_analyzed(store: EventStore, database: Database) -> None:
    """Without statistics a range looks like a handful of rows, which the planner would rather fetch and sort."""
    statements = EventStoreStatements()
    fill = "INSERT INTO {} SELECT n, '{}', gen_random_uuid(), 1, 'E'{} FROM generate_series(1, 20000) AS n"
    database.run("ALTER TABLE event_feed SET (autovacuum_enabled = off)")
    database.run(f"ALTER TABLE event_{TENANT.hex} SET (autovacuum_enabled = off)")
    database.run(fill.format("event_feed", TENANT, ""))
    database.run(fill.format(f"event_{TENANT.hex}", TENANT, ", '{}'"))
    slots = slot_positions(dict.fromkeys(range(0, 256, 2), 0))
    values = {
        "after": 0,
        "horizon": 20000,
        "limit": 100,
        "rows": 9999,
        "types": None,
        "tenants": None,
        "tenant": TENANT,
        "slots": slots,
    }
    for text in (
        statements.text("eventstore/read:feed_page"),
        statements.text("eventstore/read:feed_page", "part"),
        statements.text("eventstore/read:tenant_page"),
        statements.text("eventstore/read:tenant_page", "part"),
        statements.text("eventstore/read:feed_window"),
        statements.text("eventstore/read:tenant_window"),
        statements.text("eventstore/read:nth_position"),
    ):
        with database.connect() as connection:
            rows = connection.execute(f"EXPLAIN {text}".encode(), values, prepare=False).fetchall()
        plan = "\n".join(row[0] for row in rows)
        assert "Index" in plan, plan
        assert "Sort" not in plan, plan


@pytest.mark.parametrize("count", [100, 1000])
async def test_each_statement_touches_one_partition(small_pool: EventStore, database: Database, count: int) -> None:
    show(count, await check_scale(small_pool, database, count))


@pytest.mark.scale
@pytest.mark.timeout(1200)
async def test_each_statement_touches_one_partition_of_ten_thousand(small_pool: EventStore, database: Database) -> None:
    """Also with writers at work while the last tenants come and go, on a server with default settings."""
    show(10_000, await check_scale(small_pool, database, 10_000))
    tenants = await small_pool.list_tenants()
    stop, pauses = asyncio.Event(), [0.0]

    async def write() -> None:
        while not stop.is_set():
            began = time.perf_counter()
            await small_pool.append(random.choice(tenants[100:]), uuid.uuid4(), [NewEvent("E")], ANY)
            pauses.append(time.perf_counter() - began)

    async with await EventStore.connect(database.url) as operator:
        writers = [asyncio.create_task(write()) for _ in range(2)]
        for tenant in tenants[:5]:
            await operator.drop_tenant(tenant, confirm=tenant)
            await operator.provision_tenant(tenant)
        stop.set()
        await asyncio.gather(*writers)
    show(10_000, {"longest append while 5 tenants were dropped and made again": 1000 * max(pauses)})
    assert max(pauses) < 10
