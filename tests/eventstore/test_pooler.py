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
    assert outbox_database.run("SELECT count(*) FROM openoutbox_events") == [(1,)]
