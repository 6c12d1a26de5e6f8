"""relay-cli roles: what each role may do with an inbox, and no more."""

from __future__ import annotations

import re

import psycopg
import pytest
from psycopg import errors

from openoutbox import Message, inbox
from tests.support.fixtures.outbox import Outbox
from tests.support.paths import ROOT

MARK = "INSERT INTO openoutbox_inbox (consumer, event_id) VALUES ('c', gen_random_uuid()::text)"
LOOK = "SELECT count(*) FROM openoutbox_inbox"
CHANGE = "UPDATE openoutbox_inbox SET event_id = event_id"
DELETE = "DELETE FROM openoutbox_inbox"
EVENTS = "SELECT count(*) FROM openoutbox_events"
ANNOUNCE = "INSERT INTO openoutbox_events (event_id, event_type, payload) VALUES (gen_random_uuid(), 't', '')"
ALL = (MARK, LOOK, CHANGE, DELETE, EVENTS, ANNOUNCE)


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        ("consumer", {MARK, LOOK}),
        ("pruner", {LOOK, DELETE, EVENTS}),
        ("reader", {LOOK, EVENTS}),
        ("writer", {ANNOUNCE}),
        ("relay", {EVENTS}),
    ],
)
def test_each_role_has_its_rights_on_the_inbox_and_no_other(place: Outbox, role: str, allowed: set[str]) -> None:
    granted = set()
    for statement in ALL:
        with psycopg.connect(place.url_of(role)) as connection:
            try:
                connection.execute(statement.encode())
                granted.add(statement)
            except errors.InsufficientPrivilege:
                pass
            connection.rollback()
    assert granted == allowed


def test_the_consumer_handles_an_event_once(place: Outbox) -> None:
    new = []
    for _ in range(2):
        with (
            psycopg.connect(place.url_of("consumer")) as connection,
            inbox.once(connection, "1", consumer="billing") as first,
        ):
            new.append(first)
    assert new == [True, False]


def test_a_consumer_marks_nothing_in_the_name_of_another(place: Outbox) -> None:
    """With the policies of docs/guide/inbox.md, for two roles of the database; the pruner still reaches all marks."""
    page = (ROOT / "docs/guide/inbox.md").read_text()
    [policies] = re.findall(r"```sql\n(ALTER TABLE openoutbox_inbox ENABLE.*?)```", page, re.DOTALL)
    roles = {"consumer": "openoutbox_consumer", "processor": "openoutbox_writer", "pruner": "openoutbox_pruner"}
    roles["reader"] = "openoutbox_reader"
    place.database.run("GRANT INSERT, SELECT ON openoutbox_inbox TO openoutbox_writer")
    place.database.run(re.sub(r"\w+(?=[^()]* USING)", lambda match: roles.get(match[0], match[0]), policies))
    url = place.url_of("consumer")
    with pytest.raises(errors.InsufficientPrivilege, match="row-level security"):
        mark(place.url_of("writer"), "billing")
    assert [mark(url, "billing"), mark(url, "billing")] == [True, False]
    assert mark(place.url_of("writer"), "audit")
    with psycopg.connect(place.url_of("pruner")) as connection:
        assert connection.execute(DELETE.encode()).rowcount == 2


def mark(url: str, consumer: str) -> bool:
    with psycopg.connect(url) as connection, inbox.once(connection, "1", consumer=consumer) as first:
        return first


def test_insert_is_all_that_a_mark_needs(place: Outbox) -> None:
    place.database.run("REVOKE SELECT ON openoutbox_inbox FROM openoutbox_consumer")
    with psycopg.connect(place.url_of("consumer")) as connection, inbox.once(connection, "1", consumer="b") as first:
        assert first


def test_the_consumer_counts_tries(place: Outbox) -> None:
    message = Message("1", "account.charged", None, b"", {})
    url = place.url_of("consumer")
    done = inbox.set_aside(lambda: psycopg.connect(url), message, ValueError("x"), consumer="billing")
    assert done.acknowledge
    done = inbox.process(lambda: psycopg.connect(url), message, lambda *_: None, consumer="billing")
    assert done.outcome == "dead"
    assert inbox.process(lambda: psycopg.connect(url), message, lambda *_: None, consumer="audit").outcome == "handled"
