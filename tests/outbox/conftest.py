"""The outboxes that the conformance suites are run on."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from relay.outbox.options import KeyOrder
from tests.outbox.harness import MemoryHarness, PostgresHarness, StorageHarness
from tests.support.fixtures.outbox import Outbox, through


@pytest.fixture(
    params=[
        "memory",
        "memory in order",
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("postgres in order", marks=pytest.mark.postgres),
        pytest.param("postgres behind PgBouncer", marks=pytest.mark.postgres),
    ]
)
async def table(request: pytest.FixtureRequest) -> AsyncIterator[StorageHarness]:
    harness: StorageHarness
    key_order = KeyOrder.SKIP if request.param.endswith("in order") else None
    if request.param.startswith("memory"):
        harness = MemoryHarness(key_order)
    else:
        outbox: Outbox = request.getfixturevalue("outbox")
        if "PgBouncer" in request.param:
            outbox = through(outbox, request.getfixturevalue("pgbouncer"))
        harness = PostgresHarness(outbox, key_order)
    yield harness
    await harness.close()
