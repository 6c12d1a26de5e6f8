"""Rows that claims go past: controls from elsewhere in the queue, and what is tried again."""

from __future__ import annotations

from relay.outbox.storage import PostgresOutbox
from tests.outbox.harness import PostgresHarness
from tests.support.fixtures.outbox import Outbox, Row

ANY_BYTES = 1 << 40


async def test_a_control_is_the_newest_row_and_the_next_one_another(outbox: Outbox) -> None:
    ids = outbox.insert([Row("t")] * 3)
    table = PostgresHarness(outbox)
    relay = table.relay()
    assert isinstance(relay, PostgresOutbox)
    claimed = [event.event_id for _ in ids for event in (await relay.claim(1, ANY_BYTES, control=True)).events]
    assert sorted(claimed) == sorted(ids)
    assert (await relay.claim(1, ANY_BYTES, control=True)).fence is None
    await table.close()
