"""A message is processed: one effect, tries that are counted whatever ends them, and a dead letter after the last."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from psycopg_pool import ConnectionPool
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from openoutbox import ConfigError, Message, inbox, processing
from openoutbox.errors import InboxRefused
from openoutbox.inbox import Processed
from openoutbox.schema import dead_letter_statements, inbox_statements
from tests.client.consumers import EFFECT, EVENT, alchemy_url, execute_in
from tests.client.django_connections import django_connection
from tests.support.fixtures.database import Database
from tests.support.waiting import patience

MESSAGE = Message(EVENT.upper(), "order.placed", "7", b"\xff{", {"a": "\x00", "b": "\u00e9"})
STATE = "SELECT tries, state, error FROM openoutbox_inbox_tries"


@pytest.fixture
def place(database: Database) -> Database:
    for sql in [*inbox_statements(), *dead_letter_statements()]:
        database.run(sql)
    database.run("CREATE TABLE effects (what text NOT NULL)")
    return database


def count(place: Database) -> tuple[int, int]:
    [counts] = place.run("SELECT (SELECT count(*) FROM effects), (SELECT count(*) FROM openoutbox_inbox)")
    return int(counts[0]), int(counts[1])


class Boom(Exception):
    """What goes wrong in a handler."""


Deliver = Callable[[Database, bool], Processed]
"""Process MESSAGE; whether its handler fails."""


def _end(fail: bool) -> None:
    if fail:
        raise Boom("no \x00 such \ud800 customer")


def _handler(execute: Callable[[Any], Callable[[str], Any]], fail: bool) -> Callable[[Any, Message], None]:
    def handle(connection: Any, message: Message) -> None:
        assert message is MESSAGE
        execute(connection)(EFFECT)
        _end(fail)

    return handle


def _handler_async(execute: Callable[[Any], Callable[[str], Any]], fail: bool) -> Callable[[Any, Message], Any]:
    async def handle(connection: Any, message: Message) -> None:
        assert message is MESSAGE
        await execute(connection)(EFFECT)
        _end(fail)

    return handle


def _by_psycopg(connection: Any) -> Callable[[str], Any]:
    execute: Callable[[str], Any] = connection.execute
    return execute


def _by_alchemy(connection: Any) -> Callable[[str], Any]:
    return lambda sql: connection.execute(sqlalchemy.text(sql))


def _psycopg(place: Database, fail: bool) -> Processed:
    return inbox.process(
        lambda: place.connect(autocommit=fail), MESSAGE, _handler(_by_psycopg, fail), consumer="billing", attempts=3
    )


def _pool(place: Database, fail: bool) -> Processed:
    with ConnectionPool(place.url, min_size=1, max_size=1, open=True) as pool:
        handle = _handler(_by_psycopg, fail)
        return inbox.process(pool.connection, MESSAGE, handle, consumer="billing", attempts=3)


def _psycopg_async(place: Database, fail: bool) -> Processed:
    @asynccontextmanager
    async def connect() -> Any:
        async with await place.connect_async(autocommit=False) as connection:
            yield connection

    handle = _handler_async(_by_psycopg, fail)
    return asyncio.run(inbox.process_async(connect, MESSAGE, handle, consumer="billing", attempts=3))


def _asyncpg(place: Database, fail: bool) -> Processed:
    async def run() -> Processed:
        async with asyncpg.create_pool(place.url, min_size=1, max_size=1) as pool:
            handle = _handler_async(_by_psycopg, fail)
            return await inbox.process_async(pool.acquire, MESSAGE, handle, consumer="billing", attempts=3)

    return asyncio.run(run())


def _alchemy(driver: str, kind: type[Session] | None) -> Deliver:
    def deliver(place: Database, fail: bool) -> Processed:
        engine = sqlalchemy.create_engine(alchemy_url(place, driver))
        connect: Callable[[], Any] = engine.connect if kind is None else lambda: kind(engine)
        try:
            return inbox.process(connect, MESSAGE, _handler(_by_alchemy, fail), consumer="billing", attempts=3)
        finally:
            engine.dispose()

    return deliver


def _alchemy_async(driver: str, kind: type[AsyncSession] | None) -> Deliver:
    async def run(place: Database, fail: bool) -> Processed:
        engine = create_async_engine(alchemy_url(place, driver))
        connect: Callable[[], Any] = engine.connect if kind is None else lambda: kind(engine)
        try:
            handle = _handler_async(_by_alchemy, fail)
            return await inbox.process_async(connect, MESSAGE, handle, consumer="billing", attempts=3)
        finally:
            await engine.dispose()

    return lambda place, fail: asyncio.run(run(place, fail))


def _django(place: Database, fail: bool) -> Processed:
    with django_connection(place) as connection:
        handle = _handler(execute_in, fail)
        return inbox.process(lambda: nullcontext(connection), MESSAGE, handle, consumer="billing", attempts=3)


WAYS: dict[str, Deliver] = {
    "psycopg": _psycopg,
    "psycopg-pool": _pool,
    "psycopg-async": _psycopg_async,
    "asyncpg": _asyncpg,
    "sqlalchemy": _alchemy("psycopg", None),
    "sqlalchemy-session": _alchemy("psycopg2", Session),
    "sqlalchemy-async": _alchemy_async("asyncpg", None),
    "sqlalchemy-async-session": _alchemy_async("psycopg", AsyncSession),
    "django": _django,
}
every = pytest.mark.parametrize("way", WAYS)


@every
def test_a_message_that_comes_again_has_one_effect(place: Database, way: str) -> None:
    first, second = WAYS[way](place, False), WAYS[way](place, True)
    assert (first.event_id, first.outcome, first.tries, first.acknowledge) == (EVENT, "handled", 1, True)
    assert (second.outcome, second.acknowledge) == ("repeat", True)
    assert (count(place), place.run(STATE)) == ((1, 1), [])


@every
def test_a_message_that_always_fails_becomes_a_dead_letter(place: Database, way: str) -> None:
    done = [WAYS[way](place, True) for _ in range(4)]
    assert [(one.outcome, one.tries, one.acknowledge) for one in done] == [
        ("failed", 1, False),
        ("failed", 2, False),
        ("dead", 3, True),
        ("dead", 3, True),
    ]
    assert [type(one.error) for one in done] == [Boom, Boom, Boom, type(None)]
    assert count(place) == (0, 0)
    assert place.run(STATE) == [(3, "dead", "Boom: no \ufffd such ? customer")]
    columns = "consumer, event_id, event_type, partition_key, payload, headers::text"
    [(*letter, headers)] = place.run(f"SELECT {columns} FROM openoutbox_inbox_tries")
    assert letter == ["billing", EVENT, "order.placed", "7", b"\xff{"]
    assert json.loads(headers) == MESSAGE.headers


@every
def test_a_message_that_fails_once_has_its_effect_later(place: Database, way: str) -> None:
    assert WAYS[way](place, True).outcome == "failed"
    assert place.run(STATE) == [(1, "trying", "Boom: no \ufffd such ? customer")]
    done = WAYS[way](place, False)
    assert (done.outcome, done.tries) == ("handled", 2)
    assert (count(place), place.run(STATE)) == ((1, 1), [])


def deliver(place: Database, handler: Callable[[Any, Message], object], attempts: int = 3) -> Processed:
    return inbox.process(place.connect, MESSAGE, handler, consumer="billing", attempts=attempts)


def test_one_that_kills_its_process_is_counted(place: Database) -> None:
    class Killed(BaseException):
        """Nothing runs after it."""

    def kill(connection: psycopg.Connection[Any], _: Message) -> None:
        with place.connect() as other:
            other.execute("SELECT pg_terminate_backend(%s)", [connection.info.backend_pid])
        raise Killed

    for tries in (1, 2):
        with pytest.raises((Killed, psycopg.OperationalError)):
            deliver(place, kill, attempts=2)
        assert place.run(STATE) == [(tries, "trying", None)]
        busy = deliver(place, kill, attempts=2)
        assert (busy.outcome, busy.acknowledge) == ("busy", False), "a try that has just begun may be at work"
        place.run("UPDATE openoutbox_inbox_tries SET begun_at = begun_at - interval '6 s'")
    dead = deliver(place, kill, attempts=2)
    assert (dead.outcome, dead.tries, dead.acknowledge) == ("dead", 2, True)
    assert place.run(STATE) == [(2, "dead", "the process ended during the last try")]


def test_a_slow_handler_is_not_outvoted(place: Database) -> None:
    began, go = threading.Event(), threading.Event()

    def slow(connection: psycopg.Connection[Any], _: Message) -> None:
        connection.execute(EFFECT)
        began.set()
        assert go.wait(patience())

    with ThreadPoolExecutor() as pool:
        first = pool.submit(deliver, place, slow, 1)
        assert began.wait(patience())
        for _ in range(5):
            assert deliver(place, slow, 1).outcome == "busy"
        go.set()
        assert first.result(patience()).outcome == "handled"
    assert (count(place), place.run(STATE)) == ((1, 1), [])


def test_many_at_once_have_one_effect_and_count_no_more_than_they_try(place: Database) -> None:
    handled = []

    def handle(connection: psycopg.Connection[Any], _: Message) -> None:
        handled.append(1)
        connection.execute(EFFECT)
        if len(handled) < 3:
            raise Boom

    done: list[Processed] = []
    with ThreadPoolExecutor(8) as pool:
        for _ in range(40):
            done += pool.map(lambda _: deliver(place, handle, 3), range(8))
    outcomes = [one.outcome for one in done]
    assert (outcomes.count("failed"), outcomes.count("handled"), outcomes.count("dead")) == (2, 1, 0)
    assert (len(handled), count(place), place.run(STATE)) == (3, (1, 1), [])


def test_one_that_stood_still_leaves_the_event_to_who_has_counted_since(
    place: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = processing._Work.call

    def late(work: Any, name: str, **values: object) -> Any:
        if name == "hold":  # between its two transactions another consumer counts a try
            place.run("UPDATE openoutbox_inbox_tries SET tries = tries + 1")
        return plain(work, name, **values)

    monkeypatch.setattr(processing._Work, "call", late)
    done = deliver(place, lambda connection, _: connection.execute(EFFECT))
    assert (done.outcome, done.acknowledge) == ("busy", False)
    assert (count(place), place.run(STATE)) == ((0, 0), [(2, "trying", None)])


def test_an_error_at_the_commit_is_a_failed_try(place: Database) -> None:
    place.run("ALTER TABLE effects ADD UNIQUE (what) DEFERRABLE INITIALLY DEFERRED")

    def twice(connection: psycopg.Connection[Any], _: Message) -> None:
        connection.execute(EFFECT)
        connection.execute(EFFECT)

    done = deliver(place, twice)
    assert (done.outcome, type(done.error)) == ("failed", psycopg.errors.UniqueViolation)
    assert count(place) == (0, 0)


def test_what_has_no_id_is_set_aside(place: Database) -> None:
    message = Message("orders/3/1042", "orders", None, b"\x00", {})
    for _ in range(2):
        done = inbox.set_aside(place.connect, message, Boom("no header"), consumer="billing")
        assert (done.outcome, done.acknowledge) == ("dead", True)
    assert place.run(STATE) == [(0, "dead", "Boom: no header")]

    async def again() -> Processed:
        async with asyncpg.create_pool(place.url, min_size=1) as pool:
            return await inbox.set_aside_async(pool.acquire, message, Boom("other"), consumer="audit")

    assert asyncio.run(again()).outcome == "dead"
    assert len(place.run(STATE)) == 2


@pytest.fixture
def marked(place: Database) -> Database:
    """With a dead letter that is to be tried again."""
    deliver(place, lambda *_: _end(True), 1)
    place.run("UPDATE openoutbox_inbox_tries SET state = 'retry', tries = 0")
    return place


def test_a_dead_letter_that_is_marked_is_tried_again(marked: Database) -> None:
    seen: list[Message] = []

    def handle(connection: psycopg.Connection[Any], message: Message) -> None:
        seen.append(message)
        connection.execute(EFFECT)
        _end(len(seen) == 1)

    def run() -> list[str]:
        return [one.outcome for one in inbox.retries(marked.connect, handle, consumer="billing", attempts=2)]

    assert inbox.retries(marked.connect, handle, consumer="audit") == []
    assert [run(), run(), run()] == [["failed"], ["handled"], []]
    assert seen == [Message(EVENT, "order.placed", "7", b"\xff{", MESSAGE.headers)] * 2
    assert (count(marked), marked.run(STATE)) == ((1, 1), [])


def test_one_that_fails_again_is_dead_again(marked: Database) -> None:
    async def fail(_: Any, __: Message) -> None:
        _end(True)

    async def run() -> list[str]:
        async with asyncpg.create_pool(marked.url, min_size=1) as pool:
            return [
                one.outcome for one in await inbox.retries_async(pool.acquire, fail, consumer="billing", attempts=1)
            ]

    assert asyncio.run(run()) == ["dead"]
    assert asyncio.run(run()) == []
    assert marked.run(STATE) == [(1, "dead", "Boom: no \ufffd such ? customer")]


def test_a_connection_that_would_commit_the_mark_alone_is_refused(place: Database) -> None:
    engine = sqlalchemy.create_engine(alchemy_url(place, "psycopg"), isolation_level="AUTOCOMMIT")
    try:
        with pytest.raises(InboxRefused, match="commits each statement alone"):
            inbox.process(engine.connect, MESSAGE, lambda *_: None, consumer="billing")
    finally:
        engine.dispose()
    with place.connect(autocommit=False) as connection:
        connection.execute("SELECT 1")
        with pytest.raises(InboxRefused, match="has a transaction open"):
            inbox.process(lambda: nullcontext(connection), MESSAGE, lambda *_: None, consumer="billing")


def test_wrong_use_is_named(database: Database) -> None:
    with pytest.raises(ConfigError, match="attempts: 0; pass 1 or more"):
        inbox.process(database.connect, MESSAGE, lambda *_: None, consumer="billing", attempts=0)
    with pytest.raises(TypeError, match="connection_factory of process takes a connection"):
        inbox.process(lambda: nullcontext(7), MESSAGE, lambda *_: None, consumer="billing")
    for sql in inbox_statements("other"):
        database.run(sql)
    with pytest.raises(psycopg.errors.UndefinedTable) as failure:
        inbox.process(database.connect, MESSAGE, lambda *_: None, consumer="billing", table="other")
    [note] = failure.value.__notes__
    assert note.endswith(
        "no table other_tries in this database. Create it: relay-cli inbox migrate --with dead-letters --table other"
    )
