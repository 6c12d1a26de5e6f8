"""Migrate makes the contract's table, completes one that lacks indexes, and leaves any other alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from openoutbox.schema import index_name
from relay.core.errors import ConfigError, SchemaError, StorageBusy, StorageUnavailable
from relay.outbox.extensions import add_extension
from relay.outbox.migrate import migrate, plan
from relay.outbox.schema import INDEXES
from relay.outbox.schema_diff import FoundIndex, missing_indexes
from relay.postgres.sql import TableName, load_sql, quote_identifier
from tests.support.fixtures.outbox import Outbox
from tests.support.fixtures.postgres import Database, create_database, drop_database

DEFAULT = TableName()

BY_HAND = """
CREATE TABLE openoutbox_events (
  event_id UUID PRIMARY KEY, event_type TEXT NOT NULL, partition_key TEXT, payload BYTEA NOT NULL,
  headers JSONB NOT NULL DEFAULT '{}', status TEXT NOT NULL DEFAULT 'PENDING', attempts INT NOT NULL DEFAULT 0,
  last_error TEXT, available_at TIMESTAMPTZ NOT NULL DEFAULT NOW(), locked_by TEXT, locked_at TIMESTAMPTZ,
  delivered_at TIMESTAMPTZ, created_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
  updated_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
  CONSTRAINT check_valid_status CHECK (status IN ('PENDING', 'DELIVERING', 'DELIVERED', 'DEAD'))
);
CREATE INDEX idx_openoutbox_processing_queue ON openoutbox_events (available_at ASC, created_at ASC)
  WHERE status = 'PENDING';
CREATE INDEX idx_openoutbox_stuck_leases ON openoutbox_events (locked_at ASC) WHERE status = 'DELIVERING';
CREATE INDEX idx_openoutbox_metrics_count ON openoutbox_events (status) INCLUDE (attempts) WHERE status = 'PENDING';
CREATE INDEX idx_openoutbox_metrics_lag ON openoutbox_events (status, created_at ASC) WHERE status = 'PENDING';
CREATE INDEX idx_openoutbox_prune_delivered ON openoutbox_events (delivered_at) WHERE status = 'DELIVERED';
CREATE INDEX idx_openoutbox_prune_dead ON openoutbox_events (updated_at) WHERE status = 'DEAD';
"""
"""The contract's first section, typed again by hand."""

CATALOG = """
SELECT 'column', attname::text, format_type(atttypid, atttypmod), attnotnull::text, pg_get_expr(adbin, adrelid)
FROM pg_attribute LEFT JOIN pg_attrdef ON attrelid = adrelid AND attnum = adnum
WHERE attrelid = 'openoutbox_events'::regclass AND attnum > 0
UNION ALL
SELECT 'index', indexrelid::regclass::text, pg_get_indexdef(indexrelid), indisvalid::text, NULL
FROM pg_index WHERE indrelid = 'openoutbox_events'::regclass
UNION ALL
SELECT 'constraint', conname::text, pg_get_constraintdef(oid), contype::text, NULL
FROM pg_constraint WHERE conrelid = 'openoutbox_events'::regclass AND contype IN ('c', 'p')
ORDER BY 1, 2
"""


def _names(database: Database) -> set[str]:
    return {name for (name,) in database.run("SELECT indexname::text FROM pg_indexes WHERE schemaname = 'public'")}


def test_the_migrations_and_the_contract_typed_by_hand_are_one_table(postgres: str) -> None:
    catalogs = []
    for text in (BY_HAND, None):
        database = create_database(postgres)
        try:
            database.run(text) if text else migrate(database.url, DEFAULT)
            assert plan(database.url, DEFAULT).up_to_date
            catalogs.append(database.run(CATALOG))
        finally:
            drop_database(database)
    assert len(catalogs[0]) == 14 + 7 + 2
    assert catalogs[0] == catalogs[1]


def test_a_second_run_does_nothing(database: Database) -> None:
    assert len(migrate(database.url, DEFAULT).steps) == 7
    assert migrate(database.url, DEFAULT).up_to_date


