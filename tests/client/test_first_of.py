"""A batch of marks in one statement, through every kind of connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import asyncpg
import psycopg
import pytest
import sqlalchemy
from django.db import transaction
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from openoutbox import inbox
from openoutbox.errors import InboxRefused
from openoutbox.schema import inbox_statements
from tests.client.consumers import EVENT, alchemy_url
from tests.client.django_connections import django_connection
from tests.support.fixtures.database import Database
from tests.support.waiting import patience, wait_until

GIVEN: list[Any] = ["b", EVENT.upper(), "a", b"b", UUID(EVENT), f"{{{EVENT}}}"]
NEW = ["b", EVENT, "a"]


@pytest.fixture
def place(database: Database) -> Database:
    for sql in inbox_statements():
        database.run(sql)
    return database


def _psycopg(place: Database, ids: list[Any]) -> list[str]:
    with place.connect(autocommit=False) as connection:
        return inbox.first_of(connection, ids, consumer="billing")


def _psycopg_async(place: Database, ids: list[Any]) -> list[str]:
    async def run() -> list[str]:
        async with await place.connect_async(autocommit=False) as connection:
            return await inbox.first_of(connection, ids, consumer="billing")

    return asyncio.run(run())


def _alchemy(place: Database, ids: list[Any]) -> list[str]:
    engine = sqlalchemy.create_engine(alchemy_url(place, "psycopg2"))
    try:
        with Session(engine) as session, session.begin():
            return inbox.first_of(session, ids, consumer="billing")
    finally:
        engine.dispose()


def _alchemy_async(place: Database, ids: list[Any]) -> list[str]:
    async def run() -> list[str]:
        engine = create_async_engine(alchemy_url(place, "asyncpg"))
        try:
            async with AsyncSession(engine) as session, session.begin():
                return await inbox.first_of(session, ids, consumer="billing")
        finally:
            await engine.dispose()

    return asyncio.run(run())


def _django(place: Database, ids: list[Any]) -> list[str]:
    with django_connection(place) as connection, transaction.atomic(using=connection.alias):
        new: list[str] = inbox.first_of(connection, ids, consumer="billing")
        return new


def _asyncpg(place: Database, ids: list[Any]) -> list[str]:
    async def run() -> list[str]:
        connection = await asyncpg.connect(place.url)
        try:
            async with connection.transaction():
                new: list[str] = await inbox.first_of(connection, ids, consumer="billing")
                return new
        finally:
            await connection.close()

    return asyncio.run(run())


@pytest.mark.parametrize("mark", [_psycopg, _psycopg_async, _alchemy, _alchemy_async, _django, _asyncpg])
def test_the_new_ones_of_a_batch_each_once(place: Database, mark: Callable[[Database, list[Any]], list[str]]) -> None:
    assert mark(place, GIVEN) == NEW
    assert mark(place, [*GIVEN, "c"]) == ["c"]
    assert mark(place, []) == []
    assert sorted(place.run("SELECT consumer, event_id FROM openoutbox_inbox")) == sorted(
        ("billing", event_id) for event_id in [*NEW, "c"]
    )


def test_what_was_marked_by_once_is_no_longer_new(place: Database) -> None:
    with place.connect(autocommit=False) as connection:
        with inbox.once(connection, EVENT, consumer="billing"):
            pass
        assert inbox.first_of(connection, GIVEN, consumer="billing") == ["b", "a"]
        assert inbox.first_of(connection, [EVENT], consumer="shipping") == [EVENT]


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


@pytest.mark.parametrize(("commit", "answer"), [(True, []), (False, ["a", "b"])])
def test_a_batch_waits_for_the_end_of_another_one(
    place: Database, thread: ThreadPoolExecutor, commit: bool, answer: list[str]
) -> None:
    with place.connect(autocommit=False) as first:
        assert inbox.first_of(first, ["b", "a"], consumer="billing") == ["b", "a"]
        later = thread.submit(_psycopg, place, ["a", "b"])
        wait_until(place.waiting_for_locks, what="the later batch to wait")
        first.commit() if commit else first.rollback()
        assert later.result(patience()) == answer


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (EVENT, "event_ids: a str; pass a list"),
        (EVENT.encode(), "event_ids: a bytes"),
        (["a", None], "event_id: a NoneType"),
    ],
)
def test_what_is_no_batch_of_ids_is_refused(place: Database, ids: Any, said: str) -> None:
    with place.connect(autocommit=False) as connection, pytest.raises(InboxRefused, match=said):
        inbox.first_of(connection, ids, consumer="billing")


def test_a_connection_that_commits_at_once_is_refused(place: Database) -> None:
    with place.connect() as connection, pytest.raises(InboxRefused, match="committed before the effect"):
        inbox.first_of(connection, GIVEN, consumer="billing")
    with pytest.raises(InboxRefused, match="committed before the effect"):
        asyncio.run(_at_once(place))
    assert place.run("SELECT FROM openoutbox_inbox") == []


async def _at_once(place: Database) -> None:
    async with await place.connect_async() as connection:
        await inbox.first_of(connection, GIVEN, consumer="billing")


def test_a_missing_table_names_the_command_that_makes_it(database: Database) -> None:
    with pytest.raises(psycopg.errors.UndefinedTable) as missing:
        _psycopg(database, GIVEN)
    assert missing.value.__notes__[0].endswith("Create it: relay-cli inbox migrate")


def test_other_objects_are_refused() -> None:
    with pytest.raises(TypeError, match=r"first_of takes .* not builtins\.object"):
        inbox.first_of(object(), GIVEN, consumer="billing")  # type: ignore[call-overload]
