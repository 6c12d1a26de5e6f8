"""Claims, settles and renewals are prepared where no pooler stands between, and go on when that comes to nothing."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from relay.core.errors import StorageError
from relay.core.event import Claim
from relay.core.storage import Settled, Settlement
from relay.outbox.extensions import add_extension
from relay.outbox.outbox_options import KeyOrder
from relay.outbox.storage import PostgresOutbox
from relay.postgres.connect import Connection, DeadlineConnection
from relay.postgres.prepared import Preparation, tags_of
from relay.postgres.sql import TableName
from tests.support.fixtures.outbox import Outbox, Row, through
from tests.support.options import storage_options

ANY_BYTES = 1 << 40
_SETTINGS = ("plan_cache_mode", "enable_seqscan", "enable_sort", "jit")
_CURRENT = "SELECT " + ", ".join(f"CURRENT_SETTING('{name}')" for name in _SETTINGS)
_NOTED = f"""
CREATE TABLE noted (plan_cache_mode text, enable_seqscan text, enable_sort text, jit text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS
$$ BEGIN INSERT INTO noted {_CURRENT}; RETURN NEW; END $$;
CREATE TRIGGER note BEFORE UPDATE ON openoutbox_events FOR EACH ROW EXECUTE FUNCTION note()
"""
_FINISHED = """
INSERT INTO openoutbox_events (event_id, event_type, payload, status, delivered_at)
SELECT gen_random_uuid(), 't', '', 'DELIVERED', now() FROM generate_series(1, 20000)
"""
_SCANS = "SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'openoutbox_events'"
_FORGET = "DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$"
_PLANS = "SELECT statement, generic_plans, custom_plans FROM pg_prepared_statements"


async def opened(outbox: Outbox, **changes: Any) -> PostgresOutbox:
    storage = PostgresOutbox(storage_options(outbox.relay_url, "relay", **changes))
    await storage.open()
    return storage


async def claimed(storage: PostgresOutbox, limit: int = 10) -> Claim:
    claim = await storage.claim(limit, ANY_BYTES)
    assert claim.events
    return claim


async def deliver(storage: PostgresOutbox, limit: int = 10) -> int:
    claim = await claimed(storage, limit)
    assert claim.fence is not None
    ids = [event.event_id for event in claim.events]
    assert await storage.settle([Settlement(claim.fence, delivered=ids)]) == [Settled(delivered=len(ids))]
    return len(ids)


async def asked(connection: DeadlineConnection, sql: Any) -> list[tuple[Any, ...]]:
    async def work(session: Connection) -> list[tuple[Any, ...]]:
        cursor = await session.execute(sql)
        return await cursor.fetchall() if cursor.description else []

    return await connection.run("asking", work)


async def prepares(connection: DeadlineConnection) -> bool:
    async def work(session: Connection) -> bool:
        return bool(tags_of(session))

    return await connection.run("asking", work)


@pytest.mark.session
@pytest.mark.parametrize("key_order", [None, KeyOrder.SKIP])
async def test_a_direct_session_plans_once_and_triggers_are_planned_as_ever(
    outbox: Outbox, key_order: KeyOrder | None
) -> None:
    add_extension(outbox.url, TableName(), "key-order")
    outbox.database.run(_NOTED)
    outbox.insert([Row("topic")] * 40)
    storage = await opened(outbox, key_order=key_order)
    for _ in range(3):
        await deliver(storage)
    claim = await claimed(storage)
    assert claim.fence is not None
    renewal = await storage.renew(claim.fence, [event.event_id for event in claim.events])
    assert len(renewal.held) == 10
    claims, settles = await asked(storage._claiming, _PLANS), await asked(storage._settling, _PLANS)
    await storage.close()
    assert [(generic, custom) for _, generic, custom in claims] == [(4, 0)]
    assert sorted((generic, custom) for _, generic, custom in settles) == [(1, 0), (3, 0)]
    assert set(outbox.database.run("SELECT * FROM noted")) == {("auto", "on", "on", "on")}


@pytest.mark.session
@pytest.mark.parametrize("key_order", [None, KeyOrder.SKIP])
async def test_plans_of_an_empty_table_do_not_read_all_of_what_it_becomes(
    outbox: Outbox, key_order: KeyOrder | None
) -> None:
    add_extension(outbox.url, TableName(), "key-order")
    outbox.database.run("ALTER TABLE openoutbox_events SET (autovacuum_enabled = off)")
    storage = await opened(outbox, key_order=key_order)
    scans = []
    for _ in range(3):
        outbox.insert([Row("topic")] * 6)
        await deliver(storage, 2)
        claim = await claimed(storage)
        assert claim.fence is not None
        ids = [event.event_id for event in claim.events]
        renewal = await storage.renew(claim.fence, ids)
        parts = Settlement(
            renewal.fence, delivered=ids[:2], retried=[(ids[2], "why", 3600.0)], buried=[(ids[3], "why")]
        )
        assert await storage.settle([parts]) == [Settled(delivered=2, retried=1, buried=1)]
        for connection in (storage._claiming, storage._settling):
            await asked(connection, "SELECT pg_stat_force_next_flush()")
        scans.append(outbox.database.run(_SCANS))
        outbox.database.run(_FINISHED)
    await storage.close()
    assert scans[1:] == [scans[0]] * 2


@pytest.mark.parametrize("preparation", [Preparation.AUTO, Preparation.OFF])
async def test_nothing_is_prepared_nor_set_behind_a_pooler(
    outbox: Outbox, pgbouncer: str, preparation: Preparation
) -> None:
    outbox.insert([Row("topic")] * 20)
    storage = await opened(through(outbox, pgbouncer), prepared=preparation)
    for _ in range(2):
        await deliver(storage)
    for connection in (storage._claiming, storage._settling):
        assert not await prepares(connection)
        assert await asked(connection, "SELECT FROM pg_prepared_statements") == []
        assert await asked(connection, _CURRENT) == [("auto", "on", "on", "on")]
    await storage.close()


@pytest.mark.session
async def test_off_prepares_nothing(outbox: Outbox) -> None:
    outbox.insert([Row("topic")] * 10)
    storage = await opened(outbox, prepared=Preparation.OFF)
    await deliver(storage)
    assert not await prepares(storage._claiming)
    assert await asked(storage._claiming, _CURRENT) == [("auto", "on", "on", "on")]
    await storage.close()


async def test_a_pooler_that_keeps_no_statement_costs_one_warning(
    outbox: Outbox, pgbouncer: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The fixture's PgBouncer is older than 1.21."""
    outbox.insert([Row("topic")] * 30)
    storage = await opened(through(outbox, pgbouncer), prepared=Preparation.ON)
    await deliver(storage)
    assert await prepares(storage._claiming)
    await asked(storage._claiming, _FORGET)  # as the server's other session answers
    await deliver(storage)
    await deliver(storage)
    assert not await prepares(storage._claiming)
    await storage.close()
    lines = [one for one in caplog.records if getattr(one, "action", "") == "preparing_ended"]
    assert [line.levelno for line in lines] == [logging.WARNING]


@pytest.mark.session
async def test_a_column_of_another_type_costs_no_claim(outbox: Outbox) -> None:
    outbox.insert([Row("topic")] * 20)
    storage = await opened(outbox)
    await deliver(storage)
    with outbox.database.connect() as owner:
        owner.execute("ALTER TABLE openoutbox_events ALTER COLUMN event_type TYPE varchar")
    await deliver(storage)
    assert await prepares(storage._claiming)
    await storage.close()


@pytest.mark.session
async def test_settles_that_were_refused_while_they_were_prepared_are_prepared_again(
    outbox: Outbox, caplog: pytest.LogCaptureFixture
) -> None:
    """The first statement fails, and the server never sees the others of its round trip."""
    outbox.insert([Row("topic")] * 3)
    storage = await opened(outbox)
    claim = await claimed(storage)
    assert claim.fence is not None
    first, second, third = (event.event_id for event in claim.events)
    with outbox.database.connect() as owner:
        owner.execute("ALTER TABLE openoutbox_events ADD CONSTRAINT never CHECK (status <> 'DELIVERED') NOT VALID")
    settlement = Settlement(claim.fence, delivered=[first], buried=[(second, "why")], released=[third])
    with pytest.raises(StorageError):
        await storage.settle([settlement])
    with outbox.database.connect() as owner:
        owner.execute("ALTER TABLE openoutbox_events DROP CONSTRAINT never")
    assert await storage.settle([settlement]) == [Settled(delivered=1, buried=1, released=1)]
    # One lets the second and third keep their plans; one was refused, and is taken back with others like it.
    assert len(await asked(storage._settling, _PLANS)) == 5
    assert await prepares(storage._settling)
    await storage.close()
    assert "preparing_ended" not in caplog.text


@pytest.mark.session
async def test_refusals_in_any_number_leave_a_bounded_number_of_statements(outbox: Outbox) -> None:
    outbox.insert([Row("topic")])
    storage = await opened(outbox)
    claim = await claimed(storage)
    assert claim.fence is not None
    with outbox.database.connect() as owner:
        owner.execute("ALTER TABLE openoutbox_events ADD CONSTRAINT never CHECK (status <> 'DELIVERED') NOT VALID")
    settlement = Settlement(claim.fence, delivered=[event.event_id for event in claim.events])
    for _ in range(80):
        with pytest.raises(StorageError):
            await storage.settle([settlement])
    assert len(await asked(storage._settling, _PLANS)) <= 32
    await storage.close()


@pytest.mark.session
async def test_the_plan_of_a_settle_or_renewal_hashes_its_list(outbox: Outbox) -> None:
    """Else each row is compared with the whole list."""
    outbox.insert([Row("topic")] * 600)
    storage = await opened(outbox)
    claim = await storage.claim(600, 1 << 40)
    assert claim.fence is not None
    event_ids = [event.event_id for event in claim.events]
    renewal = await storage.renew(claim.fence, event_ids)
    assert len(renewal.held) == 600
    long, short = event_ids[:500], event_ids[500:]
    settlements = [Settlement(renewal.fence, delivered=long), Settlement(renewal.fence, released=short[:50])]
    assert await storage.settle(settlements) == [Settled(delivered=500), Settled(released=50)]
    assert await storage.settle([Settlement(renewal.fence, delivered=short[50:])]) == [Settled(delivered=50)]
    names = await asked(storage._settling, "SELECT name FROM pg_prepared_statements WHERE statement LIKE '%UPDATE%'")
    assert len(names) == 3
    for (name,) in names:
        plan = await asked(storage._settling, f"EXPLAIN EXECUTE {name} ('{{}}', '', 'epoch')")
        assert "hashed SubPlan" in str(plan)
    await storage.close()


@pytest.mark.session
async def test_sizes_make_no_statements_of_their_own(outbox: Outbox) -> None:
    outbox.insert([Row("topic")] * 10)
    storage = await opened(outbox)
    for limit, most in [(1, 1000), (1, 100_000), (1, 1 << 40), (3, 1 << 40)]:
        assert (await storage.claim(limit, most)).events
    assert (await storage.claim(1, 1000, ["00000000-0000-4000-8000-000000000000"])).events  # type: ignore[list-item]
    assert (await storage.claim(1, 1000, without=["other"])).events
    statements = await asked(storage._claiming, "SELECT FROM pg_prepared_statements")
    await storage.close()
    assert len(statements) <= 3
