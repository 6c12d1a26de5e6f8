"""The counter of a gapless store, which a transaction updates once for each event of a plain INSERT."""

from __future__ import annotations

import random
import uuid

import psycopg
import pytest
from psycopg.rows import TupleRow

from relay.eventstore import ANY, EventStore, NewEvent
from tests.eventstore.conftest import OTHER_TENANT, STREAM, TENANT
from tests.support.fixtures.postgres import Database

INSERT = (
    "INSERT INTO event (TenantId, StreamId, Version, Type, Meta) "
    "SELECT %s, gen_random_uuid(), 1, 'E', '{}' FROM generate_series(1, %s)"
)
SET = "SELECT set_config('eventstore.counter_' || 'event'::regclass::oid, %s, %s)"
VISITS = "SELECT pg_stat_get_xact_blocks_hit('event_position'::regclass)"

pytestmark = pytest.mark.usefixtures("gapless_store")


def visits(database: Database, statements: int, rows: int) -> int:
    """Visits to blocks of the counter by one transaction of that many statements with so many rows each."""
    with database.connect() as connection, connection.transaction():
        for _ in range(statements):
            connection.execute(INSERT, (TENANT, rows))
        [count] = connection.execute(VISITS).fetchone() or (0,)
    return int(count)


def test_a_transaction_visits_the_counter_in_proportion_to_its_events(database: Database) -> None:
    """Not in proportion to their square: each event leaves a version of the row behind."""
    assert visits(database, 1, 4000) < 6 * visits(database, 1, 1000)
    assert visits(database, 800, 1) < 6 * visits(database, 200, 1)


def test_a_snapshot_that_stays_open_makes_no_append_slower(database: Database) -> None:
    """It keeps every version of the counter's row; an append meets those of the newest positions only."""
    database.run(
        "CREATE PROCEDURE appends(n INT) LANGUAGE plpgsql AS $$ BEGIN FOR i IN 1..n LOOP "
        f"PERFORM event_append('{TENANT}', gen_random_uuid(), 0, '{{E}}', '{{\"{{}}\"}}', '{{1}}'); COMMIT; "
        "END LOOP; END $$"
    )
    with database.connect() as report, report.transaction():
        report.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        report.execute("SELECT Newest FROM event_horizon()")
        database.run("CALL appends(4000)")
        assert database.run("SELECT pg_relation_size('event_position') / 8192 > 20") == [(True,)]
        assert visits(database, 1, 1) < 20
        assert database.run("SELECT Newest FROM event_horizon()") == [(4001,)]
        assert report.execute("SELECT Newest FROM event_horizon()").fetchone() == (0,)


def stored(database: Database) -> list[int]:
    """The positions; those of the feed are the same."""
    [positions, feed] = [
        [number for (number,) in database.run(f"SELECT SequenceNum FROM {table} ORDER BY 1")]
        for table in ("event", "event_feed")
    ]
    assert positions == feed
    return positions


def insert(connection: psycopg.Connection[TupleRow], rows: int) -> None:
    connection.execute(INSERT, (random.choice((TENANT, OTHER_TENANT)), rows))


def test_rolled_back_savepoints_leave_no_gap(database: Database) -> None:
    chance, total = random.Random(14), 0
    with database.connect() as connection:
        for _ in range(20):
            with connection.transaction(force_rollback=chance.random() < 0.3) as outer:
                written = 0
                for _ in range(chance.randrange(5)):
                    undone, rows = chance.random() < 0.5, chance.randrange(4)
                    with connection.transaction(force_rollback=undone):
                        insert(connection, rows)
                        with connection.transaction(force_rollback=chance.random() < 0.5) as inner:
                            insert(connection, 2)
                    written += 0 if undone else rows + (0 if inner.force_rollback else 2)
            total += 0 if outer.force_rollback else written
    assert stored(database) == list(range(1, total + 1))


async def test_a_statement_within_a_statement_draws_positions_of_its_own(database: Database) -> None:
    """Of the same store, and of another one in the database."""
    async with await EventStore.connect(database.url, schema="second") as second:
        await second.migrate()
        await second.provision_tenant(TENANT)
    for schema in ("public", "second"):
        database.run(
            f"CREATE FUNCTION {schema}.also() RETURNS uuid LANGUAGE plpgsql AS $$ "
            "DECLARE stream uuid := gen_random_uuid(); BEGIN "
            f"INSERT INTO {schema}.event (TenantId, StreamId, Version, Type, Meta) "
            f"VALUES ('{TENANT}', stream, 1, 'Inner', '{{}}'); "
            "RETURN gen_random_uuid(); END $$"
        )
    with database.connect() as connection, connection.transaction():
        for schema in ("public", "second"):
            connection.execute(INSERT.replace("gen_random_uuid", f"{schema}.also"), (OTHER_TENANT, 3))
            insert(connection, 2)
    assert stored(database) == list(range(1, 14))
    assert database.run("SELECT array_agg(SequenceNum ORDER BY 1) FROM second.event") == [([1, 2, 3],)]


async def test_a_session_that_changes_the_setting_gets_no_position_twice(
    gapless_store: EventStore, database: Database
) -> None:
    """The setting tells where the counter's row is, not which position is next."""
    await gapless_store.append(TENANT, STREAM, [NewEvent("A"), NewEvent("B")], ANY)
    with database.connect() as connection:
        for place in ("(0,1)", "(7,7)", ""):
            connection.execute(SET, (place, False))
            insert(connection, 2)
            with connection.transaction():
                insert(connection, 2)
                connection.execute(SET, (place, True))
                insert(connection, 2)
    await gapless_store.append(TENANT, uuid.uuid4(), [NewEvent("C")], ANY)
    assert stored(database) == list(range(1, 22))
