"""Partitions: their bounds under any session, what the retention may drop, and what operators do to them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from relay.deliverylog import DeliveryLogError, ListAttempts, open_delivery_log
from relay.deliverylog.postgres.driver import PostgresDeliveryLog
from relay.deliverylog.postgres.partitions import month_after, month_of
from relay.postgres.connect import Connection
from tests.deliverylog.making import all_items, attempt_ids, entry
from tests.support.fixtures.postgres import Database

NOW = datetime.now(UTC)
OLD = NOW - timedelta(days=400)
MONTH = f"attempts_{OLD:%Y_%m}"


async def opened(database: Database, **options: object) -> PostgresDeliveryLog:
    store = await open_delivery_log(database.url, **{"months_ahead": 0, **options})  # type: ignore[arg-type]
    assert isinstance(store, PostgresDeliveryLog)
    return store


def tables(database: Database, schema: str = "openoutbox_log") -> list[str]:
    """The tables named like months of attempts, without the current one."""
    rows = database.run(
        "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind = 'r' "
        "AND relname ~ '^attempts_' AND relname <> %s ORDER BY 1",
        [schema, f"attempts_{NOW:%Y_%m}"],
    )
    return [str(name) for (name,) in rows]


@pytest.mark.parametrize(("style", "zone"), [("SQL, DMY", "Asia/Kolkata"), ("Postgres, MDY", "America/St_Johns")])
async def test_bounds_do_not_depend_on_the_session(log_database: Database, style: str, zone: str) -> None:
    """The output of some styles names a zone by letters that PostgreSQL reads as another one: IST."""
    log_database.run(f"ALTER DATABASE {log_database.name} SET datestyle = '{style}'")
    log_database.run(f"ALTER DATABASE {log_database.name} SET timezone = '{zone}'")
    store = await opened(log_database)
    edge = month_of(OLD)
    await store.insert_many([entry("before", edge - timedelta(milliseconds=1)), entry("at", edge)])
    rows = log_database.run(f"SELECT id FROM openoutbox_log.{MONTH}")
    assert rows == [("at",)]
    assert store.quarantined == 0
    await store.apply_retention((NOW - month_after(edge)).days + 2)
    assert attempt_ids(await all_items(store, ListAttempts())) == ["at"]
    await store.close()


@pytest.mark.parametrize("schema", ["events", "events_2000_01", "attempts"])
async def test_a_schema_may_have_the_name_of_a_table(database: Database, schema: str) -> None:
    store = await opened(database, schema=schema)
    await store.migrate()
    await store.insert_many([entry("old", OLD), entry("new", NOW)])
    await store.apply_retention(30)
    assert attempt_ids(await all_items(store, ListAttempts())) == ["new"]
    assert tables(database, schema) == []
    await store.close()


async def test_the_retention_drops_no_table_that_it_did_not_detach(log_database: Database) -> None:
    store = await opened(log_database)
    await store.insert_many([entry("old", OLD)])
    log_database.run(f"ALTER TABLE openoutbox_log.attempts DETACH PARTITION openoutbox_log.{MONTH}")
    log_database.run(f"COMMENT ON TABLE openoutbox_log.{MONTH} IS 'for the auditor'")
    log_database.run("CREATE TABLE openoutbox_log.attempts_2019_01 (note text)")
    await store.apply_retention(30)
    assert tables(log_database) == ["attempts_2019_01", MONTH]
    assert log_database.run(f"SELECT id FROM openoutbox_log.{MONTH}") == [("old",)]
    assert log_database.run("SELECT 1 FROM pg_class WHERE relname = %s", [f"events_{OLD:%Y_%m}"]) == []
    await store.close()


async def test_a_table_that_the_retention_detached_is_dropped_by_its_next_run(log_database: Database) -> None:
    """The run ended between the two: its connection was cut."""
    store = await opened(log_database)
    await store.insert_many([entry("old", OLD)])

    async def begin(connection: Connection) -> None:
        [month] = [one for one in await store.partitions.all(connection) if one.name == MONTH]
        for step in ("mark", "detach"):
            await connection.execute(store._sql.on_partition(f"partitions:{step}", "attempts", month.name))

    await store._pool.run("testing", begin)
    assert tables(log_database) == [MONTH]
    await store.apply_retention(30)
    assert tables(log_database) == []
    await store.close()


async def test_a_month_that_is_still_read_is_named_and_the_others_are_dropped(log_database: Database) -> None:
    store = await opened(log_database)
    await store.insert_many([entry("old", OLD)])
    with log_database.connect(autocommit=False) as reader:
        reader.execute(f"SELECT count(*) FROM openoutbox_log.{MONTH}".encode())
        with pytest.MonkeyPatch.context() as patch:
            text = store._sql.text
            patch.setattr(store._sql, "text", lambda *names: text(*names).replace("'10s'", "'300ms'"))
            with pytest.raises(DeliveryLogError, match=f"{MONTH}: still being read"):
                await store.apply_retention(30)
    assert tables(log_database) == [MONTH]
    comment = f"SELECT obj_description('openoutbox_log.{MONTH}'::regclass)"
    assert log_database.run(comment) == [(None,)]
    assert log_database.run("SELECT 1 FROM pg_class WHERE relname = %s", [f"events_{OLD:%Y_%m}"]) == []
    await store.apply_retention(30)
    assert tables(log_database) == []
    await store.close()


async def test_a_table_named_like_no_month_stops_nothing(log_database: Database) -> None:
    store = await opened(log_database)
    log_database.run("CREATE TABLE openoutbox_log.attempts_2019_13 (LIKE openoutbox_log.attempts)")
    log_database.run("CREATE TABLE openoutbox_log.events_0000_00 (note text)")
    await store.insert_many([entry("new", NOW)])
    assert attempt_ids(await all_items(store, ListAttempts())) == ["new"]
    assert await store.missing_months() == []
    await store.apply_retention(30)
    assert "attempts_2019_13" in tables(log_database)
    await store.close()


async def test_partitions_of_the_operators_own_bounds_count(log_database: Database) -> None:
    """A year in one table, in a schema of its own: its months exist, and it is not the retention's to drop."""
    log_database.run("CREATE SCHEMA archive")
    for parent in ("attempts", "events", "event_destinations"):
        log_database.run(f"CREATE TABLE archive.{parent} (LIKE openoutbox_log.{parent} INCLUDING ALL)")
        bounds = "FROM (MINVALUE) TO ('2019-01-01+00')"
        log_database.run(f"ALTER TABLE openoutbox_log.{parent} ATTACH PARTITION archive.{parent} FOR VALUES {bounds}")
    store = await opened(log_database)
    times = [datetime(2018, 5, 1, tzinfo=UTC), datetime(2019, 1, 1, tzinfo=UTC)]
    await store.insert_many([entry(f"a{n}", time) for n, time in enumerate(times)])
    assert log_database.run("SELECT id FROM archive.attempts") == [("a0",)]
    await store.apply_retention(30)
    assert attempt_ids(await all_items(store, ListAttempts())) == ["a0"]
    await store.close()


