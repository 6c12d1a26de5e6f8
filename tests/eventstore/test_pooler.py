"""Behind a pooler in transaction mode: appending and reading work, and a subscription polls."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from urllib.parse import urlsplit

import pytest

from relay.eventstore import ANY, NO_STREAM, EventStore, NewEvent, VersionConflict
from tests.eventstore.conftest import STREAM, TENANT
from tests.support.fixtures.postgres import Database


async def test_it_works_through_a_pool_of_two(store: EventStore, outbox_database: Database, pgbouncer: str) -> None:
    url = urlsplit(outbox_database.url)._replace(netloc=urlsplit(pgbouncer).netloc).geturl()
    async with await EventStore.connect(url, max_connections=8) as pooled:
        await pooled.append(TENANT, STREAM, [NewEvent("Opened")], NO_STREAM, {"Opened": "bank.accounts"})
        writers = (pooled.append(TENANT, uuid.uuid4(), [NewEvent("E"), NewEvent("F")], ANY) for _ in range(40))
        await asyncio.gather(*writers)
        with pytest.raises(VersionConflict):
            await pooled.append(TENANT, STREAM, [NewEvent("Opened")], NO_STREAM)
        assert len(await pooled.read_all()) == 81
        assert len(await pooled.read_stream(TENANT, STREAM)) == 1
        types: list[str] = []
        async with contextlib.aclosing(pooled.subscribe("pooled", poll_interval=0.05)) as batches:
            async for batch in batches:
                types += [event.type for event in batch]
                if len(types) == 81:
                    await store.append(TENANT, STREAM, [NewEvent("Last")], 1)
                if types[-1] == "Last":
                    break
        assert len(types) == 82
        assert await pooled._database.rows("look", "SELECT count(*) FROM pg_prepared_statements") == [(0,)]
    assert outbox_database.run("SELECT count(*) FROM openoutbox_events") == [(1,)]


async def test_a_page_of_many_tenants_leaves_nothing_in_a_pooled_session(
    gapless_store: EventStore, database: Database, pgbouncer: str
) -> None:
    url = urlsplit(database.url)._replace(netloc=urlsplit(pgbouncer).netloc).geturl()
    tenants = [uuid.uuid4() for _ in range(25)]
    for tenant in tenants:
        await gapless_store.provision_tenant(tenant)
        await gapless_store.append(tenant, STREAM, [NewEvent("E")], NO_STREAM)
    async with await EventStore.connect(url, max_connections=4) as pooled:
        for _ in range(3):
            pages = await asyncio.gather(*(pooled.read_all() for _ in range(4)))
            assert [[event.tenant_id for event in page] for page in pages] == [tenants] * 4
        look = "SELECT count(*), current_setting('plan_cache_mode') FROM pg_prepared_statements"
        for _ in range(4):
            assert await pooled._database.rows("look", look) == [(0, "auto")]
