"""Each event's effect once: the same cases for every kind of connection, and races on two of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from uuid import UUID

import asyncpg
import psycopg
import pytest
import sqlalchemy
from psycopg import IsolationLevel, errors
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from openoutbox import inbox
from openoutbox.errors import ConfigError, InboxRefused
from openoutbox.schema import inbox_statements
from tests.client.consumers import CONSUMERS, EVENT, Consume, Delivery, alchemy_url
from tests.client.django_connections import django_connection
from tests.support.fixtures.database import Database
from tests.support.waiting import patience, wait_until

AUTOCOMMIT = "the mark would be committed before the effect"


def create(database: Database, table: str) -> None:
    """Create an inbox."""
    for sql in inbox_statements(table):
        database.run(sql)


@pytest.fixture
def place(database: Database) -> Database:
    """A consumer's database: an inbox, and a table of effects."""
    create(database, "openoutbox_inbox")
    database.run("CREATE TABLE effects (what text NOT NULL)")
    return database


@pytest.fixture(params=list(CONSUMERS))
def consume(request: pytest.FixtureRequest) -> Consume:
    return CONSUMERS[request.param]


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def effects(place: Database) -> list[str]:
    return [what for (what,) in place.run("SELECT what FROM effects ORDER BY what")]


def marks(place: Database) -> list[tuple[str, str]]:
    return [(consumer, event_id) for consumer, event_id in place.run("SELECT consumer, event_id FROM openoutbox_inbox")]


def test_an_effect_happens_once(consume: Consume, place: Database) -> None:
    assert consume(Delivery(place))
    assert not consume(Delivery(place))
    assert marks(place) == [("billing", EVENT)]
    assert effects(place).count("effect") == 1


def test_the_mark_is_rolled_back_with_the_transaction(consume: Consume, place: Database) -> None:
    assert consume(Delivery(place, commit=False))
    assert (marks(place), effects(place)) == ([], [])
    assert consume(Delivery(place))


def test_an_error_takes_back_mark_and_effect_and_the_transaction_goes_on(consume: Consume, place: Database) -> None:
    assert consume(Delivery(place, fail=True))
    assert (marks(place), effects(place)) == ([], ["after", "before"])
    assert consume(Delivery(place))


def test_an_error_at_a_repeat_leaves_the_mark(consume: Consume, place: Database) -> None:
    assert consume(Delivery(place))
    assert not consume(Delivery(place, fail=True))
    assert marks(place) == [("billing", EVENT)]


def test_consumers_and_events_are_apart(consume: Consume, place: Database) -> None:
    assert consume(Delivery(place))
    assert consume(Delivery(place, consumer="shipping"))
    assert consume(Delivery(place, event_id="another"))


def second(thread: ThreadPoolExecutor, place: Database, consume: Consume) -> Future[bool]:
    """A second delivery of the event, once it waits for the first one's transaction."""
    future = thread.submit(consume, Delivery(place))
    wait_until(lambda: future.done() or place.waiting_for_locks(), what="the second delivery to wait")
    assert not future.done()
    return future


def test_a_repeat_waits_for_the_first_ones_commit(
    consume: Consume, place: Database, thread: ThreadPoolExecutor
) -> None:
    with place.connect(autocommit=False) as connection:
        with inbox.once(connection, EVENT, consumer="billing") as first:
            assert first
        future = second(thread, place, consume)
        connection.commit()
    assert not future.result(patience())
    assert "effect" not in effects(place)


def test_a_repeat_is_the_first_where_the_other_rolled_back(
    consume: Consume, place: Database, thread: ThreadPoolExecutor
) -> None:
    with place.connect(autocommit=False) as connection:
        with inbox.once(connection, EVENT, consumer="billing") as first:
            assert first
        future = second(thread, place, consume)
        connection.rollback()
    assert future.result(patience())
    assert effects(place).count("effect") == 1


def test_a_snapshot_that_does_not_see_the_mark_is_refused(place: Database) -> None:
    with place.connect(autocommit=False) as connection:
        connection.isolation_level = IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT 1")
        assert CONSUMERS["psycopg"](Delivery(place))
        with pytest.raises(errors.SerializationFailure), inbox.once(connection, EVENT, consumer="billing"):
            pytest.fail("the block must not run")
        connection.rollback()
        with inbox.once(connection, EVENT, consumer="billing") as first:
            assert not first


def _psycopg(place: Database) -> None:
    with place.connect() as connection, inbox.once(connection, EVENT, consumer="billing"):
        pytest.fail("the block must not run")


def _psycopg_async(place: Database) -> None:
    async def run() -> None:
        async with await place.connect_async() as connection, inbox.once(connection, EVENT, consumer="billing"):
            pytest.fail("the block must not run")

    asyncio.run(run())


def _alchemy(driver: str) -> Callable[[Database], None]:
    def run(place: Database) -> None:
        engine = sqlalchemy.create_engine(alchemy_url(place, driver), isolation_level="AUTOCOMMIT")
        try:
            with Session(engine) as session, inbox.once(session, EVENT, consumer="billing"):
                pytest.fail("the block must not run")
        finally:
            engine.dispose()

    return run


