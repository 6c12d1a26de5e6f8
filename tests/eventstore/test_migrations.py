"""Upgrades: a store of any published state becomes what this release creates, and keeps its events and its rights."""

from __future__ import annotations

import asyncio
import hashlib
import re
from pathlib import Path

import psycopg
import pytest

from relay.core.errors import SchemaError, StorageBusy
from relay.eventstore import EventStore, NewEvent
from relay.eventstore.migration_list import StoreSchema
from relay.eventstore.statements import EventStoreStatements
from relay.postgres import migrations
from relay.postgres.migrate import migrate_async
from relay.postgres.migrations import SchemaHistory
from tests.eventstore.conftest import OTHER_TENANT, STREAM, TENANT, as_role
from tests.support.fixtures.postgres import Database, create_database, drop_database
from tests.support.waiting import patience

OLDEST = Path(__file__).parent / "history" / "oldest.sql"
NEWEST = StoreSchema(EventStoreStatements(), "gapless").newest
DIGESTS = {
    "gapless": "df14f00ff8661feb",
    "settled": "dfb4bdf6d66feaf8",
}
"""Of the definitions that the newest migration brings to existing stores."""


def load_oldest(database: Database, positions: str, role: str) -> None:
    """Create the store as the first release did, isolated for ``role``, with one tenant and one event."""
    _, *pairs = re.split(r"^-- part: (\w+)\n", OLDEST.read_text(encoding="utf-8"), flags=re.MULTILINE)
    parts = dict(zip(pairs[::2], pairs[1::2], strict=True))
    sql = parts["both"] + parts[positions] + parts["last"].replace("%(positions)s", positions)
    with psycopg.connect(database.url) as connection:
        connection.execute(sql.replace("app_role", f'"{role}"').encode())
        insert = "INSERT INTO Event (TenantId, StreamId, Version, Type, Meta) VALUES (%s, %s, 1, 'Old', '{}')"
        connection.execute(insert, (TENANT, STREAM))
    database.run(f'GRANT CONNECT ON DATABASE "{database.name}" TO "{role}"')


async def migrate_tables(database: Database, positions: str, version: int) -> None:
    """Bring the tables of the oldest store to ``version``; its functions stay those of the first release."""
    history = StoreSchema(EventStoreStatements(), positions)
    until = SchemaHistory(history._statements, history._migrations[:version], (), history._adopted_version)
    async with await psycopg.AsyncConnection.connect(database.url) as connection:
        await migrate_async(connection, until)


def described(database: Database) -> list[object]:
    """Columns, constraints, functions and triggers of the store, but not those of a tenant's partition."""
    own = "nspname = 'public' AND relname ~ '^event(_[a-z]+)*$'"
    return [
        *database.run(
            "SELECT relname, attname, format_type(atttypid, atttypmod), attnotnull, pg_get_expr(adbin, adrelid) "
            "FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace JOIN pg_attribute ON attrelid = c.oid "
            f"LEFT JOIN pg_attrdef ON adrelid = c.oid AND adnum = attnum WHERE {own} AND attnum > 0 ORDER BY 1, attnum"
        ),
        *database.run(
            "SELECT relname, conname, pg_get_constraintdef(k.oid) FROM pg_constraint k JOIN pg_class c ON "
            f"c.oid = conrelid JOIN pg_namespace n ON n.oid = relnamespace WHERE {own} ORDER BY 1, 2"
        ),
        *database.run(
            "SELECT proname, pg_get_functiondef(oid), (SELECT bool_or(grantee = 0) FROM aclexplode(proacl)) "
            "FROM pg_proc WHERE pronamespace = 'public'::regnamespace ORDER BY 1"
        ),
        *database.run("SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1"),
    ]


@pytest.mark.parametrize("version", [1, 3, 6])
async def test_an_older_store_becomes_what_a_new_one_is(
    database: Database, newest_description: list[object], positions: str, role: str, version: int
) -> None:
    load_oldest(database, positions, role)
    if version > 1:
        await migrate_tables(database, positions, version)
    async with await EventStore.connect(database.url) as store:
        applied = await store.migrate(positions=positions)  # type: ignore[arg-type]
        assert [migration.number for migration in applied.plan.pending] == list(range(version + 1, NEWEST + 1))
        assert described(database) == newest_description
        assert database.run("SELECT array_agg(Number ORDER BY Number) FROM event_migration") == [
            (list(range(1, NEWEST + 1)),)
        ]
        assert (await store.migrate(positions=positions)).up_to_date  # type: ignore[arg-type]
    async with await EventStore.connect(as_role(database.url, role), tenant=TENANT) as own:
        new = [NewEvent("New", event_id=STREAM)]
        assert await own.append(TENANT, STREAM, new, 1) == await own.append(TENANT, STREAM, new, 1)
        assert [event.type for event in await own.read_all()] == ["Old", "New"]
    confined = "SELECT array_agg(relname ORDER BY relname) FROM pg_class WHERE relrowsecurity"
    assert database.run(confined) == [(["event", "event_dropped_tenant", "event_feed", "event_id", "event_tombstone"],)]


