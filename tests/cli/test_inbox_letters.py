"""``relay-cli inbox list``, ``show``, ``retry`` and ``skip`` as an operator runs them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import psycopg
import pytest

from openoutbox import Message, inbox
from relay.inbox.table import create
from relay.postgres.sql import DEFAULT_INBOX, TableName
from tests.cli.running import answer, call_cli
from tests.support.fixtures.outbox import Outbox, give_rights

FIRST = "0190b0a0-0000-7000-8000-000000000001"
SECOND = "orders/3/1042"


@pytest.fixture
def place(outbox: Outbox) -> Outbox:
    """With a dead letter of two consumers each, and an event that is being tried."""
    create(outbox.owner_url, TableName(DEFAULT_INBOX), ["dead-letters"])
    with outbox.database.connect() as connection:
        give_rights(connection)
    process(outbox, FIRST, "billing", fail)
    process(outbox, "being-tried", "billing", fail, attempts=2)
    message = Message(SECOND, "orders", None, b"\xff", {})
    inbox.set_aside(outbox.database.connect, message, ValueError("no\nheader"), consumer="audit")
    return outbox


def process(place: Outbox, event_id: str, consumer: str, handler: Any, attempts: int = 1) -> str:
    message = Message(event_id, "order.placed", "7", b'{"order": 7}', {"a": "b"})
    return inbox.process(place.database.connect, message, handler, consumer=consumer, attempts=attempts).outcome


def fail(*_: object) -> None:
    raise ValueError("no such customer")


def said(folder: Path, *arguments: str, url: str) -> str:
    done = call_cli(folder, "inbox", *arguments, STORAGE_URL=url)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_list_has_one_line_for_each(place: Outbox, tmp_path: Path) -> None:
    url = place.reader_url
    billing, audit = said(tmp_path, "list", url=url).splitlines()
    assert billing.startswith(f"dead  billing  {FIRST}  order.placed  7  tries 1  since ")
    assert billing.endswith("  ValueError: no such customer")
    assert audit.startswith(f"dead  audit  {SECOND}  orders  -  tries 0  since ")
    assert said(tmp_path, "list", "audit", url=url) == audit + "\n"
    assert said(tmp_path, "list", "--limit", "1", url=url) == billing + "\n"
    assert said(tmp_path, "list", "nobody", url=url) == "no dead letters\n"
    [letter] = answer(tmp_path, "inbox", "list", "audit", STORAGE_URL=url)["letters"]
    assert (letter["event_id"], letter["payload_bytes"], letter["error"]) == (SECOND, 1, "ValueError: no\nheader")


def test_show_has_the_whole_message(place: Outbox, tmp_path: Path) -> None:
    url = place.reader_url
    text = said(tmp_path, "show", "billing", FIRST.upper(), url=url)
    assert "error:         ValueError: no such customer\n" in text
    assert '"order": 7' in text
    letter = answer(tmp_path, "inbox", "show", "billing", FIRST, STORAGE_URL=url)
    assert (letter["headers"], letter["payload"], letter["tries"]) == ({"a": "b"}, '{"order": 7}', 1)
    letter = answer(tmp_path, "inbox", "show", "audit", SECOND, STORAGE_URL=url)
    assert (letter["payload_encoding"], base64.b64decode(letter["payload"])) == ("base64", b"\xff")


def test_retry_gives_it_all_of_its_tries_again(place: Outbox, tmp_path: Path) -> None:
    url = place.url_of("operator")
    assert said(tmp_path, "retry", "billing", url=url) == "1 dead letter will be tried again\n"
    assert said(tmp_path, "list", "billing", url=url).startswith("retry  billing")
    assert said(tmp_path, "retry", "billing", url=url) == "0 dead letters will be tried again\n"
    outcomes = [one.outcome for one in inbox.retries(place.database.connect, fail, consumer="billing", attempts=2)]
    assert outcomes == ["failed"]
    seen: list[Message] = []
    inbox.retries(place.database.connect, lambda _, message: seen.append(message), consumer="billing", attempts=2)
    assert [message.payload for message in seen] == [b'{"order": 7}']
    assert said(tmp_path, "list", "billing", url=url) == "no dead letters\n"
    assert answer(tmp_path, "inbox", "retry", "audit", SECOND, STORAGE_URL=url) == {"retried": 1}


@pytest.mark.parametrize("arguments", [["retry", "billing"], ["retry", "billing", FIRST], ["skip", "billing", FIRST]])
def test_a_dead_letter_that_a_trigger_keeps_is_an_error(place: Outbox, tmp_path: Path, arguments: list[str]) -> None:
    place.database.run("CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
    place.database.run(
        "CREATE TRIGGER keep BEFORE UPDATE OR DELETE ON openoutbox_inbox_tries FOR EACH ROW EXECUTE FUNCTION keep()"
    )
    failed = call_cli(tmp_path, "inbox", *arguments, STORAGE_URL=place.url_of("operator"))
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "a BEFORE trigger or a rule kept it as it was" in failed.stderr


def test_skip_leaves_a_mark(place: Outbox, tmp_path: Path) -> None:
    assert said(tmp_path, "skip", "billing", FIRST, url=place.url_of("operator")) == f"skipped {FIRST}\n"
    assert process(place, FIRST, "billing", fail) == "repeat"
    assert place.database.run("SELECT event_id FROM openoutbox_inbox_tries WHERE state = 'trying'") == [
        ("being-tried",)
    ]


def test_prune_leaves_dead_letters_alone(place: Outbox, tmp_path: Path) -> None:
    place.database.run("UPDATE openoutbox_inbox_tries SET changed_at = now() - interval '1 year'")
    assert answer(tmp_path, "inbox", "prune", STORAGE_URL=place.pruner_url)["marks"] == 0
    assert len(said(tmp_path, "list", url=place.reader_url).splitlines()) == 2


@pytest.mark.parametrize("command", ["show", "retry", "skip"])
@pytest.mark.parametrize("event_id", ["being-tried", "none"])
def test_what_is_no_dead_letter_is_said(place: Outbox, tmp_path: Path, command: str, event_id: str) -> None:
    failed = call_cli(tmp_path, "inbox", command, "billing", event_id, STORAGE_URL=place.owner_url)
    assert failed.returncode == 1
    assert f"consumer billing has no dead letter {event_id}; relay-cli inbox list shows all" in failed.stderr


def test_a_missing_table_and_a_missing_right_are_said(place: Outbox, tmp_path: Path) -> None:
    failed = call_cli(tmp_path, "inbox", "retry", "billing", STORAGE_URL=place.reader_url)
    assert failed.returncode == 1
    assert "openoutbox_inbox_tries" in failed.stderr
    assert "GRANT SELECT, UPDATE, DELETE ON" in " ".join(failed.stderr.split())
    place.database.run("DROP TABLE openoutbox_inbox_tries")
    failed = call_cli(tmp_path, "inbox", "list", STORAGE_URL=place.reader_url)
    assert failed.returncode == 1
    assert "create it: relay-cli inbox migrate --with dead-letters" in " ".join(failed.stderr.split())


def test_a_row_that_a_consumer_holds_is_not_waited_for(place: Outbox, tmp_path: Path) -> None:
    with psycopg.connect(place.owner_url) as connection:
        connection.execute("SELECT FROM openoutbox_inbox_tries FOR UPDATE")
        failed = call_cli(tmp_path, "inbox", "skip", "billing", FIRST, STORAGE_URL=place.owner_url)
    assert failed.returncode == 1
    assert "55P03" in failed.stderr
