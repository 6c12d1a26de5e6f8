"""The outboxes that the conformance suites are run on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest

from relay.outbox.outbox_options import KeyOrder
from tests.outbox.harness import TABLES, MemoryHarness, PostgresHarness, StorageHarness
from tests.support.fixtures.outbox import Outbox, through


@pytest.fixture
def outbox_extensions(request: pytest.FixtureRequest) -> Sequence[str]:
    """The indexes of order per key, for a table that keeps it."""
    params = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    return ("key-order",) if "in order" in str(params.get("table")) else ()


@pytest.fixture(params=TABLES)
async def table(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[StorageHarness]:
    # Time passes by moving rows, which a reaper's head does not see: each reap walks over all, on a busy machine too.
    monkeypatch.setattr("relay.outbox.reaping.CHEAP", float("inf"))
    harness: StorageHarness
    key_order = KeyOrder.SKIP if "in order" in request.param else None
    deletes = "deleting" in request.param
    if request.param.startswith("memory"):
        harness = MemoryHarness(key_order, delete_delivered=deletes)
    else:
        outbox: Outbox = request.getfixturevalue("outbox")
        if "PgBouncer" in request.param:
            outbox = through(outbox, request.getfixturevalue("pgbouncer"))
        harness = PostgresHarness(outbox, key_order, delete_delivered=deletes)
    yield harness
    await harness.close()
