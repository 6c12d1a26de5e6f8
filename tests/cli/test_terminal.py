"""Nothing that an application wrote reaches a terminal as it is: what controls one is escaped, in every command."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import pytest

import relay_cli
from openoutbox import Message, inbox
from relay.inbox.table import create
from relay.postgres.sql import DEFAULT_INBOX, TableName
from relay_cli.output import on_terminal, print_json, say
from relay_cli.screen import painted
from tests.cli.running import call_cli
from tests.deliverylog.making import entry, event
from tests.deliverylog.test_cli import fill
from tests.eventstore.conftest import STREAM, TENANT
from tests.support.fixtures.outbox import Outbox, Row, give_rights
from tests.support.fixtures.postgres import Database

HOSTILE = "x\x1b[31m\x1b]0;title\x07\x9b2J\x7f\b\r\u202eflow\u2066\u200f\ufdd0"
KEY = "k\x1b[2J\x85\u202e"
ERROR = "REFUSED: \x1b[1A\x1b[2K\x07\u2069"


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def raw(text: str) -> str:
    """What of a text controls a terminal."""
    return "".join(letter for letter in text if not (letter.isprintable() or letter in "\n\t"))


def modules() -> Iterator[Path]:
    yield from Path(relay_cli.__file__).parent.glob("*.py")


def test_every_command_prints_in_one_place() -> None:
    others = [
        f"{module.name}:{node.lineno}: {ast.unparse(node.func)}"
        for module in modules()
        if module.name != "output.py"
        for node in ast.walk(ast.parse(module.read_text()))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func)
        in ("print", "typer.echo", "typer.secho", "click.echo", "sys.stdout.write", "sys.stderr.write")
    ]
    # The entry answers before it has imported anything.
    assert [other for other in others if not other.startswith("main.py")] == []


def test_what_is_said_controls_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"a\tb\n{HOSTILE}")
    print_json({"event_type": HOSTILE, "more": [KEY, "ü\U000e0001"]})
    first, second, answer = capsys.readouterr().out.splitlines()
    assert (first, raw(second), raw(answer)) == ("a\tb", "\ufdd0" * 0, "")
    assert json.loads(answer) == {"event_type": HOSTILE, "more": [KEY, "ü\U000e0001"]}


def test_colours_are_painted_by_the_command_alone(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal()
    with patch.dict("os.environ", clear=True):
        say(painted("dead", "DEAD", terminal))
    assert capsys.readouterr().out in ("\x1b[31m\x1b[1mDEAD\x1b[0m\n", "DEAD\n")  # click removes it off a terminal


def test_an_export_is_escaped_on_a_terminal_alone() -> None:
    terminal, file = Terminal(), StringIO()
    on_terminal(terminal).write(HOSTILE)
    on_terminal(file).write(HOSTILE)
    assert "\\x1b]0;title\\x07" in terminal.getvalue()
    assert file.getvalue() == HOSTILE


@pytest.fixture
def hostile(outbox: Outbox) -> Outbox:
    """An outbox in which an application wrote what controls terminals, wherever it may write."""
    outbox.insert([Row(HOSTILE, partition_key=KEY)] * 2)
    outbox.database.run("UPDATE openoutbox_events SET payload = %s", [HOSTILE.encode()])
    outbox.database.run("UPDATE openoutbox_events SET headers = %s", [json.dumps({HOSTILE: KEY})])
    outbox.database.run(
        "UPDATE openoutbox_events SET status = 'DEAD', attempts = 3, last_error = %s WHERE event_id = "
        "(SELECT event_id FROM openoutbox_events LIMIT 1)",
        [ERROR],
    )
    create(outbox.owner_url, TableName(DEFAULT_INBOX), ["dead-letters"])
    with outbox.database.connect() as connection:
        give_rights(connection)
    message = Message(HOSTILE, HOSTILE, KEY, HOSTILE.encode(), {HOSTILE: KEY})
    inbox.set_aside(outbox.database.connect, message, ValueError(ERROR), consumer=HOSTILE)
    return outbox


def assert_harmless(folder: Path, *arguments: str, **variables: str) -> str:
    done = call_cli(folder, *arguments, **variables)
    assert raw(done.stdout + done.stderr) == "", (arguments, done.stdout, done.stderr)
    return done.stdout + done.stderr


def test_commands_on_the_outbox_and_the_inbox(hostile: Outbox, nats_url: str, tmp_path: Path) -> None:
    url = hostile.owner_url
    [event_id] = [str(event_id) for event_id, status in hostile.rows("event_id, status") if status == "DEAD"]
    outputs = [
        assert_harmless(tmp_path, *command, *json_too, STORAGE_URL=url, PUBLISHER_URL=nats_url)
        for command in (
            ("list",),
            ("show", event_id),
            ("check",),
            ("stats",),
            ("route", HOSTILE),
            ("pause", HOSTILE),
            ("inbox", "list"),
            ("inbox", "show", HOSTILE, HOSTILE),
            ("inbox", "stats"),
            ("replay", "--type", HOSTILE, "--dry-run"),
            ("replay", event_id),
            ("prune",),
        )
        for json_too in ((), ("--json",))
    ]
    assert sum("flow" in output for output in outputs) >= 12


def test_commands_on_the_delivery_log(log_database: Database, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    logged = event(HOSTILE, now, topic=HOSTILE, data=HOSTILE.encode())
    fill(log_database.url, [entry("a1", now, logged, status="failed", code=ERROR)])
    outputs = [
        assert_harmless(tmp_path, "log", *command, *json_too, DELIVERY_LOG_URL=log_database.url)
        for command in (
            ("events",),
            ("attempts",),
            ("event", HOSTILE),
            ("attempt", "a1"),
            ("top",),
            ("quarantine", "list"),
        )
        for json_too in ((), ("--json",))
    ]
    assert sum("flow" in output for output in outputs) >= 6


def test_commands_on_the_event_store(database: Database, tmp_path: Path) -> None:
    tenant, stream = str(TENANT), str(STREAM)

    def said(*arguments: str) -> str:
        return assert_harmless(tmp_path, *arguments, "--storage-url", database.url)

    said("store", "migrate")
    said("tenant", "provision", tenant)
    said("store", "append", tenant, stream, HOSTILE, "--data", json.dumps({"a": HOSTILE}))
    database.run("INSERT INTO event_subscription (Name, Position) VALUES (%s, 1)", [HOSTILE])
    database.run(
        "INSERT INTO event_parked (Name, TenantId, StreamId, Position, Version, Tries, Error) "
        "VALUES (%s, %s, %s, 1, 1, 5, %s)",
        [HOSTILE, TENANT, STREAM, ERROR],
    )
    outputs = [
        said(*command)
        for command in (
            ("store", "stream", tenant, stream),
            ("store", "subscriptions"),
            ("store", "subscriptions", "--prometheus"),
            ("store", "parked", "list"),
            ("store", "parked", "list", "--json"),
            ("store", "parked", "show", HOSTILE, tenant, stream),
            ("store", "parked", "retry", HOSTILE),
        )
    ]
    assert sum("flow" in output for output in outputs) >= 5
