"""An application's tests see what its code announced, through every kind of connection, before it is committed."""

from __future__ import annotations

import asyncio
import unittest
from collections.abc import Callable, Iterator
from typing import Any

import asyncpg
import pytest
import sqlalchemy
from django.db import connections, transaction
from django.test import TestCase, TransactionTestCase
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from openoutbox import NewEvent, TableName, enqueue, enqueue_async
from openoutbox.testing import Announced, OutboxMixin, announced, assert_announced, refute_announced
from tests.client.conftest import create_outbox
from tests.client.consumers import alchemy_url
from tests.client.django_connections import django_connection
from tests.support.fixtures.database import Database

pytest_plugins = ["pytester"]

ORDER = NewEvent("order.placed", {"order": 7, "note": '"\\'}, partition_key="7", headers={"n": 1})
NOTE = NewEvent("audit.noted", b"\xff")


def _check(target: Any) -> list[Announced]:
    assert_announced(target, type="audit.noted", key=None, payload=b"\xff")
    refute_announced(target, type="order.placed", key="8")
    events: list[Announced] = announced(target)
    return events


async def _check_async(target: Any) -> list[Announced]:
    await enqueue_async(target, [ORDER, NOTE])
    await assert_announced(target, type="audit.noted", key=None, payload=b"\xff")
    await refute_announced(target, type="order.placed", key="8")
    with pytest.raises(AssertionError, match=r"1 events with type 'order\.placed', not 0"):
        await refute_announced(target, type="order.placed")
    events: list[Announced] = await announced(target)
    return events


def _psycopg(outbox: Database) -> list[Announced]:
    with outbox.connect(autocommit=False) as connection:
        enqueue(connection, [ORDER, NOTE])
        seen = _check(connection)
        assert _check(connection.cursor()) == seen
        connection.rollback()
        return seen


def _psycopg_async(outbox: Database) -> list[Announced]:
    async def run() -> list[Announced]:
        async with await outbox.connect_async(autocommit=False) as connection:
            seen = await _check_async(connection)
            await connection.rollback()
            return seen

    return asyncio.run(run())


def _asyncpg(outbox: Database) -> list[Announced]:
    async def run() -> list[Announced]:
        connection = await asyncpg.connect(outbox.url)
        await connection.set_type_codec("jsonb", encoder=repr, decoder=repr, schema="pg_catalog")
        try:
            block = connection.transaction()
            await block.start()
            seen = await _check_async(connection)
            await block.rollback()
            return seen
        finally:
            await connection.close()

    return asyncio.run(run())


def _alchemy(driver: str) -> Callable[[Database], list[Announced]]:
    def run(outbox: Database) -> list[Announced]:
        engine = sqlalchemy.create_engine(alchemy_url(outbox, driver))
        try:
            with Session(engine) as session:
                enqueue(session, [ORDER, NOTE])
                return _check(session)
        finally:
            engine.dispose()

    return run


def _alchemy_async(
    driver: str, kind: type[AsyncSession] | type[AsyncConnection]
) -> Callable[[Database], list[Announced]]:
    async def run(outbox: Database) -> list[Announced]:
        engine = create_async_engine(alchemy_url(outbox, driver))
        try:
            async with kind(engine) as target:
                return await _check_async(target)
        finally:
            await engine.dispose()

    def start(outbox: Database) -> list[Announced]:
        return asyncio.run(run(outbox))

    return start


def _django(outbox: Database) -> list[Announced]:
    with django_connection(outbox) as connection, transaction.atomic(using=connection.alias):
        enqueue(connection, [ORDER, NOTE])
        seen = _check(connection)
        transaction.set_rollback(True, using=connection.alias)
        return seen


WAYS: dict[str, Callable[[Database], list[Announced]]] = {
    "psycopg": _psycopg,
    "psycopg-async": _psycopg_async,
    "asyncpg": _asyncpg,
    "sqlalchemy-psycopg": _alchemy("psycopg"),
    "sqlalchemy-psycopg2": _alchemy("psycopg2"),
    "sqlalchemy-async-psycopg": _alchemy_async("psycopg", AsyncSession),
    "sqlalchemy-asyncpg": _alchemy_async("asyncpg", AsyncConnection),
    "django": _django,
}


@pytest.mark.parametrize("way", WAYS)
def test_what_the_transaction_announced_is_seen_and_not_committed(outbox: Database, way: str) -> None:
    order, note = WAYS[way](outbox)
    assert (order.event_id, order.event_type, order.partition_key) == (ORDER.event_id, "order.placed", "7")
    assert (order.json, order.headers) == ({"order": 7, "note": '"\\'}, {"n": 1})
    assert order.available_at.tzinfo is not None
    assert (note.payload, note.partition_key, note.headers) == (b"\xff", None, {})
    assert outbox.run("SELECT count(*) FROM openoutbox_events") == [(0,)]


