"""What only the PostgreSQL driver has: partitions, rights, the server's zone and collation, what it refuses."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg
import pytest

from relay.core.errors import ConfigError
from relay.deliverylog import (
    DeliveryLogError,
    DeliveryLogUnavailable,
    Granularity,
    ListAttempts,
    ListEvents,
    MetricsQuery,
    ResourceLimit,
    TimeWindow,
    open_delivery_log,
)
from relay.deliverylog.postgres.driver import PostgresDeliveryLog
from relay.deliverylog.postgres.partitions import month_after, month_of
from tests.deliverylog.making import BASE, all_items, attempt_ids, entry, event, ms
from tests.support.fixtures.postgres import Database
from tests.support.waiting import eventually, wait_until_async


async def opened(database: Database, **options: object) -> PostgresDeliveryLog:
    store = await open_delivery_log(database.url, **{"months_ahead": 0, **options})  # type: ignore[arg-type]
    assert isinstance(store, PostgresDeliveryLog)
    return store


def tables(database: Database, parent: str = "attempts") -> list[str]:
    rows = database.run(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ ('^' || %s || '_[0-9]{4}') ORDER BY 1", [parent]
    )
    return [str(name) for (name,) in rows]


async def test_its_connections_have_a_name(database: Database) -> None:
    store = await opened(database)
    named = "SELECT DISTINCT application_name FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()"
    assert database.run(named, [database.name]) == [("openoutbox-relay-log",)]
    await store.close()


async def test_months_are_made_ahead_and_there_is_no_default_partition(database: Database) -> None:
    store = await opened(database, months_ahead=3)
    await store.migrate()
    now = month_of(datetime.now(UTC))
    expected = [f"{month_after(now, count):%Y_%m}" for count in range(4)]
    for parent in ("attempts", "events", "event_destinations"):
        assert tables(database, parent) == [f"{parent}_{month}" for month in expected]
    assert database.run("SELECT 1 FROM pg_partitioned_table WHERE partdefid <> 0") == []
    assert await store.missing_months() == []
    database.run(f"DROP TABLE openoutbox_log.attempts_{expected[-1]}")
    assert [f"{month:%Y_%m}" for month in await store.missing_months()] == expected[-1:]
    await store.close()


async def test_a_month_that_is_missing_is_made_on_demand_within_the_retention(log_database: Database) -> None:
    store = await opened(log_database, retention_days=400)
    now = datetime.now(UTC)
    await store.insert_many(
        [entry("within", now - timedelta(days=390)), entry("beyond", now - timedelta(days=500)), entry("now", now)]
    )
    assert attempt_ids(await all_items(store, ListAttempts())) == ["now", "within"]
    assert store.quarantined == 1
    quarantined = log_database.run("SELECT reason, entry::json -> 'attempt' ->> 'id' FROM openoutbox_log.quarantine")
    assert quarantined == [("its month has no partition", "beyond")]
    await store.close()


async def test_an_attempt_of_an_event_beyond_the_retention_is_written_without_the_events_row(
    log_database: Database,
) -> None:
    store = await opened(log_database, retention_days=400)
    now = datetime.now(UTC)
    old = event("old", now - timedelta(days=500), data=b"payload")
    late = [entry("late", now, old), entry("now", now - ms(1)), entry("beyond", old.time, old)]
    for batch in (late, [entry("again", now - ms(2), old, attempt_number=2)]):
        await store.insert_many(batch)
    listed = await all_items(store, ListAttempts())
    assert attempt_ids(listed) == ["late", "now", "again"]
    assert [record.event.data for record in listed if record.event.id == "old"] == [b"payload"] * 2
    assert [one.id for one in await all_items(store, ListEvents())] == [listed[1].event.id]
    assert await store.retrieve_event("old") is None
    assert store.quarantined == 1
    months = log_database.run("SELECT relname FROM pg_class WHERE relname LIKE 'events_20%' ORDER BY 1 LIMIT 1")
    assert months == [(f"events_{now - timedelta(days=1):%Y_%m}",)] or months == [(f"events_{now:%Y_%m}",)]
    await store.close()


async def test_equal_entries_are_quarantined_once_and_the_retention_covers_them(log_database: Database) -> None:
    store = await opened(log_database)
    bad = [entry(name, BASE, attempt_number=-1) for name in ("a", "a", "b")]
    for batch in (bad, bad[1:]):
        await store.insert_many(batch)
    quarantined = "SELECT entry::json -> 'attempt' ->> 'id' FROM openoutbox_log.quarantine ORDER BY number"
    assert log_database.run(quarantined) == [("a",), ("b",)]
    log_database.run("UPDATE openoutbox_log.quarantine SET quarantined_at = now() - interval '8 days' WHERE number = 1")
    await store.apply_retention(7)
    assert log_database.run(quarantined) == [("b",)]
    await store.close()


async def test_pages_are_whole_however_many_months_they_span(log_database: Database) -> None:
    """Where the months that are looked at first do not fill a page, the others do."""
    store = await opened(log_database)
    times = [
        datetime(2025, 1, 15, tzinfo=UTC) + timedelta(days=30 * month) + ms(n) for month in range(9) for n in (0, 1)
    ]
    await store.insert_many([entry(f"a{n:02d}", time) for n, time in enumerate(times)])
    ids = [f"a{n:02d}" for n in range(len(times))]
    reader = await opened(log_database)
    for limit in (1, 3, 5, 17, 100):
        assert attempt_ids(await all_items(reader, ListAttempts(limit=limit))) == ids[::-1]
        assert attempt_ids(await all_items(reader, ListAttempts(limit=limit, order="asc"))) == ids
        spring = TimeWindow(gte=times[2], lt=times[14])
        assert attempt_ids(await all_items(reader, ListAttempts(limit=limit, time=spring))) == ids[2:14][::-1]
    await store.close()
    await reader.close()


async def test_without_the_right_to_create_tables_the_months_must_be_there(log_database: Database) -> None:
    name = f"writer_{log_database.name}"
    log_database.run(f"CREATE ROLE {name} LOGIN")
    log_database.run(f"GRANT USAGE ON SCHEMA openoutbox_log TO {name}")
    log_database.run(f"GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA openoutbox_log TO {name}")
    try:
        writer = await open_delivery_log(log_database.url.replace("postgres@", f"{name}@"), months_ahead=0)
        now = datetime.now(UTC)
        await writer.insert_many([entry("now", now), entry("old", now - timedelta(days=100))])
        assert attempt_ids(await all_items(writer, ListAttempts())) == ["now"]
        assert writer.quarantined == 1
        await writer.close()
    finally:
        log_database.run(f"DROP OWNED BY {name}")
        log_database.run(f"DROP ROLE {name}")


async def test_a_month_that_was_dropped_behind_the_writers_back_is_made_again(log_database: Database) -> None:
    store = await opened(log_database)
    old = datetime.now(UTC) - timedelta(days=200)
    await store.insert_many([entry("first", old)])
    other = await opened(log_database)
    await other.apply_retention(30)
    await store.insert_many([entry("second", old)])
    assert attempt_ids(await all_items(store, ListAttempts())) == ["second"]
    await store.close()
    await other.close()


async def test_retention_does_not_make_writers_wait(log_database: Database) -> None:
    """A reader of the old month holds the drop up; a writer of this month goes on meanwhile."""
    store = await opened(log_database)
    now = datetime.now(UTC)
    old = now - timedelta(days=200)
    await store.insert_many([entry("old", old)])
    with log_database.connect(autocommit=False) as reader:
        reader.execute(f"SELECT count(*) FROM openoutbox_log.attempts_{old:%Y_%m}".encode())
        dropping = asyncio.create_task(store.apply_retention(30))

        async def waiting() -> bool:
            return bool(log_database.waiting_for_locks())

        await wait_until_async(waiting, what="the drop waits for the reader")
        await store.insert_many([entry(f"new{n}", now + ms(n)) for n in range(5)])
        assert len((await store.list_attempts(ListAttempts(time=TimeWindow(gte=now)))).items) == 5
        assert not dropping.done()
        reader.rollback()
    await dropping
    assert f"attempts_{old:%Y_%m}" not in tables(log_database)
    await store.close()


async def test_an_interrupted_drop_is_completed_by_the_next(log_database: Database) -> None:
    store = await opened(log_database)
    old = datetime.now(UTC) - timedelta(days=200)
    await store.insert_many([entry("old", old)])
    month = f"attempts_{old:%Y_%m}"
    with log_database.connect(autocommit=False) as reader, log_database.connect() as dropper:
        reader.execute(f"SELECT count(*) FROM openoutbox_log.{month}".encode())
        dropper.execute("SET lock_timeout = '50ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            dropper.execute(
                f"ALTER TABLE openoutbox_log.attempts DETACH PARTITION openoutbox_log.{month} CONCURRENTLY".encode()
            )
        reader.rollback()
    assert log_database.run("SELECT 1 FROM pg_inherits WHERE inhdetachpending") == [(1,)]
    await store.apply_retention(30)
    assert month not in tables(log_database)
    await store.close()


async def test_ten_processes_may_make_the_same_month(log_database: Database) -> None:
    stores = [await opened(log_database) for _ in range(10)]
    old = datetime.now(UTC) - timedelta(days=300)
    await asyncio.gather(*(store.insert_many([entry(f"a{n}", old)]) for n, store in enumerate(stores)))
    assert len(await all_items(stores[0], ListAttempts())) == 10
    for store in stores:
        await store.close()


async def test_batches_in_opposite_order_do_not_deadlock(log_database: Database) -> None:
    """Not even so that trying again would hide it: the server counts deadlocks when a session ends."""
    stores = [await opened(log_database) for _ in range(4)]
    batch = [entry(f"a{n:03d}", BASE + ms(n), event(f"e{n:03d}", BASE)) for n in range(300)]
    for _ in range(5):
        await asyncio.gather(*(s.insert_many(batch[::-1] if n % 2 else batch) for n, s in enumerate(stores)))
    assert len(await all_items(stores[0], ListAttempts(limit=1000))) == len(batch)
    for store in stores:
        await store.close()

    async def gone() -> bool:
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        return log_database.run(query) == [(0,)]

    await wait_until_async(gone, what="every session has ended")
    assert log_database.run("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == [(0,)]


async def test_rows_are_copied_until_one_exists_and_again_after_a_batch_of_new_ones(log_database: Database) -> None:
    store = await opened(log_database)
    a, b, c, d = ([entry(f"{name}{n}", BASE + ms(n)) for n in range(3)] for name in "abcd")
    others = [entry(f"other-{one.attempt.id}", one.attempt.time, one.event) for one in d]
    retries = [entry(f"retry-{one.attempt.id}", one.attempt.time, one.event, attempt_number=2) for one in d]
    ways = []
    for batch in (a, a, b, c, d, retries, others, [*others, *c, entry("e")]):
        ways.append((store._inserts.expects_new_events, store._inserts.expects_new_attempts))
        await store.insert_many(batch)
    new, known = (True, True), (False, False)
    assert ways == [new, new, known, new, new, new, new, (False, True)]
    attempts = await all_items(store, ListAttempts())
    assert len(attempts) == 4 * 3 + 2 * 3 + 1
    assert len(await all_items(store, ListEvents())) == 4 * 3 + 1
    assert store.quarantined == 0
    await store.close()


async def test_row_level_security_and_the_encoding_of_the_session_change_nothing(log_database: Database) -> None:
    """COPY is refused under row-level security, and its lines are text of the session's encoding."""
    writer = f"writer_{uuid4().hex[:8]}"
    log_database.run(f"CREATE ROLE {writer} LOGIN")
    log_database.run(f"GRANT USAGE ON SCHEMA openoutbox_log TO {writer}")
    for table in ("events", "event_destinations", "attempts"):
        log_database.run(f"GRANT SELECT, INSERT, UPDATE ON openoutbox_log.{table} TO {writer}")
        log_database.run(f"ALTER TABLE openoutbox_log.{table} ENABLE ROW LEVEL SECURITY")
        log_database.run(f"CREATE POLICY all_rows ON openoutbox_log.{table} USING (true)")
    for number, user in enumerate(("postgres", writer)):  # the owner first, who may create the month
        url = f"{log_database.url.replace('postgres@', f'{user}@')}?client_encoding=latin1"
        store = await open_delivery_log(url, months_ahead=0)
        await store.insert_many([entry(f"é{number}", BASE + ms(number))])
        await store.close()
    owner = await opened(log_database)
    assert attempt_ids(await all_items(owner, ListAttempts(order="asc"))) == ["é0", "é1"]
    await owner.close()
    log_database.run(f"DROP OWNED BY {writer}")
    log_database.run(f"DROP ROLE {writer}")


