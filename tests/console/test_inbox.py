"""Dead letters of consumers in the API: as relay-cli inbox, with the console's rights, and recorded."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, NoReturn

import httpx
import psycopg
import pytest

from openoutbox import Message, inbox
from relay.inbox.table import create
from relay.postgres.sql import DEFAULT_INBOX, TableName
from tests.console.access.making import token, tokens_file
from tests.console.conftest import ConsoleClient, client_of
from tests.console.test_api import problem
from tests.support.fixtures.outbox import Outbox, give_rights

LETTERS = "/api/v1/inbox/dead-letters"
MESSAGE = Message("orders/3/1042", "order.placed", "7", b'{"secret": "the body"}', {"by": "the header"})
PLACE = {"consumer": "billing", "event_id": MESSAGE.event_id}


@pytest.fixture
def place(recorded: Outbox) -> Outbox:
    """An outbox beside an inbox with a dead letter of two consumers each."""
    create(recorded.owner_url, TableName(DEFAULT_INBOX), ["dead-letters"])
    with recorded.database.connect() as connection:
        give_rights(connection)
    for consumer in ("billing", "audit"):
        process(recorded, consumer, refuse)
    return recorded


@pytest.fixture
def console(place: Outbox) -> ConsoleClient:
    return client_of(place.url_of("console"))


def refuse(_connection: object, _message: Message) -> NoReturn:
    raise ValueError("no such account")


def process(place: Outbox, consumer: str, handler: Any) -> str:
    with psycopg.connect(place.url) as connection:
        return inbox.process(
            lambda: contextlib.nullcontext(connection), MESSAGE, handler, consumer=consumer, attempts=1
        ).outcome


def change(console: ConsoleClient, action: str, key: str, **body: Any) -> httpx.Response:
    return console.post(f"{LETTERS}/{action}", json=body, headers={"Idempotency-Key": key})


def test_dead_letters_are_listed_and_shown(console: ConsoleClient) -> None:
    [letter] = console.get(LETTERS, params={"consumer": "billing"}).json()["items"]
    assert letter.pop("since")
    listed = {
        "state": "dead",
        **PLACE,
        "event_type": "order.placed",
        "partition_key": "7",
        "tries": 1,
        "error": "ValueError: no such account",
    }
    assert letter == {**listed, "payload_bytes": 22}
    page = console.get(LETTERS, params={"limit": 1}).json()
    assert ([each["consumer"] for each in page["items"]], page["complete"]) == (["billing"], False)
    shown = console.get(f"{LETTERS}/one", params=PLACE).json()
    assert shown.pop("since")
    assert shown == {
        **listed,
        "headers": {"by": "the header"},
        "payload": '{"secret": "the body"}',
        "payload_encoding": "utf-8",
    }
    assert problem(console.get(f"{LETTERS}/one", params={**PLACE, "consumer": "x"})) == (404, "letter-missing")
    assert problem(console.get(LETTERS, params={"limit": 0})) == (422, "invalid-request")


def test_what_is_retried_is_handled_by_the_consumers_retries(console: ConsoleClient, place: Outbox) -> None:
    answer = change(console, "retry", "1", **PLACE, reason="corrected").json()
    assert (answer["action"], answer["events"], answer["selection"]) == ("retry", 1, PLACE)
    assert change(console, "retry", "1", **PLACE, reason="corrected").json()["change_id"] == answer["change_id"]
    handled = []
    with psycopg.connect(place.url) as connection:
        done = inbox.retries(
            lambda: contextlib.nullcontext(connection),
            lambda _connection, message: handled.append(message.payload),
            consumer="billing",
        )
    assert ([each.outcome for each in done], handled) == (["handled"], [MESSAGE.payload])
    assert [each["consumer"] for each in console.get(LETTERS).json()["items"]] == ["audit"]
    assert change(console, "retry", "2", consumer="billing").json()["events"] == 0
    assert problem(change(console, "retry", "3", **PLACE)) == (404, "letter-missing")
    assert [each["reason"] for each in console.get("/api/v1/changes").json()["items"]] == ["", "corrected"]
    assert "billing" in console.get("/changes").text


def test_what_is_skipped_never_has_its_effect(console: ConsoleClient, place: Outbox) -> None:
    answer = change(console, "skip", "1", **PLACE, reason="a test").json()
    assert (answer["action"], answer["events"], answer["state"]) == ("skip", 1, "complete")
    assert process(place, "billing", refuse) == "repeat"
    assert process(place, "audit", refuse) == "dead"
    assert problem(change(console, "skip", "2", **PLACE)) == (404, "letter-missing")
    assert problem(change(console, "skip", "3", consumer="billing")) == (422, "invalid-request")
    assert len(console.get("/api/v1/changes").json()["items"]) == 1


def test_a_reader_sees_no_payload_and_changes_nothing(place: Outbox, tmp_path: Path) -> None:
    console = client_of(place.url_of("console"), CONSOLE_TOKENS_FILE=str(tokens_file(tmp_path)))
    headers = {"Authorization": f"Bearer {token('reader-token')}"}
    shown = console.get(f"{LETTERS}/one", params=PLACE, headers=headers).json()
    assert (shown["payload"], shown["headers"], shown["payload_encoding"]) == (None, None, "hidden")
    answer = console.post(f"{LETTERS}/skip", json=PLACE, headers={**headers, "Idempotency-Key": "1"})
    assert answer.status_code == 403


def test_without_an_inbox_the_answer_says_what_makes_it(recorded: Outbox) -> None:
    console = client_of(recorded.url_of("console"))
    for answer in (console.get(LETTERS), change(console, "retry", "1", consumer="billing")):
        assert problem(answer) == (503, "table-unusable")
        assert "relay-cli inbox migrate" in answer.json()["detail"]
