"""A BEFORE trigger that returns NULL leaves a row out in silence: what was to be written is counted, and refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import asyncpg
import psycopg
import pytest

from openoutbox import EnqueueRefused, Message, NewEvent, inbox
from openoutbox.errors import InboxRefused
from openoutbox.schema import dead_letter_statements, inbox_statements
from tests.client import test_autocommit, test_first_of, test_process
from tests.client.consumers import CONSUMERS, EFFECT, EVENT, Delivery
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


@pytest.mark.parametrize("caller", [name for name in test_autocommit.ALONE if "pipeline" not in name])
def test_an_event_that_is_left_out_in_autocommit_mode_is_named(outbox: Database, caller: str) -> None:
    alone = test_autocommit.ALONE[caller]
    leave_out(outbox, TABLE, "TRUE")
    with pytest.raises(EnqueueRefused, match="BEFORE trigger of table openoutbox_events left event"):
        alone(outbox, {"autocommit": True})
    outbox.run("CREATE OR REPLACE FUNCTION hostile() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'")
    assert [alone(outbox, {"autocommit": True}).inserted for _ in range(2)] == [1, 0]
    assert outbox.run("SELECT count(*) FROM openoutbox_events") == [(1,)]


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


TRIES = "openoutbox_inbox_tries"
LEFT_OUT = f"a BEFORE trigger of table {TRIES} left out what was written about event {EVENT}"


@pytest.fixture
def tries(place: Database) -> Callable[[str, str], None]:
    """Leave out what one kind of statement writes into the row of tries, where a condition holds."""
    place.run("DROP TRIGGER hostile ON openoutbox_inbox")

    def leave(event: str, when: str) -> None:
        returned = "OLD" if event == "DELETE" else "NEW"
        body = f"BEGIN IF {when} THEN RETURN NULL; END IF; RETURN {returned}; END"
        place.run(f"CREATE OR REPLACE FUNCTION hostile() RETURNS trigger LANGUAGE plpgsql AS $${body}$$")
        place.run(f"CREATE TRIGGER hostile BEFORE {event} ON {TRIES} FOR EACH ROW EXECUTE FUNCTION hostile()")

    return leave


@pytest.mark.parametrize("way", test_process.WAYS)
@pytest.mark.parametrize(("event", "when"), [("INSERT", "TRUE"), ("UPDATE", "NEW.tries > OLD.tries")])
def test_a_try_that_is_not_counted_is_none(
    place: Database, tries: Callable[[str, str], None], way: str, event: str, when: str
) -> None:
    """It would look like another consumer's that is at work, without end."""
    tries(event, when)
    with pytest.raises(InboxRefused, match=LEFT_OUT):
        test_process.WAYS[way](place, False)
    assert test_process.count(place) == (0, 0)
    place.run(f"DROP TRIGGER hostile ON {TRIES}")
    assert test_process.WAYS[way](place, False).outcome == "handled"


@pytest.mark.parametrize("way", test_process.WAYS)
def test_a_dead_letter_that_is_left_out_is_not_acknowledged(
    place: Database, tries: Callable[[str, str], None], way: str
) -> None:
    """The row of tries has the only copy of what the consumer would acknowledge."""
    for _ in range(2):
        test_process.WAYS[way](place, True)
    tries("UPDATE", "NEW.state = 'dead'")
    with pytest.raises(InboxRefused, match=LEFT_OUT):
        test_process.WAYS[way](place, True)
    place.run(f"DROP TRIGGER hostile ON {TRIES}")
    place.run(f"UPDATE {TRIES} SET begun_at = NULL")
    assert test_process.WAYS[way](place, True).outcome == "dead"
    assert place.run(f"SELECT state, payload IS NOT NULL FROM {TRIES}") == [("dead", True)]


def test_what_is_set_aside_and_left_out_is_not_acknowledged(place: Database, tries: Callable[[str, str], None]) -> None:
    tries("INSERT", "TRUE")

    async def run() -> None:
        async with asyncpg.create_pool(place.url, min_size=1) as pool:
            await inbox.set_aside_async(pool.acquire, test_process.MESSAGE, ValueError("bad"), consumer="billing")

    with pytest.raises(InboxRefused, match=LEFT_OUT):
        inbox.set_aside(place.connect, test_process.MESSAGE, ValueError("bad"), consumer="billing")
    with pytest.raises(InboxRefused, match=LEFT_OUT):
        asyncio.run(run())


def test_a_row_of_tries_that_stays_takes_the_effect_back(place: Database, tries: Callable[[str, str], None]) -> None:
    """A soft delete: the row would wait to be tried again for all time."""
    tries("DELETE", "TRUE")
    for way in ("psycopg", "asyncpg"):
        done = test_process.WAYS[way](place, False)
        assert (done.outcome, type(done.error), done.acknowledge) == ("failed", InboxRefused, False)
        assert LEFT_OUT in str(done.error)
    assert test_process.count(place) == (0, 0)
    place.run(f"DROP TRIGGER hostile ON {TRIES}")
    assert test_process.WAYS["psycopg"](place, False).outcome == "handled"