@pytest.fixture
def connection(outbox: Database) -> Iterator[Any]:
    with outbox.connect(autocommit=False) as connection:
        enqueue(connection, [ORDER, NOTE])
        yield connection
        connection.rollback()


@pytest.mark.parametrize(
    "wanted",
    [
        {"type": "order.placed"},
        {"type": "order.placed", "key": "7"},
        {"type": "order.placed", "payload": {"note": '"\\', "order": 7}},
        {"type": "order.placed", "key": "7", "payload": ORDER.body},
        {"type": "order.placed", "payload": ORDER.body.decode()},
    ],
)
def test_an_event_is_matched_by_what_is_given(connection: Any, wanted: dict[str, Any]) -> None:
    assert assert_announced(connection, **wanted).event_id == ORDER.event_id
    with pytest.raises(AssertionError, match="not 0"):
        refute_announced(connection, **wanted)


@pytest.mark.parametrize(
    "wanted",
    [
        {"type": "order"},
        {"type": "order.placed", "key": None},
        {"type": "order.placed", "payload": {"order": 7}},
        {"type": "audit.noted", "key": "7"},
        {"type": "audit.noted", "payload": {"order": 7}},
    ],
)
def test_an_event_that_differs_is_none(connection: Any, wanted: dict[str, Any]) -> None:
    refute_announced(connection, **wanted)
    with pytest.raises(AssertionError, match="0 events with type") as failure:
        assert_announced(connection, **wanted)
    assert "order.placed, key '7', payload b'{" in str(failure.value)


def test_two_of_one_kind_are_not_one(connection: Any) -> None:
    enqueue(connection, NewEvent("order.placed", {"order": 8}))
    with pytest.raises(AssertionError, match=r"2 events with type 'order\.placed', not 1"):
        assert_announced(connection, type="order.placed")
    with pytest.raises(AssertionError, match="3 events with any type, not 0"):
        refute_announced(connection)


def test_a_long_list_is_cut(connection: Any) -> None:
    enqueue(connection, [NewEvent("bulk", {"n": number}) for number in range(40)])
    with pytest.raises(AssertionError, match="and 22 more"):
        assert_announced(connection, type="none")


def test_an_empty_outbox_is_said(outbox: Database) -> None:
    with outbox.connect() as connection:
        refute_announced(connection)
        with pytest.raises(AssertionError, match="announced: nothing"):
            assert_announced(connection, type="order.placed")


def test_another_table_and_a_missing_one(database: Database) -> None:
    table = TableName("letters")
    create_outbox(database, table)
    with database.connect(autocommit=False) as connection:
        enqueue(connection, ORDER, table=table)
        assert_announced(connection, type="order.placed", table="letters")
        with pytest.raises(Exception, match="does not exist") as failure:
            refute_announced(connection)
    assert "Create it: relay-cli migrate" in failure.value.__notes__[0]


def test_what_is_no_connection_is_refused() -> None:
    with pytest.raises(TypeError, match=r"refute_announced takes a connection, .*, not builtins\.str"):
        refute_announced("postgres://app")  # type: ignore[call-overload]


def _run(case: type[unittest.TestCase]) -> unittest.TestResult:
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    return result


@pytest.mark.parametrize("base", [TestCase, TransactionTestCase])
def test_django_cases_see_their_own_events_alone(outbox: Database, base: type[TransactionTestCase]) -> None:
    class Orders(OutboxMixin, base):  # type: ignore[misc]
        def setUp(self) -> None:
            """Without super(), as many have it."""

        def test_first(self) -> None:
            self.place()

        def test_second(self) -> None:
            self.place()

        def test_third(self) -> None:
            self.outbox.refute_announced()

        def place(self) -> None:
            with transaction.atomic():
                enqueue(connections["default"], ORDER)
            self.outbox.assert_announced(type="order.placed", payload={"order": 7, "note": '"\\'})

    with django_connection(outbox, "default"):
        result = _run(Orders)
    assert (result.testsRun, result.errors, result.failures) == (3, [], [])
    assert outbox.run("SELECT count(*) FROM openoutbox_events") == [(0,)]


CONFTEST = """
import psycopg, pytest

pytest_plugins = ["openoutbox.pytest_plugin"]

@pytest.fixture
def outbox_connection():
    with psycopg.connect({url!r}) as connection:
        yield connection
        connection.rollback()
"""
TESTS = """
from openoutbox import NewEvent, enqueue

def test_seen(outbox_connection, outbox):
    enqueue(outbox_connection, NewEvent("order.placed", {"order": 7}))
    assert outbox.assert_announced(type="order.placed").json == {"order": 7}

def test_nothing_is_left(outbox):
    outbox.refute_announced()

def test_missing(outbox):
    outbox.assert_announced(type="order.placed")
"""


def test_the_fixture_of_pytest(outbox: Database, pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST.format(url=outbox.url))
    pytester.makepyfile(TESTS)
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:asyncio")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*0 events with type 'order.placed', not 1; announced: nothing"])