def test_several_that_start_at_once_make_one_table(database: Database) -> None:
    with ThreadPoolExecutor(6) as pool:
        plans = list(pool.map(lambda _: migrate(database.url, DEFAULT), range(6)))
    assert sorted(len(plan.steps) for plan in plans) == [0, 0, 0, 0, 0, 7]


def test_several_that_start_at_once_build_missing_indexes_beside_writers(outbox: Outbox) -> None:
    outbox.database.run("DROP INDEX idx_openoutbox_stuck_leases, idx_openoutbox_prune_dead")
    with outbox.database.connect(autocommit=False) as writer:
        writer.execute(
            "INSERT INTO openoutbox_events (event_id, event_type, payload) SELECT gen_random_uuid(), 't', ''"
        )
        planned = plan(outbox.owner_url, DEFAULT)
        writer.commit()
    assert ["CONCURRENTLY" in step.sql for step in planned.steps] == [True, True]
    with ThreadPoolExecutor(3) as pool:
        plans = list(pool.map(lambda _: migrate(outbox.owner_url, DEFAULT), range(3)))
    assert sorted(len(each.steps) for each in plans) == [0, 0, 2]
    assert plan(outbox.owner_url, DEFAULT).up_to_date


def test_several_that_add_an_extension_at_once_add_it_once(outbox: Outbox) -> None:
    for name in ("fleet", "key-order"):
        with ThreadPoolExecutor(4) as pool:
            added = list(pool.map(lambda _, name=name: add_extension(outbox.owner_url, DEFAULT, name), range(4)))
        assert added.count(True) == 1


def test_another_migrate_is_waited_for_only_so_long(database: Database) -> None:
    with database.connect(autocommit=False) as other:
        other.execute(load_sql("outbox/migrate:lock").encode())
        with pytest.raises(StorageBusy, match="another migrate"):
            migrate(database.url, DEFAULT, wait=0)
    assert len(migrate(database.url, DEFAULT, wait=0).steps) == 7


def test_a_dry_run_touches_nothing(database: Database) -> None:
    assert len(plan(database.url, DEFAULT).steps) == 7
    assert database.run("SELECT to_regclass('openoutbox_events')") == [(None,)]


@pytest.mark.parametrize(
    "name",
    ["openoutbox", "orders_outbox", 'Weird "Name%s', "x" * 63, "x" * 62 + "y", "ü" * 31, "public.orders", "select"],
)
def test_two_outboxes_in_one_schema_both_have_all_six_indexes(database: Database, name: str) -> None:
    table = TableName.parse(name)
    for one in (DEFAULT, table):
        assert len(migrate(database.url, one).steps) == 7
        assert plan(database.url, one).up_to_date
    wanted = {index_name(one, role) for one in (DEFAULT, table) for role in INDEXES}
    assert len(wanted) == 12
    assert all(len(one.encode()) <= 63 for one in wanted)
    assert wanted < _names(database)


def test_names_that_are_cut_alike_get_names_of_their_own(database: Database) -> None:
    for name in ("x" * 62 + "a", "x" * 62 + "b"):
        assert len(migrate(database.url, TableName(name)).steps) == 7
    assert len(_names(database)) == 14


def test_a_table_in_a_schema_of_its_own(database: Database) -> None:
    table = TableName('Odd "table', 'Odd "schema%s')
    with pytest.raises(SchemaError, match="create it first: CREATE SCHEMA"):
        migrate(database.url, table)
    database.run(f"CREATE SCHEMA {quote_identifier(table.schema or '')}".replace("%", "%%"), [])
    assert len(migrate(database.url, table).steps) == 7
    assert plan(database.url, table).up_to_date


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("ALTER COLUMN payload TYPE text USING ''", "column payload is text NOT NULL: it must be bytea NOT NULL"),
        ("ALTER COLUMN partition_key SET NOT NULL", "column partition_key is text NOT NULL: it must be text"),
        ("ALTER COLUMN headers DROP NOT NULL", "column headers is jsonb DEFAULT"),
        ("ALTER COLUMN status DROP DEFAULT", "column status is text NOT NULL: it must be text NOT NULL DEFAULT"),
        ("ALTER COLUMN created_at SET DEFAULT '2020-01-01'", "column created_at is"),
        ("DROP COLUMN last_error", "column last_error is missing: it must be text"),
        ("ADD COLUMN tenant int NOT NULL", "column tenant is not the contract's"),
        ("DROP CONSTRAINT openoutbox_events_pkey", "the primary key is missing"),
        ("DROP CONSTRAINT check_valid_status", "constraint check_valid_status is missing"),
    ],
)
def test_a_table_that_differs_is_left_alone_and_reported(outbox: Outbox, change: str, message: str) -> None:
    outbox.database.run("DROP INDEX idx_openoutbox_prune_dead")
    outbox.database.run(f"ALTER TABLE openoutbox_events {change}")
    with pytest.raises(SchemaError) as caught:
        migrate(outbox.owner_url, DEFAULT)
    assert message in str(caught.value)
    assert "idx_openoutbox_prune_dead" not in _names(outbox.database)


