"""The files that make something run in psql as they stand, for the default names."""

from __future__ import annotations

import pytest

from tests.support.fixtures.postgres import Database
from tests.support.psql import psql
from tests.support.sql_files import sql_files, sql_path

OUTBOX = sql_files("outbox/migrations") + sql_files("outbox/extensions")


def run_files(database: Database, files: list[str]) -> None:
    psql(database.url, *(option for file in files for option in ("-f", str(sql_path(file)))))


def test_the_outbox_and_its_extensions_can_be_made_by_psql(database: Database) -> None:
    run_files(database, OUTBOX)
    run_files(database, sql_files("outbox/extensions"))  # each may be applied again
    indexes = "SELECT count(*), bool_and(indisvalid) FROM pg_index WHERE indrelid = 'openoutbox_events'::regclass"
    assert database.run(indexes) == [(1 + 6 + 4, True)]
    database.run("INSERT INTO openoutbox_events (event_id, event_type, payload) VALUES (gen_random_uuid(), 't', '')")
    assert database.run("SELECT is_called FROM openoutbox_events_wake") == [(True,)]
    assert database.run("SELECT insertion_order FROM openoutbox_events") == [(1,)]


@pytest.mark.parametrize("positions", ["gapless", "settled"])
def test_the_event_store_can_be_made_by_psql(database: Database, positions: str) -> None:
    numbered = sql_files("eventstore/migrations")
    migrations = [file for file in numbered if not file.endswith(("_gapless.sql", "_settled.sql")) or positions in file]
    run_files(database, [*migrations, f"eventstore/positions_{positions}.sql", "eventstore/definitions.sql"])
    assert database.run("SELECT * FROM event_horizon()") == [(0, 0)]
    default = "SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'event'::regclass AND adnum = 1"
    function = {"gapless": "event_take_positions(1)", "settled": "event_next_position()"}[positions]
    assert database.run(default) == [(function,)]
