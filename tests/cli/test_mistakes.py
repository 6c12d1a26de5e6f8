"""Mistakes of operators: each gets its exit code, an answer that says what to do, and nothing that misleads."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.running import call_cli
from tests.support.fixtures.outbox import Outbox, as_user

NOISE = ("Traceback", "Value error,", "pool-1", "error connecting in", "\n\t")
"""In no answer, whatever the mistake."""
DOWN = "postgres://app:hunter2@127.0.0.1:1/orders"


class Mistake(NamedTuple):
    """A command, the relay's variables, and its answer."""

    command: str
    env: dict[str, str]
    code: int
    says: tuple[str, ...]
    not_says: tuple[str, ...] = ()


def answer(folder: Path, mistake: Mistake) -> str:
    done = call_cli(folder, *mistake.command.split(), **mistake.env)
    assert done.returncode == mistake.code, done.stdout + done.stderr
    return done.stdout + done.stderr


def shows(text: str, mistake: Mistake) -> None:
    assert [words for words in mistake.says if words not in text] == [], text
    assert [words for words in (*NOISE, *mistake.not_says) if words in text] == [], text


STORAGE_DOWN = ("port 1 failed: Connection refused", "check STORAGE_URL", "relay-cli check")


@pytest.mark.parametrize(
    "mistake",
    [
        Mistake("stats", {}, 2, ("STORAGE_URL is not set", "postgres://host:5432/database?user=name"), ("***",)),
        Mistake("log events", {}, 2, ("DELIVERY_LOG_URL", "--log-store-url")),
        Mistake("stats", {"STORAGE_URL": "mysql://u:hunter2@h/d"}, 2, ("not a PostgreSQL URL",), ("hunter2",)),
        Mistake("stats", {"STORAGE_URL": DOWN}, 1, STORAGE_DOWN, ("hunter2",)),
        Mistake("migrate", {"STORAGE_URL": DOWN}, 1, STORAGE_DOWN, ("hunter2",)),
        Mistake("list", {"STORAGE_URL": DOWN}, 1, STORAGE_DOWN, ("hunter2",)),
        Mistake("prune", {"STORAGE_URL": DOWN}, 1, STORAGE_DOWN, ("hunter2",)),
        Mistake("replay --status dead --yes", {"STORAGE_URL": DOWN}, 1, STORAGE_DOWN, ("hunter2",)),
        Mistake("prune --delivered-age 7x", {"STORAGE_URL": DOWN}, 2, ("'7x' is not an age", "7d, 12h")),
        Mistake("replay --id x", {"STORAGE_URL": DOWN}, 2, ("'x' is not an event's id", "relay-cli list")),
        Mistake("replay", {"STORAGE_URL": DOWN}, 2, ("say which events", "--status")),
        Mistake("nosuch", {}, 2, ("No such command 'nosuch'",)),
        Mistake("stats --table a.b.c", {"STORAGE_URL": DOWN}, 2, ("'a.b.c' is not a table name", "schema.table")),
        Mistake("stats --storage-url redis://h", {}, 2, ("not a PostgreSQL URL",)),
    ],
    ids=lambda mistake: mistake.command,
)
def test_a_mistake_that_no_server_is_needed_for(tmp_path: Path, mistake: Mistake) -> None:
    shows(answer(tmp_path, mistake), mistake)


def test_a_delivery_log_that_is_down_names_its_variable_and_the_reason(tmp_path: Path) -> None:
    mistake = Mistake("log events", {"DELIVERY_LOG_URL": DOWN}, 1, ("DELIVERY_LOG_URL", "Connection refused"))
    text = answer(tmp_path, mistake)
    shows(text, mistake)
    assert text.count("Connection refused") == 1


def test_migrate_as_a_user_who_may_not_names_the_grant(outbox: Outbox, tmp_path: Path) -> None:
    env = {"STORAGE_URL": as_user(outbox.url, "test_writer")}
    grant = 'GRANT USAGE, CREATE ON SCHEMA "public" TO "test_writer"'
    mistake = Mistake("migrate --table other", env, 1, ("permission denied for schema public", grant))
    shows(answer(tmp_path, mistake), mistake)
    outbox.database.run("DROP INDEX idx_openoutbox_prune_dead")
    not_owner = Mistake("migrate", env, 1, ("must be owner of table openoutbox_events", "as the owner of the table"))
    shows(answer(tmp_path, not_owner), not_owner)


@pytest.mark.parametrize(
    ("command", "role", "right"),
    [
        ("prune --delivered-age 1m", "test_relay", "GRANT SELECT, DELETE, UPDATE (updated_at)"),
        ("replay --status dead --yes", "test_reader", "GRANT SELECT, UPDATE (status, "),
        ("list", "test_writer", "GRANT SELECT"),
    ],
)
def test_a_missing_right_comes_with_its_grant(
    outbox: Outbox, tmp_path: Path, command: str, role: str, right: str
) -> None:
    outbox.fill("t", 1)
    outbox.database.run("UPDATE openoutbox_events SET status = 'DEAD', updated_at = now() - interval '90 days'")
    env = {"STORAGE_URL": as_user(outbox.url, role)}
    mistake = Mistake(command, env, 1, ("permission denied", right, f'ON "openoutbox_events" TO "{role}"'))
    shows(answer(tmp_path, mistake), mistake)


@pytest.mark.parametrize(
    ("wrong", "reason"), [("no_such_database", "does not exist"), ("user", 'role "no_such_user" does not exist')]
)
def test_a_wrong_database_or_user_says_what_to_look_at(outbox: Outbox, tmp_path: Path, wrong: str, reason: str) -> None:
    url = as_user(outbox.url, "no_such_user") if wrong == "user" else f"{outbox.url.rpartition('/')[0]}/{wrong}"
    mistake = Mistake("stats", {"STORAGE_URL": url}, 1, (reason, "check STORAGE_URL"))
    shows(answer(tmp_path, mistake), mistake)
