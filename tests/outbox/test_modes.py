"""Relays with ON_DELIVERED=keep and with ON_DELIVERED=delete on one table notice each other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest

from relay.core.finding import Finding, Level
from relay.core.storage import OutboxStorage, Settlement
from relay.outbox.admin.connection import operating
from relay.outbox.admin.modes import mode_finding
from relay.postgres.sql import TableName
from tests.outbox.harness import PostgresHarness
from tests.outbox.test_conformance import claim_one
from tests.support.fixtures.outbox import Outbox

pytestmark = pytest.mark.postgres

TABLE = TableName()


@pytest.fixture
async def harness(outbox: Outbox) -> AsyncIterator[PostgresHarness]:
    harness = PostgresHarness(outbox, delete_delivered=True)
    yield harness
    await harness.close()


def relay_of(harness: PostgresHarness, mode: str) -> OutboxStorage:
    harness.delete_delivered = mode == "delete"
    return harness.relay(f"relay-{mode}")


async def deliver(harness: PostgresHarness, relay: OutboxStorage) -> None:
    event_id, fence = await claim_one(harness, relay)
    await relay.settle([Settlement(fence, delivered=[event_id])])


async def finding_of_a_check_beside(harness: PostgresHarness, relay: OutboxStorage, *, in_mode: str) -> Finding:
    """The finding of a check for a relay ``in_mode``; meanwhile ``relay`` delivers, and always has a lease."""

    def check() -> Finding:
        with operating(harness.url, TABLE, "checking") as connection:
            return mode_finding(connection, TABLE, delete_delivered=in_mode == "delete")

    event_id, fence = await claim_one(harness, relay)
    checking = asyncio.create_task(asyncio.to_thread(check))
    while not checking.done():
        following = await claim_one(harness, relay)
        await relay.settle([Settlement(fence, delivered=[event_id])])
        event_id, fence = following
    return await checking


async def test_a_check_for_keep_notices_a_relay_that_deletes(harness: PostgresHarness) -> None:
    finding = await finding_of_a_check_beside(harness, relay_of(harness, "delete"), in_mode="keep")
    assert finding.level is Level.WARNING
    assert "leased by relay relay-delete were deleted: it has ON_DELIVERED=delete" in finding.message
    assert "ON_DELIVERED" in finding.advice


async def test_a_check_for_keep_beside_a_relay_that_keeps_is_fine(harness: PostgresHarness) -> None:
    finding = await finding_of_a_check_beside(harness, relay_of(harness, "keep"), in_mode="keep")
    assert (finding.level, finding.advice) == (Level.OK, "")


@pytest.mark.parametrize(("mode", "level"), [("keep", Level.WARNING), ("delete", Level.OK)])
async def test_a_check_for_delete_notices_a_relay_that_keeps(harness: PostgresHarness, mode: str, level: Level) -> None:
    relay = relay_of(harness, mode)
    await deliver(harness, relay)
    assert (await finding_of_a_check_beside(harness, relay, in_mode="delete")).level is level


async def test_a_relay_that_deletes_warns_while_another_one_keeps(
    harness: PostgresHarness, caplog: pytest.LogCaptureFixture
) -> None:
    deleting, keeping = relay_of(harness, "delete"), relay_of(harness, "keep")

    async def warnings() -> list[str]:
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            await deleting.upkeep()
        return [record.getMessage() for record in caplog.records if getattr(record, "action", "") == "other_mode"]

    await deliver(harness, keeping)
    assert await warnings() == []  # its predecessor may have delivered that
    [message] = await warnings()
    assert "another relay has ON_DELIVERED=keep" in message
    harness.advance(31)
    await deliver(harness, deleting)
    assert await warnings() == []
    await deliver(harness, keeping)
    assert len(await warnings()) == 1