async def test_the_servers_zone_changes_nothing(log_database: Database) -> None:
    log_database.run(f"ALTER DATABASE {log_database.name} SET timezone = 'America/St_Johns'")
    store = await opened(log_database)
    edge = datetime(2026, 3, 1, 0, 0, 0, tzinfo=UTC)
    await store.insert_many([entry("before", edge - ms(1)), entry("at", edge)])
    records = (await store.list_attempts(ListAttempts(order="asc"))).items
    assert [record.attempt.time for record in records] == [edge - ms(1), edge]
    assert records[0].attempt.time.utcoffset() == timedelta(0)
    assert "attempts_2026_02" in tables(log_database)
    metrics = await store.attempt_metrics(
        MetricsQuery(
            start=edge - timedelta(days=1), end=edge + ms(1), measures=["count"], granularity=Granularity(1, "d")
        )
    )
    assert [(row["time"], row["count"]) for row in metrics.rows] == [(edge - timedelta(days=1), 1), (edge, 1)]
    months = await store.attempt_metrics(
        MetricsQuery(
            start=edge - timedelta(days=1), end=edge + ms(1), measures=["count"], granularity=Granularity(1, "M")
        )
    )
    assert [row["count"] for row in months.rows] == [1, 1]
    await store.close()


async def test_ids_have_the_collation_of_bytes(log_database: Database) -> None:
    rows = log_database.run(
        "SELECT count(*) FILTER (WHERE c.collname = 'C'), count(*) FROM pg_attribute a "
        "JOIN pg_collation c ON c.oid = a.attcollation WHERE attrelid IN "
        "('openoutbox_log.events'::regclass, 'openoutbox_log.attempts'::regclass) "
        "AND attname IN ('id', 'event_id', 'tenant_id', 'destination_id', 'topic', 'destination_type', 'status')"
    )
    assert rows[0][0] == rows[0][1] == 11


