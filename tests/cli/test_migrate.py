"""``relay-cli migrate`` as an operator runs it: a process, its lines, its exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from relay.version import __version__
from tests.cli.running import call_cli, run_cli
from tests.support.fixtures.postgres import Database


def test_it_creates_says_so_and_is_done(database: Database, tmp_path: Path) -> None:
    first = run_cli(tmp_path, "migrate", STORAGE_URL=database.url)
    assert (first.returncode, first.stderr) == (0, "")
    lines = first.stdout.splitlines()
    assert lines[0] == "created table openoutbox_events"
    assert lines[1] == "created index idx_openoutbox_processing_queue"
    assert len(lines) == 7
    again = run_cli(tmp_path, "migrate", STORAGE_URL=database.url)
    assert (again.returncode, again.stdout) == (0, "table openoutbox_events is up to date\n")


@pytest.mark.parametrize("place", ["before", "after"])
def test_the_url_is_taken_before_and_after_the_command(database: Database, tmp_path: Path, place: str) -> None:
    option = ["--storage-url", database.url]
    arguments = [*option, "migrate"] if place == "before" else ["migrate", *option]
    done = call_cli(tmp_path, *arguments, STORAGE_URL="postgres://nobody@127.0.0.1:1/nowhere")
    assert (done.returncode, done.stderr) == (0, "")


def test_what_a_dry_run_prints_makes_the_table(database: Database, tmp_path: Path) -> None:
    shown = call_cli(tmp_path, "migrate", "--dry-run", "--table", "public.Orders", STORAGE_URL=database.url)
    assert shown.returncode == 0
    assert database.run("SELECT to_regclass('public.\"Orders\"')") == [(None,)]
    database.run(shown.stdout)
    again = call_cli(tmp_path, "migrate", "--dry-run", "--table", "public.Orders", STORAGE_URL=database.url)
    assert again.stdout == "-- table public.Orders is up to date\n"


def test_json_is_one_object(database: Database, tmp_path: Path) -> None:
    answer = json.loads(call_cli(tmp_path, "migrate", "--json", STORAGE_URL=database.url).stdout)
    assert (answer["table"], answer["dry_run"], answer["up_to_date"]) == ("openoutbox_events", False, False)
    assert [one["number"] for one in answer["statements"]] == list(range(1, 8))


def test_a_table_that_differs_fails_with_one(database: Database, tmp_path: Path) -> None:
    database.run("CREATE TABLE openoutbox_events (event_id uuid PRIMARY KEY)")
    failed = call_cli(tmp_path, "migrate", STORAGE_URL=database.url)
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "column payload is missing: it must be bytea NOT NULL" in failed.stderr
    assert "Traceback" not in failed.stderr


@pytest.mark.parametrize(
    "arguments",
    [["migrate"], ["migrate", "--storage-url", "mysql://u:geheim@h/d"], ["migrate", "--nonsense"], ["nonsense"]],
)
def test_wrong_usage_and_wrong_settings_fail_with_two(tmp_path: Path, arguments: list[str]) -> None:
    failed = call_cli(tmp_path, *arguments)
    assert failed.returncode == 2
    assert failed.stderr
    assert "Traceback" not in failed.stderr
    assert "geheim" not in failed.stderr


def test_version_and_help_need_nothing(tmp_path: Path) -> None:
    assert call_cli(tmp_path, "--version").stdout.startswith(__version__)
    assert "Example: relay-cli migrate" in call_cli(tmp_path, "migrate", "--help").stdout