async def test_a_month_that_overlaps_the_operators_table_costs_its_entries_alone(log_database: Database) -> None:
    log_database.run("CREATE TABLE openoutbox_log.half (LIKE openoutbox_log.attempts INCLUDING ALL)")
    log_database.run(
        "ALTER TABLE openoutbox_log.attempts ATTACH PARTITION openoutbox_log.half "
        "FOR VALUES FROM ('2019-01-15+00') TO ('2019-02-15+00')"
    )
    store = await opened(log_database)
    day = datetime(2019, 1, 20, tzinfo=UTC)
    await store.insert_many([entry("overlapping", day), entry("new", NOW), entry("old", OLD)])
    assert attempt_ids(await all_items(store, ListAttempts())) == ["new", "old"]
    assert [one.reason for one in await store.list_quarantine(10)] == ["its month has no partition"]
    await store.close()


async def test_a_month_that_the_operator_detached_is_not_made_again(log_database: Database) -> None:
    store = await opened(log_database)
    await store.insert_many([entry("first", OLD)])
    log_database.run(f"ALTER TABLE openoutbox_log.attempts DETACH PARTITION openoutbox_log.{MONTH}")
    await store.insert_many([entry("second", OLD), entry("new", NOW)])
    assert attempt_ids(await all_items(store, ListAttempts())) == ["new"]
    assert store.quarantined == 1
    await store.close()
