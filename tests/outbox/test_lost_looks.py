"""After a COMMIT a relay looks for what was not written. Where that fails, what is committed stays so for it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from relay.core.errors import StorageUnavailable
from relay.core.event import EventId, Fence
from relay.core.storage import Settled, Settlement
from relay.outbox.storage import PostgresOutbox
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.options import storage_options

_CANCELLED_ONCE = """
CREATE SEQUENCE looks;
CREATE FUNCTION is_let_look() RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = public AS $$ BEGIN
IF current_query() LIKE '-- The rows still held%' AND nextval('looks') = 1 THEN
RAISE EXCEPTION 'cancelled' USING ERRCODE = '57014';
END IF;
RETURN true;
END $$;
ALTER TABLE openoutbox_events ENABLE ROW LEVEL SECURITY;
CREATE POLICY looks ON openoutbox_events USING (is_let_look());
"""
"""The first look for what a settle or a renewal has not written is cancelled, as by a statement_timeout."""


@pytest.fixture
async def storage(outbox: Outbox) -> AsyncIterator[PostgresOutbox]:
    one = PostgresOutbox(storage_options(outbox.relay_url, "relay"))
    yield one
    await one.close()


async def claim_three(outbox: Outbox, storage: PostgresOutbox) -> tuple[Fence, list[EventId]]:
    """And let the first look fail."""
    outbox.insert([Row("t")] * 3)
    fence, events, *_ = await storage.claim(3, 1 << 40)
    assert fence is not None
    with outbox.database.connect() as connection:
        connection.execute(_CANCELLED_ONCE.encode())
    return fence, [event.event_id for event in events]


async def test_a_renewal_is_known_though_the_look_for_locked_rows_was_cancelled(
    outbox: Outbox, storage: PostgresOutbox
) -> None:
    fence, ids = await claim_three(outbox, storage)
    with outbox.database.connect(autocommit=False) as blocker:
        blocker.execute("SELECT 1 FROM openoutbox_events WHERE event_id = %s FOR UPDATE", [ids[0]])
        renewal = await storage.renew(fence, ids)
    assert (renewal.held, renewal.unchanged) == (frozenset(ids[1:]), frozenset(ids[:1]))
    settlements = [Settlement(renewal.fence, delivered=ids[1:]), Settlement(fence, delivered=ids[:1])]
    assert await storage.settle(settlements) == [Settled(delivered=2), Settled(delivered=1)]


async def test_what_is_settled_is_not_sent_again_though_the_look_for_locked_rows_was_cancelled(
    outbox: Outbox, storage: PostgresOutbox
) -> None:
    fence, ids = await claim_three(outbox, storage)
    with outbox.database.connect(autocommit=False) as blocker:
        blocker.execute("SELECT 1 FROM openoutbox_events WHERE event_id = %s FOR UPDATE", [ids[0]])
        with pytest.raises(StorageUnavailable, match="has not written") as error:  # it may have been carried out
            await storage.settle([Settlement(fence, delivered=ids)])
        assert not error.value.answered
    assert sorted(outbox.rows("status")) == [("DELIVERED",), ("DELIVERED",), ("DELIVERING",)]
