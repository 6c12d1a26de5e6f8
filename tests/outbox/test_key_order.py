"""The extension of order per key: what it adds, to which tables, and what writers notice of it."""

from __future__ import annotations

import asyncio
import uuid

import psycopg
import pytest

from openoutbox import NewEvent, enqueue
from openoutbox.schema import index_name
from relay.core.event import Claim
from relay.core.finding import Level
from relay.outbox.admin.outbox_check import check_storage
from relay.outbox.extensions import ORDER_INDEXES, add_extension
from relay.outbox.migrate import migrate, plan
from relay.outbox.outbox_options import KeyOrder
from relay.outbox.storage import PostgresOutbox
from relay.postgres.sql import TableName
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.fixtures.postgres import Database
from tests.support.options import storage_options
from tests.support.waiting import eventually

TABLE = TableName()
ORDER = "SELECT convert_from(payload, 'UTF8')::int FROM openoutbox_events ORDER BY insertion_order"


def test_the_contracts_table_with_it_is_still_the_contracts_table(outbox: Outbox) -> None:
    for _ in range(2):
        add_extension(outbox.owner_url, TABLE, "key-order")
    assert plan(outbox.owner_url, TABLE).up_to_date
    outbox.insert([Row("t")])
    assert outbox.database.run("SELECT count(insertion_order) FROM openoutbox_events") == [(1,)]


@pytest.mark.parametrize("name", ["public.orders", "Weird \"Name%s's", "x" * 63, "select"])
async def test_a_table_of_any_name_has_its_own(database: Database, name: str) -> None:
    tables = [TableName(), TableName.parse(name)]
    for table in tables:
        migrate(database.url, table)
        add_extension(database.url, table, "key-order")
    indexes = {name for (name,) in database.run("SELECT indexname::text FROM pg_indexes")}
    assert {index_name(table, role) for table in tables for role in ORDER_INDEXES} <= indexes
    storage = PostgresOutbox(storage_options(database.url, "relay", tables[1], key_order=KeyOrder.BLOCK))
    await storage.open()
    assert await storage.claim(10, 1000) == Claim(None, [])
    await storage.close()


def test_what_waits_already_is_numbered_by_its_age_and_before_all_that_comes(outbox: Outbox) -> None:
    for number in (3, 1, 2):
        outbox.insert([Row("t", str(number).encode(), "k")])
        outbox.database.run(
            "UPDATE openoutbox_events SET created_at = now() - make_interval(mins => %s) WHERE payload = %s",
            [10 - number, str(number).encode()],
        )
    outbox.insert([Row("t", b"0")])
    outbox.database.run("UPDATE openoutbox_events SET status = 'DELIVERED', delivered_at = now() WHERE payload = '0'")
    before = sorted(outbox.rows("event_id, updated_at"))
    add_extension(outbox.owner_url, TABLE, "key-order")
    assert sorted(outbox.rows("event_id, updated_at")) == before
    outbox.insert([Row("t", b"4", "k")])
    waiting = ORDER.replace("ORDER", "WHERE status = 'PENDING' ORDER")
    assert [number for (number,) in outbox.database.run(waiting)] == [1, 2, 3, 4]


def test_it_is_finer_than_a_transaction_and_an_insert(outbox: Outbox) -> None:
    add_extension(outbox.owner_url, TABLE, "key-order")
    with outbox.database.connect(autocommit=False) as connection:
        for start in (0, 50):
            numbers = range(start, start + 50)
            enqueue(connection, [NewEvent("t", str(number).encode(), partition_key="k") for number in numbers])
    assert [number for (number,) in outbox.database.run(ORDER)] == list(range(100))


def test_a_writer_that_may_only_insert_needs_no_more(outbox: Outbox) -> None:
    add_extension(outbox.owner_url, TABLE, "key-order")
    role = f"writer_{outbox.database.name}"
    outbox.database.run(f"CREATE ROLE {role}")
    try:
        outbox.database.run(f"GRANT INSERT ON openoutbox_events TO {role}")
        with outbox.database.connect() as connection:
            connection.execute(f"SET ROLE {role}".encode())
            plain = "INSERT INTO openoutbox_events (event_id, event_type, payload) VALUES (%s, 't', 'p')"
            connection.execute(plain, [uuid.uuid4()])
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("SELECT insertion_order FROM openoutbox_events")
        assert outbox.counts() == {"PENDING": 1}
    finally:
        outbox.database.run(f"DROP OWNED BY {role}")
        outbox.database.run(f"DROP ROLE {role}")


async def test_a_row_that_changes_while_a_claim_waits_for_it_is_not_claimed(outbox: Outbox) -> None:
    """Only the first row of a key is locked with SKIP LOCKED; an operator may be about to change one behind it."""
    add_extension(outbox.owner_url, TABLE, "key-order")
    first, second = outbox.insert([Row("t", b"", "a"), Row("t", b"", "a")])
    relay = PostgresOutbox(storage_options(outbox.relay_url, "relay", key_order=KeyOrder.SKIP))
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with outbox.database.connect(autocommit=False) as operator:
        operator.execute("UPDATE openoutbox_events SET status = 'DEAD' WHERE event_id = %s", [second])
        claiming = asyncio.create_task(relay.claim(10, 1 << 20))
        await eventually(lambda: outbox.database.run(waiting) == [(1,)])
        operator.commit()
    assert [event.event_id for event in (await claiming).events] == [first]
    assert outbox.row(second)["status"] == "DEAD"
    await relay.close()


async def test_a_sequence_that_a_move_left_behind_is_named_at_the_start_and_by_check(
    outbox: Outbox, caplog: pytest.LogCaptureFixture
) -> None:
    add_extension(outbox.owner_url, TABLE, "key-order")
    outbox.insert([Row("t", b"", "a")] * 3)
    options = storage_options(outbox.url, "relay", key_order=KeyOrder.SKIP)

    async def problems() -> list[str]:
        caplog.clear()
        relay = PostgresOutbox(options)
        await relay.open()
        await relay.close()
        findings, _ = check_storage(outbox.url, TABLE, 180.0, retention=1.0, in_order=True)
        errors = [one for one in findings if one.subject == "order" and one.level is Level.ERROR]
        assert [f"{one.message}; {one.advice}" for one in errors] == [one.getMessage() for one in caplog.records]
        return [one.advice for one in errors]

    assert await problems() == []
    outbox.database.run("ALTER TABLE openoutbox_events ALTER COLUMN insertion_order RESTART")
    [advice] = await problems()
    outbox.insert([Row("t", b"", "a")])
    assert await problems() == [advice]
    outbox.database.run(advice.partition(": ")[2])
    assert await problems() == []
