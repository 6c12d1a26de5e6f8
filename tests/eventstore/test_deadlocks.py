"""Appends with announcements to the same streams: one order of locks on every path, so that none waits in a circle."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable

import pytest

from relay.eventstore import ANY, NO_STREAM, Appended, EventStore, NewEvent, VersionConflict
from tests.eventstore.conftest import TENANT
from tests.support.fixtures.postgres import Database
from tests.support.waiting import eventually

APPENDERS, ROUNDS = 40, 2
OUTBOX = {"E": "topic"}


async def _outcomes(attempts: list[Awaitable[Appended]]) -> list[Appended]:
    """Of the successful ones; anything but a conflict of versions is raised."""
    results = await asyncio.gather(*attempts, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, VersionConflict):
            raise result
    return [result for result in results if isinstance(result, Appended)]


@pytest.mark.parametrize("streams", [1, 2, 10])
@pytest.mark.parametrize("own_transaction", [True, False])
async def test_appenders_of_few_streams_never_deadlock(
    store: EventStore, outbox_database: Database, streams: int, own_transaction: bool
) -> None:
    """Half of them expect a version, half none; each is a success or a conflict of versions."""

    async def append(stream: uuid.UUID, number: int, version: int) -> Appended:
        expected = version if number % 2 else ANY
        event = NewEvent("E", number)
        if own_transaction:
            return await store.append(TENANT, stream, [event], expected, OUTBOX)
        async with await outbox_database.connect_async() as connection, connection.transaction():
            return await store.append(TENANT, stream, [event], expected, OUTBOX, connection=connection)

    ids = [uuid.uuid4() for _ in range(streams)]
    versions = dict.fromkeys(ids, 0)
    written = 0
    for _ in range(ROUNDS):
        attempts = [(ids[n % streams], n // streams) for n in range(APPENDERS)]
        successes = await _outcomes([append(stream, number, versions[stream]) for stream, number in attempts])
        assert len(successes) >= APPENDERS // 2
        written += len(successes)
        for stream in ids:
            versions[stream] = len(await store.read_stream(TENANT, stream))
    assert outbox_database.run("SELECT count(*) FROM openoutbox_events") == [(written,)]
    assert sum(versions.values()) == written


async def test_an_append_that_ends_in_a_deadlock_is_sent_again(database: Database) -> None:
    """The caller's transaction holds an event of the stream, which the append waits for, and waits for the stream."""
    stream = uuid.uuid4()
    async with await EventStore.connect(database.url) as store, await database.connect_async() as connection:
        await store.migrate(positions="settled")
        await store.provision_tenant(TENANT)
        await connection.execute("SET deadlock_timeout = '10s'")  # so that the append is the one that ends
        async with connection.transaction():
            await connection.execute(
                "INSERT INTO Event (TenantId, StreamId, Version, Type, Meta) VALUES (%s, %s, 1, 'plain', '{}')",
                (TENANT, stream),
            )
            append = asyncio.create_task(store.append(TENANT, stream, [NewEvent("E")], ANY))
            await eventually(database.waiting_for_locks)
            await store.append(TENANT, stream, [NewEvent("E")], 1, connection=connection)
        assert (await append).version == 3
        with pytest.raises(VersionConflict):
            await store.append(TENANT, stream, [NewEvent("E")], NO_STREAM)
