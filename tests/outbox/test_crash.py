"""PostgreSQL crashes between a claim and its settle. The commit of a claim does not wait for the disk."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import psycopg
import pytest

from relay.core.errors import StorageError
from relay.core.event import Claim
from relay.core.storage import Settled, Settlement
from relay.localservers.postgres import PostgresServer
from relay.outbox.extensions import add_extension
from relay.outbox.outbox_options import KeyOrder
from relay.outbox.storage import PostgresOutbox
from relay.postgres.sql import TableName
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.fixtures.postgres import create_database
from tests.support.options import storage_options
from tests.support.waiting import wait_until, wait_until_async

T = TypeVar("T")


def stop_flushing(server: PostgresServer) -> int:
    """Stop the server's own flushing of the log; returns the process to kill for a crash."""
    with psycopg.connect(server.url) as connection:
        row = connection.execute("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'").fetchone()
    assert row is not None
    os.kill(row[0], signal.SIGSTOP)
    return int(row[0])


def crash(server: PostgresServer, writer: int) -> None:
    """Kill that process: the server ends all connections, drops its memory and recovers from the log."""

    def recovered() -> bool:
        if Path(f"/proc/{writer}").exists():  # until the server knows of it
            return False
        try:
            psycopg.connect(server.url).close()
        except psycopg.Error:
            return False
        return True

    os.kill(writer, signal.SIGKILL)
    wait_until(recovered, what="the server to recover")


async def after_the_loss(attempt: Callable[[], Awaitable[T]]) -> T:
    """The result, once the storage has noticed that its connection is lost."""
    results: list[T] = []

    async def worked() -> bool:
        try:
            results.append(await attempt())
        except StorageError:
            return False
        return True

    await wait_until_async(worked)
    return results[0]


@pytest.mark.parametrize(("key_order", "deletes"), [(None, False), (KeyOrder.SKIP, True)])
async def test_a_lost_claim_is_a_pending_row_again_and_a_settled_event_stays_delivered(
    own_postgres: PostgresServer, key_order: KeyOrder | None, deletes: bool
) -> None:
    outbox = Outbox.create(create_database(own_postgres.url))
    if deletes:
        outbox.database.run("GRANT DELETE ON openoutbox_events TO openoutbox_relay")
    if key_order is not None:
        add_extension(outbox.url, TableName(), "key-order")
    outbox.insert([Row("topic")] * 2)
    options = storage_options(outbox.relay_url, "relay", key_order=key_order, delete_delivered=deletes)
    storage = PostgresOutbox(options)
    await storage.open()
    writer = stop_flushing(own_postgres)
    lost = await storage.claim(2, 1000)
    assert len(lost.events) == 2
    crash(own_postgres, writer)
    assert outbox.rows("status, attempts, locked_by") == [("PENDING", 0, None)] * 2
    again = await claim_beside_the_lost_one(storage, lost)
    # The verdict's commit waits, and takes the claim along.
    writer = stop_flushing(own_postgres)
    assert again.fence is not None
    delivered = again.events[0].event_id
    assert await storage.settle([Settlement(again.fence, delivered=[delivered])]) == [Settled(delivered=1)]
    crash(own_postgres, writer)
    if not deletes:
        assert outbox.row(delivered)["status"] == "DELIVERED"
    assert outbox.counts() == {"PENDING": 1} if deletes else {"DELIVERED": 1, "PENDING": 1}
    await storage.close()


async def claim_beside_the_lost_one(storage: PostgresOutbox, lost: Claim) -> Claim:
    """Claim a row again, while the holder of the lost claim lives on under the same name and can do nothing."""
    fence = lost.fence
    assert fence is not None

    async def settle() -> list[Settled]:
        return await storage.settle([Settlement(fence, delivered=[event.event_id for event in lost.events])])

    assert await after_the_loss(settle) == [Settled()]
    again = await after_the_loss(lambda: storage.claim(1, 1000))
    assert again.fence is not None
    assert again.fence > fence
    assert await settle() == [Settled()]
    assert (await storage.renew(fence, [event.event_id for event in lost.events])).held == frozenset()
    return again
