"""A database whose transactions are serializable by default: the relay's are READ COMMITTED."""

from __future__ import annotations

import asyncio
import uuid

import psycopg
import pytest

from relay.core.outcome import ACKNOWLEDGED, Transient
from tests.engine.conftest import StartRelay
from tests.support.doubles.memory_publisher import MemoryPublisher
from tests.support.fixtures.measured import Measured
from tests.support.fixtures.outbox import Outbox
from tests.support.waiting import eventually

_WRITERS, _TRANSACTIONS = 4, 30
_COUNT = "SELECT count(*) FROM openoutbox_events WHERE status = 'PENDING'"
_INSERT = "INSERT INTO openoutbox_events (event_id, event_type, payload) VALUES (%s, 't', '')"


async def write(outbox: Outbox) -> int:
    """Read the backlog and insert, in serializable transactions; how many of them the database refused."""
    refused = 0
    async with await outbox.database.connect_async(autocommit=False) as connection:
        cursor = await connection.execute("SHOW transaction_isolation")
        assert await cursor.fetchone() == ("serializable",)
        await connection.rollback()
        for _ in range(_TRANSACTIONS):
            try:
                async with connection.transaction():
                    await connection.execute(_COUNT)
                    await connection.execute(_INSERT, [uuid.uuid4()])
            except psycopg.errors.SerializationFailure:
                refused += 1
    return refused


@pytest.mark.session
@pytest.mark.parametrize("level", ["serializable", "repeatable read"])
async def test_the_relay_reads_committed_whatever_the_default_is(
    outbox: Outbox, start: StartRelay, level: str, measured: Measured
) -> None:
    outbox.database.run(f"ALTER DATABASE {outbox.database.name} SET default_transaction_isolation = '{level}'")
    outbox.fill("good", 300)
    outbox.fill("failing", 20)
    broker = MemoryPublisher()
    broker.answer_with(lambda one: Transient("NOPE", "") if one.event_type == "failing" else ACKNOWLEDGED)
    relays = [await start(broker), await start(MemoryPublisher(), "other")]
    refused = [0]
    if level == "serializable":
        refused = await asyncio.gather(*(write(outbox) for _ in range(_WRITERS)))
    expected = 320 + _WRITERS * _TRANSACTIONS * (level == "serializable") - sum(refused)
    await eventually(lambda: sum(outbox.counts().values()) - outbox.counts().get("PENDING", 0) >= expected - 20)
    failed = {op: count for one in relays for (op, ok), count in one.telemetry.ops.items() if not ok and count}
    measured(default=level, writers_refused=sum(refused), of=_WRITERS * _TRANSACTIONS, statements_failed=failed)
    assert failed == {}
