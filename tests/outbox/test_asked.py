"""Expired leases that are asked about first: shown with their fences, and settled or reclaimed under exactly these."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime

import pytest

from relay.core.errors import SchemaError
from relay.core.event import EventId, Fence
from relay.core.proofs import LeasedRow
from relay.core.storage import Settlement
from relay.outbox.extensions import add_extension
from relay.outbox.storage import PostgresOutbox
from relay.postgres.sql import TableName
from tests.support.fixtures.outbox import Outbox, Row, give_rights
from tests.support.options import storage_options

pytestmark = pytest.mark.postgres

LEASE = 60.0
AGE = """
UPDATE openoutbox_events SET locked_at = locked_at - make_interval(secs => %s) WHERE event_id = ANY(%s::uuid[])
"""


@pytest.fixture
async def finder(outbox: Outbox) -> AsyncIterator[PostgresOutbox]:
    storage = PostgresOutbox(storage_options(outbox.relay_url, "finder", lease_timeout=LEASE))
    await storage.open()
    yield storage
    await storage.close()


async def lost(outbox: Outbox, count: int, age: float = 2 * LEASE) -> list[EventId]:
    """Events that a relay ``dead`` claimed so many seconds ago."""
    outbox.insert([Row("a")] * count)
    dead = PostgresOutbox(storage_options(outbox.relay_url, "dead", lease_timeout=LEASE))
    await dead.open()
    claim = await dead.claim(count, 1 << 30)
    await dead.close()
    ids = [event.event_id for event in claim.events]
    with outbox.database.connect() as connection:
        connection.execute(AGE, (age, ids))
    return ids


async def shown(finder: PostgresOutbox, limit: int = 2) -> list[LeasedRow]:
    """All that one round shows."""
    rows: list[LeasedRow] = []
    page = await finder.expired(limit, first=True)
    while page.rows:
        assert page.seen_at is not None
        assert all(row.fence < page.seen_at for row in page.rows)
        rows += page.rows
        page = await finder.expired(limit, first=False)
    return rows


async def test_a_round_shows_every_expired_lease_once_with_its_fence(outbox: Outbox, finder: PostgresOutbox) -> None:
    ids = await lost(outbox, 5)
    await lost(outbox, 2, age=0.0)
    rows = await shown(finder)
    fences: dict[str, datetime] = dict(outbox.database.run("SELECT event_id::text, locked_at FROM openoutbox_events"))
    assert sorted(rows) == sorted(LeasedRow("dead", Fence(fences[one]), one) for one in ids)
    assert len(rows) == 5
    assert await shown(finder) == rows


async def test_what_is_proven_is_settled_under_the_holders_fence(outbox: Outbox, finder: PostgresOutbox) -> None:
    ids = await lost(outbox, 3)
    rows = await shown(finder)
    [settled] = await finder.settle([Settlement(rows[0].fence, ids[:2], holder="dead")])
    assert settled.delivered == 2
    assert outbox.counts() == {"DELIVERED": 2, "DELIVERING": 1}
    [settled] = await finder.settle([Settlement(rows[0].fence, ids[2:])])
    assert settled.delivered == 0


async def test_only_the_leases_asked_about_are_reclaimed(outbox: Outbox, finder: PostgresOutbox) -> None:
    ids = await lost(outbox, 4)
    rows = {row.event_id: row for row in await shown(finder)}
    with outbox.database.connect() as connection:  # one is renewed, and expires again, before it is reclaimed
        renew = "UPDATE openoutbox_events SET locked_at = locked_at + interval '1 s' WHERE event_id = %s"
        connection.execute(renew, (ids[0],))
    reaped = await finder.reap_exactly([rows[one] for one in ids[:3]], {})
    assert reaped.total == 2
    left = outbox.database.run("SELECT event_id::text FROM openoutbox_events WHERE status = 'DELIVERING'")
    assert {one for (one,) in left} == {ids[0], ids[3]}


async def test_own_leases_are_those_of_this_relay_id_and_are_reclaimed_before_they_expire(outbox: Outbox) -> None:
    ids = await lost(outbox, 3, age=0.0)
    again = PostgresOutbox(storage_options(outbox.relay_url, "dead", lease_timeout=LEASE))
    await again.open()
    own = await again.own_leases()
    fences: dict[str, datetime] = dict(outbox.rows("event_id::text, locked_at"))
    assert sorted(own) == sorted(LeasedRow("dead", Fence(fences[one]), one) for one in ids)
    assert (await again.reap_exactly(own[:2], {}, former=True)).total == 2
    await again.close()
    assert outbox.counts() == {"PENDING": 2, "DELIVERING": 1}
    errors = {error for (error,) in outbox.rows("last_error") if error}
    assert all(error.startswith("LEASE_EXPIRED: lease of dead ended when that relay started") for error in errors)
    assert len(errors) == 1
    other = PostgresOutbox(storage_options(outbox.relay_url, "other", lease_timeout=LEASE))
    await other.open()
    assert await other.own_leases() == []
    await other.close()


async def test_a_destination_that_a_proof_speaks_for_is_written_down_also_in_a_column_of_later(
    outbox: Outbox, finder: PostgresOutbox, caplog: pytest.LogCaptureFixture
) -> None:
    ids = await lost(outbox, 3)
    rows = {row.event_id: row for row in await shown(finder)}
    reaped = await finder.reap_exactly([rows[ids[0]]], {ids[0]: "kafka"})
    assert (reaped.total, "has no column acknowledged_by" in caplog.text) == (1, True)
    assert add_extension(outbox.owner_url, TableName(), "fan-out")
    with outbox.database.connect() as connection:
        give_rights(connection)
        connection.execute("UPDATE openoutbox_events SET acknowledged_by = '{cache}' WHERE event_id = %s", (ids[1],))
    reaped = await finder.reap_exactly([rows[one] for one in ids[1:]], {ids[1]: "kafka"})
    assert reaped.total == 2
    names: dict[str, list[str] | None] = dict(outbox.rows("event_id::text, acknowledged_by"))
    assert names == {ids[0]: None, ids[1]: ["cache", "kafka"], ids[2]: None}
    assert outbox.counts() == {"PENDING": 3}


async def test_transactions_with_routes_to_several_need_the_column(outbox: Outbox) -> None:
    options = storage_options(outbox.relay_url, "r", fan_out=True, durable_claims=True)
    storage = PostgresOutbox(options)
    with pytest.raises(SchemaError, match="relay-cli migrate --with fan-out") as raised:
        await storage.open()
    assert raised.value.sqlstate is None  # the relay does not wait for it
    await storage.close()
    assert add_extension(outbox.owner_url, TableName(), "fan-out")
    with outbox.database.connect() as connection:
        give_rights(connection)
    storage = PostgresOutbox(options)
    await storage.open()
    await storage.close()


@pytest.mark.parametrize("tag", ["durable", ""])
async def test_a_claim_that_proofs_name_is_on_disk_before_its_events_are_offered(outbox: Outbox, tag: str) -> None:
    outbox.insert([Row("a")])
    with outbox.database.connect() as connection:
        connection.execute(
            "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN NEW.last_error := current_setting('synchronous_commit'); RETURN NEW; END $$"
        )
        connection.execute(
            "CREATE TRIGGER note BEFORE UPDATE ON openoutbox_events FOR EACH ROW EXECUTE FUNCTION note()"
        )
    options = storage_options(outbox.relay_url, "r", durable_claims=bool(tag))
    storage = PostgresOutbox(options)
    await storage.open()
    await storage.claim(1, 1 << 30)
    await storage.close()
    assert outbox.rows("last_error") == [("on" if tag else "off",)]