def _alchemy_async(driver: str) -> Callable[[Database], None]:
    async def run(place: Database) -> None:
        engine = create_async_engine(alchemy_url(place, driver), isolation_level="AUTOCOMMIT")
        try:
            async with AsyncSession(engine) as session, inbox.once(session, EVENT, consumer="billing"):
                pytest.fail("the block must not run")
        finally:
            await engine.dispose()

    return lambda place: asyncio.run(run(place))


def _django(place: Database) -> None:
    with django_connection(place) as connection, inbox.once(connection, EVENT, consumer="billing"):
        pytest.fail("the block must not run")


def _asyncpg(place: Database) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(place.url)
        try:
            async with inbox.once(connection, EVENT, consumer="billing"):
                pytest.fail("the block must not run")
        finally:
            await connection.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    "attempt",
    [
        pytest.param(_psycopg, id="psycopg"),
        pytest.param(_psycopg_async, id="psycopg-async"),
        pytest.param(_alchemy("psycopg"), id="sqlalchemy-psycopg"),
        pytest.param(_alchemy("psycopg2"), id="sqlalchemy-psycopg2"),
        pytest.param(_alchemy_async("psycopg"), id="sqlalchemy-async-psycopg"),
        pytest.param(_alchemy_async("asyncpg"), id="sqlalchemy-async-asyncpg"),
        pytest.param(_django, id="django"),
        pytest.param(_asyncpg, id="asyncpg"),
    ],
)
def test_autocommit_without_a_transaction_is_refused(place: Database, attempt: Callable[[Database], None]) -> None:
    with pytest.raises(InboxRefused, match=AUTOCOMMIT):
        attempt(place)
    assert marks(place) == []


def roll_back() -> None:
    """Psycopg's way to leave a transaction without its effects."""
    raise psycopg.Rollback


def test_psycopgs_rollback_takes_the_mark_back(place: Database) -> None:
    with place.connect(autocommit=False) as connection, inbox.once(connection, EVENT, consumer="billing") as first:
        assert first
        roll_back()
    assert marks(place) == []


def test_an_id_is_the_same_as_text_as_bytes_and_as_a_uuid(place: Database) -> None:
    forms: list[str | bytes | UUID] = [
        EVENT,
        EVENT.encode(),
        UUID(EVENT),
        EVENT.upper(),
        f"{{{EVENT}}}",
        UUID(EVENT).hex,
    ]
    with place.connect(autocommit=False) as connection:
        new = []
        for form in forms:
            with inbox.once(connection, form, consumer="billing") as first:
                new.append(first)
    assert new == [True, *[False] * 5]


def test_a_missing_table_names_the_command_that_makes_it(database: Database) -> None:
    with (
        database.connect(autocommit=False) as connection,
        pytest.raises(errors.UndefinedTable) as missing,
        inbox.once(connection, EVENT, consumer="billing"),
    ):
        pytest.fail("the block must not run")
    assert missing.value.__notes__[0].endswith("Create it: relay-cli inbox migrate")


def test_another_table(place: Database) -> None:
    place.run('CREATE SCHEMA "Ä b"')
    create(place, "Ä b.in%box")
    with (
        place.connect(autocommit=False) as connection,
        inbox.once(connection, EVENT, consumer="billing", table="Ä b.in%box") as first,
    ):
        assert first
    assert place.run('SELECT count(*) FROM "Ä b"."in%box"') == [(1,)]
    assert marks(place) == []


@pytest.mark.parametrize(
    ("event_id", "consumer", "said"),
    [
        (None, "billing", "event_id: a NoneType; pass a string; the message has no such header or field"),
        ("", "billing", "event_id: '' is not usable"),
        ("x" * 201, "billing", "pass 1 to 200 characters"),
        ("a\0b", "billing", "without NUL"),
        (b"\xff", "billing", "is not UTF-8"),
        (7, "billing", "event_id: a int; pass a string"),
        (EVENT, "", "consumer: '' is not usable"),
        (EVENT, None, "consumer: a NoneType"),
    ],
)
def test_what_cannot_be_told_apart_is_refused(place: Database, event_id: Any, consumer: Any, said: str) -> None:
    with place.connect(autocommit=False) as connection, pytest.raises(InboxRefused) as refused:
        inbox.once(connection, event_id, consumer=consumer)
    assert said in str(refused.value)


def test_other_objects_are_refused(place: Database) -> None:
    with pytest.raises(TypeError, match=r"psycopg, asyncpg, SQLAlchemy or Django to PostgreSQL, not builtins\.object"):
        inbox.once(object(), EVENT, consumer="billing")  # type: ignore[call-overload]
    with place.connect() as connection, pytest.raises(ConfigError, match="is not a table name"):
        inbox.once(connection, EVENT, consumer="billing", table="a.b.c")
