"""A BEFORE trigger that returns NULL leaves a row out in silence: what was to be written is counted, and refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from openoutbox import EnqueueRefused, Message, NewEvent, inbox
from openoutbox.errors import InboxRefused
from openoutbox.schema import dead_letter_statements, inbox_statements
from tests.client import test_first_of
from tests.client.consumers import CONSUMERS, EFFECT, Delivery
from tests.client.test_enqueue import CALLERS, TABLE
from tests.support.fixtures.database import Database

OTHER = "0190b0a0-0000-7000-8000-000000000002"
FIRST_OF = {
    name: getattr(test_first_of, f"_{name}")
    for name in ("psycopg", "psycopg_async", "alchemy", "alchemy_async", "django", "asyncpg")
}


def leave_out(database: Database, table: str, when: str) -> None:
    """Rows for which ``when`` holds are left out; for all others the trigger changes nothing."""
    body = f"BEGIN IF {when} THEN RETURN NULL; END IF; RETURN NEW; END"
    database.run(f"CREATE FUNCTION hostile() RETURNS trigger LANGUAGE plpgsql AS $${body}$$")
    database.run(f"CREATE TRIGGER hostile BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION hostile()")


@pytest.fixture
def place(database: Database) -> Database:
    """A consumer's database, whose trigger leaves the marks of ``OTHER`` out."""
    for sql in [*inbox_statements(), *dead_letter_statements()]:
        database.run(sql)
    database.run("CREATE TABLE effects (what text NOT NULL)")
    leave_out(database, "openoutbox_inbox", f"NEW.event_id = '{OTHER}'")
    return database


@pytest.mark.parametrize("caller", CALLERS)
def test_an_event_that_is_left_out_is_named_and_a_repeat_stays_a_repeat(outbox: Database, caller: str) -> None:
    leave_out(outbox, TABLE, "NEW.event_type = 'bad'")
    enqueue = CALLERS[caller]
    events = [NewEvent("good", b"1"), NewEvent("good", b"2")]
    assert enqueue(outbox, events, TABLE, True).inserted == 2
    assert enqueue(outbox, [*events, NewEvent("good", b"3")], TABLE, True).inserted == 1
    bad = NewEvent("bad", b"4")
    for call in (bad, [bad], [*events, NewEvent("good", b"5"), bad]):
        with pytest.raises(
            EnqueueRefused, match=f"BEFORE trigger of table openoutbox_events left event {bad.event_id}"
        ):
            enqueue(outbox, call, TABLE, True)
    assert outbox.run("SELECT payload FROM openoutbox_events ORDER BY 1") == [(b"1",), (b"2",), (b"3",)]


@pytest.mark.parametrize("consumer", CONSUMERS)
def test_a_mark_that_is_left_out_is_no_repeat(place: Database, consumer: str) -> None:
    consume = CONSUMERS[consumer]
    assert [consume(Delivery(place)), consume(Delivery(place))] == [True, False]
    with pytest.raises(InboxRefused, match=f"left the mark of event {OTHER} out"):
        consume(Delivery(place, OTHER))
    assert place.run("SELECT count(*) FROM effects WHERE what = 'effect'") == [(1,)]


@pytest.mark.parametrize("way", FIRST_OF)
def test_a_mark_of_a_batch_that_is_left_out_is_no_repeat(place: Database, way: str) -> None:
    first_of: Callable[[Database, list[Any]], list[str]] = FIRST_OF[way]
    assert [first_of(place, ["a", "b"]), first_of(place, ["a", "b", "c"])] == [["a", "b"], ["c"]]
    with pytest.raises(InboxRefused, match=f"left the mark of event {OTHER} out"):
        first_of(place, ["a", OTHER, "d"])
    assert place.run("SELECT count(*) FROM openoutbox_inbox") == [(3,)]


def test_a_message_whose_mark_is_left_out_is_a_failed_try(place: Database) -> None:
    def handle(connection: psycopg.Connection[Any], _: Message) -> None:
        connection.execute(EFFECT)

    message = Message(OTHER, "order.placed", "7", b"{}", {})
    done = inbox.process(place.connect, message, handle, consumer="billing", attempts=3)
    assert (done.outcome, type(done.error), done.acknowledge) == ("failed", InboxRefused, False)
    assert place.run("SELECT count(*) FROM effects") == [(0,)]
    place.run("DROP TRIGGER hostile ON openoutbox_inbox")
    place.run("UPDATE openoutbox_inbox_tries SET begun_at = NULL")
    assert inbox.process(place.connect, message, handle, consumer="billing", attempts=3).outcome == "handled"