@pytest.mark.parametrize(
    "change",
    [
        "ALTER COLUMN event_id SET DEFAULT gen_random_uuid()",
        "ALTER COLUMN updated_at SET DEFAULT CURRENT_TIMESTAMP",
        "ADD COLUMN tenant int NOT NULL DEFAULT 0",
        "ADD COLUMN seq bigint GENERATED ALWAYS AS IDENTITY",
        "ADD COLUMN note text",
    ],
)
def test_what_does_no_harm_is_no_difference(outbox: Outbox, change: str) -> None:
    outbox.database.run(f"ALTER TABLE openoutbox_events {change}")
    assert plan(outbox.owner_url, DEFAULT).up_to_date


@pytest.mark.parametrize(
    ("make", "message"),
    [
        ("CREATE VIEW openoutbox_events AS SELECT 1", "a view"),
        ("CREATE TABLE openoutbox_events (a int) PARTITION BY HASH (a)", "a partitioned table"),
        ("CREATE SEQUENCE openoutbox_events", "not a table"),
    ],
)
def test_what_is_no_plain_table_is_refused(database: Database, make: str, message: str) -> None:
    database.run(make)
    with pytest.raises(SchemaError, match=message):
        migrate(database.url, DEFAULT)


def test_an_index_of_the_right_name_and_another_definition_is_reported(outbox: Outbox) -> None:
    outbox.database.run("DROP INDEX idx_openoutbox_metrics_count")
    outbox.database.run("CREATE INDEX idx_openoutbox_metrics_count ON openoutbox_events (status)")
    with pytest.raises(SchemaError, match="index idx_openoutbox_metrics_count is USING btree \\(status\\): it must be"):
        migrate(outbox.owner_url, DEFAULT)


def test_an_equal_index_of_another_name_is_not_built_twice(outbox: Outbox) -> None:
    outbox.database.run("ALTER INDEX idx_openoutbox_metrics_lag RENAME TO lag")
    assert plan(outbox.owner_url, DEFAULT).up_to_date


def test_a_renamed_old_table_that_keeps_the_index_names_is_reported(outbox: Outbox) -> None:
    outbox.database.run("ALTER TABLE openoutbox_events RENAME TO old")
    with pytest.raises(SchemaError, match="idx_openoutbox_prune_dead is taken"):
        migrate(outbox.owner_url, DEFAULT)


def test_an_invalid_index_fills_no_role() -> None:
    definition = f"CREATE INDEX x ON t {INDEXES['prune_dead']}"
    assert "prune_dead" in missing_indexes([FoundIndex("x", True, definition, False)])
    assert "prune_dead" not in missing_indexes([FoundIndex("x", True, definition, True)])


def test_a_database_that_is_not_there_and_a_wrong_url_are_reported_without_the_password() -> None:
    with pytest.raises(StorageUnavailable) as caught:
        migrate("postgres://user:geheim@127.0.0.1:1/db", DEFAULT)
    assert "geheim" not in str(caught.value)
    with pytest.raises(ConfigError) as wrong:
        migrate("postgres://user:ge%zzheim@127.0.0.1/db", DEFAULT)
    assert "heim" not in str(wrong.value)


def test_it_works_on_the_newest_major(newest_database: Database) -> None:
    assert len(migrate(newest_database.url, DEFAULT).steps) == 7
    assert plan(newest_database.url, DEFAULT).up_to_date