async def test_a_role_that_subscribes_may_do_so_in_parts_after_the_upgrade(
    gapless_store: EventStore, database: Database, role: str
) -> None:
    """From migration 5, with tenants isolated: the new tables get the rights and the policy of the subscriptions."""
    await gapless_store.isolate_tenants(role)
    newer = ("subscription_slot", "subscription_member", "tombstone", "dropped_tenant", "parked", "secret")
    database.run("DROP TABLE " + ", ".join(f"event_{table}" for table in newer))
    columns = ("Grouped", "LeaseSeconds", "LastRead", "ReplayUntil")
    database.run("ALTER TABLE event_subscription " + ", ".join(f"DROP COLUMN {column}" for column in columns))
    database.run("ALTER TABLE event_position DROP COLUMN Part")
    database.run("ALTER TABLE event_position ADD CONSTRAINT pk_event_position PRIMARY KEY (OnlyRow)")
    database.run("DELETE FROM event_migration WHERE Number >= 7")
    await gapless_store.migrate()
    await gapless_store.append(TENANT, STREAM, [NewEvent("Old")], 0)
    url = as_role(database.url, role)
    async with await EventStore.connect(url, tenant=TENANT) as own:
        batches = own.subscribe("in parts", part=(1, 2))  # the part of STREAM
        assert [event.type for event in await anext(batches)] == ["Old"]
        await batches.aclose()
        assert [state.slots for state in await own.list_subscriptions()] == [256]
    async with await EventStore.connect(url, tenant=OTHER_TENANT) as other:
        assert await other.list_subscriptions() == []
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT 1 FROM event_subscription_slot").fetchall() == []


@pytest.fixture
async def newest_description(positions: str, postgres: str) -> list[object]:
    """What ``described`` returns for a new store."""
    database = create_database(postgres)
    try:
        async with await EventStore.connect(database.url) as store:
            await store.migrate(positions=positions)  # type: ignore[arg-type]
        return described(database)
    finally:
        drop_database(database)


@pytest.mark.parametrize("state", ["new", "oldest"])
async def test_concurrent_runs_apply_each_migration_once(database: Database, role: str, state: str) -> None:
    if state != "new":
        load_oldest(database, "gapless", role)
    async with await EventStore.connect(database.url) as store:
        results = await asyncio.gather(*(store.migrate() for _ in range(8)))
    assert [result.up_to_date for result in results].count(False) == 1
    assert database.run("SELECT count(*), max(Number) FROM event_migration") == [(NEWEST, NEWEST)]


async def test_a_dry_run_shows_what_is_pending_and_changes_nothing(database: Database, role: str) -> None:
    async with await EventStore.connect(database.url, schema="Not There") as absent:
        planned = await absent.migrate(dry_run=True)
        assert (planned.plan.version, len(planned.plan.pending)) == (0, NEWEST)
        assert database.run("SELECT 1 FROM pg_namespace WHERE nspname = 'Not There'") == []
    load_oldest(database, "gapless", role)
    before = described(database)
    async with await EventStore.connect(database.url) as store:
        planned = await store.migrate(dry_run=True)
        assert (planned.plan.version, planned.notify_changed) == (1, False)
        assert described(database) == before
        assert (await store.migrate()).plan.pending == planned.plan.pending


async def test_without_the_right_the_error_names_it(database: Database, role: str) -> None:
    database.run(f'GRANT CONNECT ON DATABASE "{database.name}" TO "{role}"')
    async with await EventStore.connect(as_role(database.url, role), schema="bank") as store:
        with pytest.raises(SchemaError, match=f'GRANT CREATE ON DATABASE ... TO "{role}"'):
            await store.migrate()
    assert database.run("SELECT 1 FROM pg_namespace WHERE nspname = 'bank'") == []


async def test_a_store_of_a_later_release_is_left_as_it_is(gapless_store: EventStore, database: Database) -> None:
    database.run("INSERT INTO event_migration (Number, Name) VALUES (9999, 'of a later release')")
    before = described(database)
    assert (await gapless_store.migrate()).up_to_date
    assert described(database) == before


async def test_an_upgrade_waits_for_a_lock_a_while_and_then_changes_nothing(
    database: Database, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every append would queue behind it."""
    monkeypatch.setattr(migrations, "LOCK_TIMEOUT", 0.1)
    load_oldest(database, "gapless", role)
    before = described(database)
    async with await EventStore.connect(database.url) as store:
        with database.connect(autocommit=False) as writer:
            writer.execute(
                "INSERT INTO Event (TenantId, StreamId, Version, Type, Meta) VALUES (%s, %s, 2, 'Open', '{}')",
                (TENANT, STREAM),
            )
            with pytest.raises(StorageBusy, match="lock timeout"):
                await asyncio.wait_for(store.migrate(), patience(20))
        assert described(database) == before
        assert not (await store.migrate()).up_to_date
        assert (await store.append(TENANT, STREAM, [NewEvent("Next")], 2)).version == 3


@pytest.mark.parametrize("positions", ["gapless", "settled"])
def test_a_changed_definition_comes_with_a_migration(positions: str) -> None:
    """Stores that exist get the definitions with a new migration only: add one, then change the digest."""
    definitions = StoreSchema(EventStoreStatements(), positions)._definitions
    code = "\n".join(re.sub(r"\s+", " ", re.sub(r"--[^\n]*", "", sql)) for sql in definitions)
    assert hashlib.sha256(f"{NEWEST}\n{code}".encode()).hexdigest()[:16] == DIGESTS[positions]


def test_migrations_are_numbered_without_a_gap() -> None:
    second = migrations.Migration(2, "second", ())
    with pytest.raises(ValueError, match="without a gap"):
        SchemaHistory(lambda name: "SELECT 0", (second,), (), "SELECT 0")
