"""An event is never committed without the change that it announces, unless the caller says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from django.db import transaction
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from openoutbox import Enqueued, EnqueueRefused, NewEvent, enqueue, enqueue_async
from tests.client.consumers import alchemy_url
from tests.client.django_connections import django_connection
from tests.support.fixtures.database import Database

Call = Callable[[Database, dict[str, Any]], Enqueued]
EVENT = NewEvent("order.placed", b"{}", partition_key="k")


def _psycopg(database: Database, options: dict[str, Any], explicit: bool = False) -> Enqueued:
    with database.connect() as connection:
        if explicit:
            connection.execute("BEGIN")
        done = enqueue(connection, EVENT, **options)
        if explicit:
            connection.execute("COMMIT")
        return done


def _psycopg_async(database: Database, options: dict[str, Any]) -> Enqueued:
    async def run() -> Enqueued:
        async with await database.connect_async() as connection:
            return await enqueue_async(connection, EVENT, **options)

    return asyncio.run(run())


def _pipeline(database: Database, options: dict[str, Any], explicit: bool = False) -> Enqueued:
    with database.connect() as connection, connection.pipeline():
        if not explicit:
            return enqueue(connection, EVENT, **options)
        with connection.transaction():
            return enqueue(connection, EVENT, **options)


def _pipeline_async(database: Database, options: dict[str, Any], explicit: bool = False) -> Enqueued:
    async def run() -> Enqueued:
        async with await database.connect_async() as connection, connection.pipeline():
            if not explicit:
                return await enqueue_async(connection, EVENT, **options)
            async with connection.transaction():
                return await enqueue_async(connection, EVENT, **options)

    return asyncio.run(run())


def _alchemy(driver: str, kind: Callable[[sqlalchemy.Engine], Any], begin: str = "") -> Call:
    def run(database: Database, options: dict[str, Any]) -> Enqueued:
        engine = sqlalchemy.create_engine(alchemy_url(database, driver), isolation_level="AUTOCOMMIT")
        try:
            with kind(engine) as target:
                if begin:
                    target.execute(sqlalchemy.text(begin))
                done = enqueue(target, EVENT, **options)
                if begin:
                    target.execute(sqlalchemy.text("COMMIT"))
                return done
        finally:
            engine.dispose()

    return run


def _alchemy_async(driver: str, kind: type[AsyncSession] | type[AsyncConnection]) -> Call:
    async def run(database: Database, options: dict[str, Any]) -> Enqueued:
        engine = create_async_engine(alchemy_url(database, driver), isolation_level="AUTOCOMMIT")
        try:
            async with kind(engine) as target:
                return await enqueue_async(target, EVENT, **options)
        finally:
            await engine.dispose()

    return lambda database, options: asyncio.run(run(database, options))


def _django(database: Database, options: dict[str, Any]) -> Enqueued:
    with django_connection(database) as connection:
        return enqueue(connection, EVENT, **options)


def _django_on_commit(database: Database, options: dict[str, Any]) -> Enqueued:
    """Called when the change has been committed already."""
    done: list[Enqueued] = []
    with django_connection(database) as connection, transaction.atomic(using=connection.alias):
        transaction.on_commit(lambda: done.append(enqueue(connection, EVENT, **options)), using=connection.alias)
    return done[0]


def _asyncpg(database: Database, options: dict[str, Any]) -> Enqueued:
    async def run() -> Enqueued:
        connection = await asyncpg.connect(database.url)
        try:
            return await enqueue_async(connection, EVENT, **options)
        finally:
            await connection.close()

    return asyncio.run(run())


ALONE: dict[str, Call] = {
    "psycopg": _psycopg,
    "psycopg-async": _psycopg_async,
    "psycopg-pipeline": _pipeline,
    "psycopg-async-pipeline": _pipeline_async,
    "sqlalchemy-psycopg": _alchemy("psycopg", lambda engine: engine.connect()),
    "sqlalchemy-psycopg2": _alchemy("psycopg2", Session),
    "sqlalchemy-async-psycopg": _alchemy_async("psycopg", AsyncConnection),
    "sqlalchemy-async-asyncpg": _alchemy_async("asyncpg", AsyncSession),
    "django": _django,
    "django-on-commit": _django_on_commit,
    "asyncpg": _asyncpg,
}
OPENED: dict[str, Call] = {
    "psycopg-begin": partial(_psycopg, explicit=True),
    "psycopg-pipeline": partial(_pipeline, explicit=True),
    "psycopg-async-pipeline": partial(_pipeline_async, explicit=True),
    "sqlalchemy-psycopg-begin": _alchemy("psycopg", lambda engine: engine.connect(), "BEGIN"),
    "sqlalchemy-psycopg2-begin": _alchemy("psycopg2", lambda engine: engine.connect(), "BEGIN"),
}


@pytest.fixture(params=list(ALONE))
def alone(request: pytest.FixtureRequest) -> Call:
    return ALONE[request.param]


def count(outbox: Database) -> int:
    return int(outbox.run("SELECT count(*) FROM openoutbox_events")[0][0])


def test_an_event_that_would_be_committed_alone_is_refused(alone: Call, outbox: Database) -> None:
    with pytest.raises(EnqueueRefused, match=r"committed alone.* Open a transaction .*; .* pass autocommit=True$"):
        alone(outbox, {})
    assert count(outbox) == 0


def test_it_is_taken_from_a_caller_who_means_it(alone: Call, outbox: Database) -> None:
    assert alone(outbox, {"autocommit": True}).inserted in {1, None}
    assert count(outbox) == 1


def test_locks_until_the_commit_are_refused_where_it_is_at_once(alone: Call, outbox: Database) -> None:
    with pytest.raises(EnqueueRefused, match="in_order: its locks are kept until the commit"):
        alone(outbox, {"autocommit": True, "in_order": True})
    assert count(outbox) == 0


@pytest.mark.parametrize("opened", OPENED.values(), ids=OPENED)
def test_a_transaction_that_the_caller_began_is_one(opened: Call, outbox: Database) -> None:
    opened(outbox, {})
    assert count(outbox) == 1


def test_parts_of_a_large_call_are_not_committed_one_by_one(outbox: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openoutbox.insert.STATEMENT_BYTES", 10)
    events = [NewEvent("a", b"12345678") for _ in range(3)]
    with outbox.connect() as connection:
        with pytest.raises(EnqueueRefused, match="would be committed in parts"):
            enqueue(connection, events, autocommit=True)
        with connection.transaction():
            assert enqueue(connection, events).inserted == 3
    assert count(outbox) == 3


def test_a_failed_transaction_says_so_itself(outbox: Database) -> None:
    with outbox.connect(autocommit=False) as connection:
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("SELECT 1/0")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            enqueue(connection, EVENT)
