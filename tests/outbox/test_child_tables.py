"""A table that inherits from the outbox, an archive for example: the relay neither delivers nor changes its rows."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from relay.core.storage import Settlement
from relay.outbox.admin.prune import PruneOptions, prune
from relay.outbox.outbox_options import KeyOrder
from relay.postgres.sql import TableName
from tests.outbox.harness import PostgresHarness
from tests.support.fixtures.outbox import Outbox, Row

_ARCHIVE = """
CREATE TABLE outbox_archive () INHERITS (openoutbox_events);
INSERT INTO outbox_archive (event_id, event_type, payload, status, delivered_at)
SELECT gen_random_uuid(), 'archived', '{}', 'DELIVERED', now() - interval '1 year' FROM generate_series(1, 300);
GRANT SELECT, UPDATE, DELETE ON outbox_archive TO PUBLIC
"""
_ARCHIVED = "SELECT md5(string_agg(a::text, chr(10) ORDER BY event_id)) FROM ONLY outbox_archive AS a"


@pytest.fixture(params=["keep", "delete", "key"])
async def table(outbox: Outbox, request: pytest.FixtureRequest) -> AsyncIterator[PostgresHarness]:
    order = KeyOrder.SKIP if request.param == "key" else None
    outbox.database.run(_ARCHIVE)
    outbox.insert([Row("new", partition_key=f"k{number}") for number in range(100)])
    harness = PostgresHarness(outbox, order, delete_delivered=request.param == "delete")
    yield harness
    await harness.close()


async def test_a_claim_and_its_settle_leave_an_archive_of_the_same_places_as_it_is(
    table: PostgresHarness, outbox: Outbox
) -> None:
    archived = outbox.database.run(_ARCHIVED)
    relay = table.relay()
    claim = await relay.claim(1_000, 1 << 40)
    assert claim.fence is not None
    assert {event.event_type for event in claim.events} == {"new"}
    assert len(claim.events) == 100
    await relay.settle([Settlement(claim.fence, delivered=[event.event_id for event in claim.events])])
    assert outbox.database.run(_ARCHIVED) == archived


def test_prune_leaves_an_archive_as_it_is(outbox: Outbox) -> None:
    outbox.database.run(_ARCHIVE)
    outbox.fill("old", 100)
    outbox.database.run(
        "UPDATE ONLY openoutbox_events SET status = 'DELIVERED', delivered_at = now() - interval '1 year'"
    )
    archived = outbox.database.run(_ARCHIVED)
    assert prune(outbox.url, TableName(), PruneOptions()).delivered == 100
    assert outbox.database.run(_ARCHIVED) == archived
