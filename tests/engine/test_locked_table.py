"""A table that another session locks, on a real server: no connection piles up, and nothing is left behind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from relay.core.telemetry import RelayState
from tests.engine.conftest import StartRelay
from tests.support.doubles.memory_publisher import MemoryPublisher
from tests.support.fixtures.measured import Measured
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.waiting import eventually

PROMISED = 4
"""Connections of one relay: three, and one for a ping that would have to wait."""
_BACKENDS = """
SELECT count(*) FROM pg_stat_activity
WHERE application_name LIKE 'openoutbox-relay/%' AND datname = current_database()
"""
_LOCKS = {
    "LOCK TABLE": "LOCK TABLE openoutbox_events IN ACCESS EXCLUSIVE MODE",
    "ALTER TABLE": "ALTER TABLE openoutbox_events ADD COLUMN note TEXT",
    "CREATE INDEX": "CREATE INDEX ON openoutbox_events (event_type)",
}


@asynccontextmanager
async def locked(outbox: Outbox, how: str) -> AsyncIterator[None]:
    """The table, locked by an open transaction, or by a VACUUM FULL that waits for a reader."""
    reader = await outbox.database.connect_async(autocommit=False)
    vacuuming = await outbox.database.connect_async()
    try:
        if how == "VACUUM FULL":
            await reader.execute("SELECT FROM openoutbox_events")
            vacuum = asyncio.ensure_future(vacuuming.execute("VACUUM FULL openoutbox_events"))
            yield
            await reader.rollback()
            await vacuum
        else:
            await reader.execute(_LOCKS[how].encode())
            yield
            await reader.rollback()
    finally:
        await reader.close()
        await vacuuming.close()


@pytest.mark.session
@pytest.mark.parametrize("how", [*_LOCKS, "VACUUM FULL"])
async def test_a_locked_table_leaves_no_backend_and_no_claim_behind(
    outbox: Outbox, start: StartRelay, how: str, measured: Measured
) -> None:
    broker = MemoryPublisher()
    running = await start(broker, statement_timeout=0.4, lease_timeout=60.0)
    await eventually(lambda: running.relay.health.state is RelayState.ACTIVE)
    outbox.insert([Row("t")] * 20)
    most = 0
    with outbox.database.connect() as observer:

        def are_cancelled() -> bool:
            nonlocal most
            [(backends,)] = observer.execute(_BACKENDS).fetchall()
            most = max(most, backends)
            return running.telemetry.ops["claim", False] >= 4

        async with locked(outbox, how):
            await eventually(are_cancelled, 30, "claims to run into their deadline while the table is locked")
        began = time.monotonic()
        await eventually(lambda: outbox.counts() == {"DELIVERED": 20})
        recovery = time.monotonic() - began
    measured(lock=how, most_connections=most, delivered_after_unlock_s=recovery)
    assert most <= PROMISED
    assert outbox.rows("sum(attempts)") == [(0,)]
    assert len(broker.offered) == 20
