"""Every command works on a table of any name."""

from __future__ import annotations

from pathlib import Path

from openoutbox import NewEvent, enqueue
from relay.postgres.sql import TableName
from tests.cli.running import answer, call_cli
from tests.support.fixtures.postgres import Database

NAME = 'Odd "name" 100% a:b'


def test_the_name_is_taken_exactly(database: Database, tmp_path: Path) -> None:
    database.run('CREATE SCHEMA "Shop"')
    table = ["--table", f"Shop.{NAME}"]
    variables = {"STORAGE_URL": database.url}
    created = call_cli(tmp_path, "migrate", "--with", "replay-audit", *table, **variables)
    assert (created.returncode, created.stderr) == (0, "")
    with database.connect(autocommit=False) as connection:
        [event_id] = enqueue(connection, NewEvent("a", b"x"), table=f"Shop.{NAME}").event_ids
    quoted = TableName(NAME, "Shop").quoted
    assert answer(tmp_path, "stats", *table, **variables)["pending_count"] == 1
    assert answer(tmp_path, "check", *table, **variables)["ok"] is True
    database.run(f"UPDATE {quoted} SET status = 'DEAD', updated_at = NOW() - INTERVAL '2 days'".replace("%", "%%"), {})
    assert [one["event_id"] for one in answer(tmp_path, "list", *table, **variables)["events"]] == [str(event_id)]
    assert answer(tmp_path, "show", str(event_id), *table, **variables)["status"] == "DEAD"
    assert answer(tmp_path, "replay", "--id", str(event_id), *table, **variables)["recorded"] is True
    assert database.run('SELECT outbox FROM "Shop".openoutbox_replays') == [(f"Shop.{NAME}",)]
    database.run(f"UPDATE {quoted} SET status = 'DEAD', updated_at = NOW() - INTERVAL '2 days'".replace("%", "%%"), {})
    assert answer(tmp_path, "prune", "--dead-age", "1d", *table, **variables)["dead"] == 1