async def test_what_the_database_refuses_of_one_entry_does_not_cost_the_others(log_database: Database) -> None:
    """A constraint stands for whatever only the database knows to be bad."""
    log_database.run("ALTER TABLE openoutbox_log.attempts ADD CHECK (code IS DISTINCT FROM 'cursed')")
    store = await opened(log_database)
    batch = [entry(f"a{n:02d}", BASE + ms(n), code="cursed" if n % 17 == 3 else None) for n in range(40)]
    await store.insert_many(batch)
    assert len(await all_items(store, ListAttempts())) == 37
    assert store.quarantined == 3
    await store.close()


async def test_errors_say_what_is_wrong(database: Database) -> None:
    with pytest.raises(ConfigError, match="schema name"):
        await open_delivery_log(database.url, schema="no-such;")
    store = await opened(database)
    with pytest.raises(DeliveryLogError, match="relay-cli log migrate"):
        await store.list_attempts(ListAttempts())
    with pytest.raises(DeliveryLogError, match="relay-cli log migrate"):
        await store.insert_many([entry("a")])
    await store.close()
    with pytest.raises(ConfigError, match="begins with postgres"):
        await open_delivery_log("mysql://x")


async def test_a_schema_of_another_name_holds_everything(database: Database) -> None:
    store = await opened(database, schema="Delivery_Log")
    await store.migrate()
    await store.insert_many([entry("a")])
    assert attempt_ids(await all_items(store, ListAttempts())) == ["a"]
    await store.apply_retention(1)
    assert await all_items(store, ListAttempts()) == []
    assert database.run("SELECT count(*) FROM pg_namespace WHERE nspname = 'openoutbox_log'") == [(0,)]
    await store.close()


async def test_the_newest_major_version_works_too(newest_database: Database) -> None:
    store = await opened(newest_database)
    await store.migrate()
    await store.insert_many([entry(f"a{n}", BASE + ms(n)) for n in range(5)])
    assert len(await all_items(store, ListAttempts(limit=2))) == 5
    await store.apply_retention(1)
    assert await all_items(store, ListAttempts()) == []
    await store.close()


async def test_a_database_that_is_away_is_unavailable() -> None:
    with pytest.raises(DeliveryLogUnavailable):
        await open_delivery_log("postgres://nobody@127.0.0.1:1/none")


async def test_a_read_that_takes_too_long_is_cancelled_and_says_so(log_database: Database) -> None:
    store = await open_delivery_log(log_database.url, months_ahead=0)
    assert isinstance(store, PostgresDeliveryLog)
    with pytest.raises(ResourceLimit, match=r"longer than 0\.3 s and was cancelled"):
        await store._pool.read(lambda connection: connection.execute("SELECT pg_sleep(60)"), 0.3)
    running = (
        "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)' AND datname = current_database()"
    )
    await eventually(lambda: log_database.run(running) == [(0,)], what="the server to end the statement")
    assert (await store.list_attempts(ListAttempts())).items == []
    await store.close()
