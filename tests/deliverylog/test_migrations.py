"""Upgrades: a log of a published release becomes what this release creates, and keeps its entries."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from relay.deliverylog import DeliveryLogBusy, ListAttempts, ListEvents, open_delivery_log
from relay.deliverylog.clickhouse.driver import ClickHouseDeliveryLog
from relay.deliverylog.clickhouse.migration_list import ClickHouseSchema
from relay.deliverylog.clickhouse.statements import ClickHouseStatements
from relay.deliverylog.postgres.driver import PostgresDeliveryLog
from relay.deliverylog.postgres.migration_list import LogSchema
from relay.deliverylog.postgres.statements import PostgresStatements
from relay.postgres import migrations
from relay.postgres.sql import DEFAULT_LOG_SCHEMA
from tests.deliverylog.conftest import drop_tables
from tests.deliverylog.making import all_items, attempt_ids, entry
from tests.support.fixtures.postgres import Database

HISTORY = Path(__file__).parent / "history"
POSTGRES = LogSchema(PostgresStatements(DEFAULT_LOG_SCHEMA))
CLICKHOUSE = ClickHouseSchema(ClickHouseStatements(""))._migrations
DIGEST = "90b5a52af6361961"
"""Of the definitions that the newest migration brings to existing logs in PostgreSQL."""
NOW = datetime.now(UTC)


def load_published(database: Database) -> None:
    """Create the log as the release did, with the month of now."""
    with psycopg.connect(database.url) as connection:
        connection.execute((HISTORY / "first_postgres.sql").read_bytes())
        connection.execute("SELECT openoutbox_log.ensure_month(now())")


def described(database: Database) -> list[object]:
    """Columns, indexes and functions of the log."""
    schema = "'openoutbox_log'::regnamespace"
    return [
        *database.run(
            "SELECT relname, attname, format_type(atttypid, atttypmod), attnotnull FROM pg_class JOIN pg_attribute "
            f"ON attrelid = pg_class.oid WHERE relnamespace = {schema} AND relkind <> 'i' AND attnum > 0 "
            "ORDER BY 1, attnum"
        ),
        *database.run("SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'openoutbox_log' ORDER BY 1"),
        *database.run(f"SELECT proname, pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = {schema} ORDER BY 1"),
    ]


async def opened(database: Database, **options: object) -> PostgresDeliveryLog:
    store = await open_delivery_log(database.url, **{"months_ahead": 0, **options})  # type: ignore[arg-type]
    assert isinstance(store, PostgresDeliveryLog)
    return store


async def test_a_published_log_becomes_what_a_new_one_is(database: Database, log_database: Database) -> None:
    load_published(database)
    store = await opened(database)
    await store.insert_many([entry("before", NOW), entry("bad", attempt_number=-1)])
    applied = await store.migrate()
    assert (applied.version, applied.recorded) == (1, False)
    assert [migration.number for migration in applied.pending] == list(range(2, POSTGRES.newest + 1))
    assert described(database) == described(log_database)
    assert (await store.migrate()).up_to_date
    await store.insert_many([entry("after", NOW)])
    assert sorted(attempt_ids(await all_items(store, ListAttempts()))) == ["after", "before"]
    assert len(await store.list_quarantine(10)) == 1
    await store.close()


@pytest.mark.parametrize("state", ["new", "published"])
async def test_concurrent_runs_apply_each_migration_once(database: Database, state: str) -> None:
    if state == "published":
        load_published(database)
    store = await opened(database)
    results = await asyncio.gather(*(store.migrate() for _ in range(4)))
    assert [result.up_to_date for result in results].count(False) == 1
    record = "SELECT count(*), max(number) FROM openoutbox_log.schema_migration"
    assert database.run(record) == [(POSTGRES.newest, POSTGRES.newest)]
    await store.close()


async def test_a_dry_run_shows_what_is_pending_and_changes_nothing(database: Database) -> None:
    absent = await opened(database, schema="absent")
    planned = await absent.migrate(dry_run=True)
    assert (planned.version, len(planned.pending)) == (0, POSTGRES.newest)
    assert database.run("SELECT 1 FROM pg_namespace WHERE nspname = 'absent'") == []
    await absent.close()
    load_published(database)
    before = described(database)
    store = await opened(database)
    planned = await store.migrate(dry_run=True)
    assert planned.version == 1
    assert described(database) == before
    assert (await store.migrate()).pending == planned.pending
    await store.close()


async def test_the_owner_of_the_schema_needs_no_right_on_the_database(database: Database) -> None:
    role = f"owner_{database.name}"
    database.run(f"CREATE ROLE {role} LOGIN")
    database.run(f"CREATE SCHEMA openoutbox_log AUTHORIZATION {role}")
    try:
        store = await open_delivery_log(database.url.replace("postgres@", f"{role}@"))
        await store.migrate()
        await store.close()
    finally:
        database.run(f"DROP OWNED BY {role}")
        database.run(f"DROP ROLE {role}")


async def test_an_upgrade_waits_for_a_lock_a_while_and_then_changes_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrations, "LOCK_TIMEOUT", 0.1)
    load_published(database)
    before = described(database)
    store = await opened(database)
    with database.connect(autocommit=False) as writer:
        writer.execute("INSERT INTO openoutbox_log.quarantine (reason, entry) VALUES ('open', '{}')")
        with pytest.raises(DeliveryLogBusy, match="lock timeout"):
            await store.migrate()
    assert described(database) == before
    assert not (await store.migrate()).up_to_date
    await store.close()


def test_a_changed_definition_comes_with_a_migration() -> None:
    """Logs that exist get the definitions with a new migration only: add one, then change the digest."""
    code = "\n".join(re.sub(r"\s+", " ", re.sub(r"--[^\n]*", "", sql)) for sql in POSTGRES._definitions)
    assert hashlib.sha256(f"{POSTGRES.newest}\n{code}".encode()).hexdigest()[:16] == DIGEST


def clickhouse_names(text: str, prefix: str) -> str:
    return re.sub(r"\bevent_log", f"{prefix}event_log", text)


@pytest.fixture
async def published(chdb_folder: Path, prefix: str) -> AsyncIterator[ClickHouseDeliveryLog]:
    """A log as the release created it in ClickHouse."""
    store = await open_delivery_log(f"chdb:///{chdb_folder}", prefix=prefix)
    assert isinstance(store, ClickHouseDeliveryLog)
    text = re.sub(r"--.*", "", (HISTORY / "first_clickhouse.sql").read_text(encoding="utf-8"))
    for statement in filter(str.strip, text.split(";\n")):
        await store._client.command(clickhouse_names(statement, prefix))
    yield store
    await drop_tables(store, prefix)
    await store.close()


async def tables(store: ClickHouseDeliveryLog, prefix: str) -> list[tuple[str, str]]:
    rows = await store._client.rows(
        "SELECT name, create_table_query FROM system.tables WHERE database = currentDatabase() "
        "AND startsWith(name, {prefix:String}) ORDER BY name",
        {"prefix": prefix},
    )
    return [(str(name).removeprefix(prefix), str(query).replace(prefix, "")) for name, query in rows]


@pytest.mark.xdist_group("clickhouse")
async def test_a_published_log_in_clickhouse_becomes_what_a_new_one_is(
    published: ClickHouseDeliveryLog, prefix: str, chdb_folder: Path
) -> None:
    await published.insert_many([entry("before", NOW)])
    planned = await published.migrate(dry_run=True)
    assert [migration.number for migration in planned.pending] == [one.number for one in CLICKHOUSE]
    assert "event_log_migration" not in dict(await tables(published, prefix))
    results = await asyncio.gather(published.migrate(), published.migrate())
    assert [migration.number for migration in results[0].pending] == [one.number for one in CLICKHOUSE]
    assert (await published.migrate()).up_to_date
    await published.insert_many([entry("after", NOW)])
    assert sorted(attempt_ids(await all_items(published, ListAttempts()))) == ["after", "before"]
    assert sorted(one.id for one in await all_items(published, ListEvents())) == ["e-after", "e-before"]
    new = await open_delivery_log(f"chdb:///{chdb_folder}", prefix=f"n{prefix}")
    assert isinstance(new, ClickHouseDeliveryLog)
    await new.migrate()
    assert await tables(published, prefix) == await tables(new, f"n{prefix}")
    await drop_tables(new, f"n{prefix}")
    await new.close()
