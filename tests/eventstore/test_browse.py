"""What the console reads of a store: with the rights of its access alone, a page at a page's cost."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from uuid import UUID

import psycopg
import pytest

from relay.core.errors import SchemaError
from relay.eventstore import NO_STREAM, EventStore, NewEvent, UnknownTenant
from relay.eventstore.browse import StoreBrowser
from relay.eventstore.statements import EventStoreStatements
from tests.eventstore.conftest import OTHER_TENANT, STREAM, TENANT, as_role
from tests.support.fixtures.postgres import Database

_FILL = """
INSERT INTO Event (TenantId, StreamId, Version, Type, Meta, Data)
SELECT %s, ('00000000-0000-0000-0000-' || lpad(to_hex(n / 4), 12, '0'))::uuid, n %% 4 + 1, 'T', '{}', '{}'
FROM generate_series(0, 19999) AS n
"""


@pytest.fixture
async def browser(store: EventStore, database: Database, role: str) -> AsyncIterator[StoreBrowser]:
    """The store as a user sees it who has the console's access."""
    await store.grant(role, "console")
    browser = StoreBrowser(as_role(database.url, role), "public")
    yield browser
    await browser.close()


async def test_it_reads_with_the_rights_of_its_access(store: EventStore, browser: StoreBrowser) -> None:
    await store.append(TENANT, STREAM, [NewEvent("A", {"n": 1}), NewEvent("B")], NO_STREAM)
    for number in range(16):  # some of them are in either part
        await store.append(OTHER_TENANT, UUID(int=number), [NewEvent("C")], NO_STREAM)
    batches = store.subscribe("s", part=(0, 2))
    await anext(batches)
    summary = await browser.summary()
    assert summary is not None
    assert (summary.newest, summary.horizon, summary.notify) == (18, 18, True)
    assert await browser.tenants(None, 10) == [OTHER_TENANT, TENANT]
    [stream] = await browser.streams(TENANT, None, 10)
    assert (stream.stream_id, stream.version, stream.type) == (STREAM, 2, "B")
    newest, oldest = await browser.events(TENANT, STREAM, None, 10, with_data=True)
    assert (newest.data, oldest.data, oldest.data_bytes) == (None, '{"n": 1}', 8)
    assert [event.data for event in await browser.events(TENANT, STREAM, 2, 10, with_data=False)] == [None]
    states = zip(await browser.subscriptions(), await store.list_subscriptions(), strict=True)
    for own, state in states:
        assert own._replace(lag_seconds=0.0) == state._replace(lag_seconds=0.0)
        assert own.lag_seconds > 0 or not own.lag_events
    await batches.aclose()


async def test_it_may_change_nothing(store: EventStore, browser: StoreBrowser, database: Database, role: str) -> None:
    async with await EventStore.connect(as_role(database.url, role)) as own:
        with pytest.raises(SchemaError):
            await own.append(TENANT, STREAM, [NewEvent("A")], NO_STREAM)
        with pytest.raises(SchemaError):
            await own.reset_subscription("s")


async def test_a_tenant_without_a_partition_is_unknown(browser: StoreBrowser) -> None:
    with pytest.raises(UnknownTenant):
        await browser.streams(UUID(int=1), None, 10)


async def test_a_schema_without_a_store_has_none(database: Database) -> None:
    browser = StoreBrowser(database.url, "public")
    assert await browser.summary() is None
    await browser.close()


@pytest.mark.parametrize(
    "large", [NewEvent("A", {"text": "x" * 6_000_000}), NewEvent("A", meta={"text": "x" * 6_000_000})]
)
async def test_large_bodies_end_a_page(gapless_store: EventStore, database: Database, large: NewEvent) -> None:
    await gapless_store.append(TENANT, STREAM, [large] * 4, NO_STREAM)
    browser = StoreBrowser(database.url, "public")
    first = await browser.events(TENANT, STREAM, None, 10, with_data=True)
    assert [event.version for event in first] == [4, 3, 2]
    rest = await browser.events(TENANT, STREAM, first[-1].version, 10, with_data=True)
    assert [event.version for event in rest] == [1]
    await browser.close()


@pytest.mark.parametrize("positions", ["settled"])
async def test_a_deep_page_of_streams_costs_a_page(store: EventStore, database: Database) -> None:
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute(_FILL.encode(), [TENANT])
        connection.execute("ANALYZE event")
        sql = EventStoreStatements().text("eventstore/browse:streams", "after")
        values = {"tenant": TENANT, "after": UUID(int=4000), "limit": 50}
        row = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}".encode(), values, prepare=False)
        [(explained,)] = row.fetchall()
    plan = explained[0]["Plan"]
    assert plan["Actual Rows"] == 50
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] <= 50 * 10, json.dumps(plan, indent=1)
