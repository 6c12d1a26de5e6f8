"""Events go in through every driver alike: one table of callers, the same cases for each."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import traceback
from collections.abc import Callable, Coroutine, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID

import asyncpg
import psycopg
import psycopg_pool
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from openoutbox import Enqueued, EventError, NewEvent, enqueue, enqueue_async, sql_api_statements, uuid7
from openoutbox.errors import ConfigError, EnqueueRefused
from openoutbox.names import TableName
from tests.client.conftest import create_outbox
from tests.client.django_connections import django_connection
from tests.support.fixtures.database import Database

Events = NewEvent | Iterable[NewEvent]
Caller = Callable[[Database, Events, str, bool], Enqueued]
"""Insert in a transaction of its own, through one kind of connection, and commit or roll back."""


def _psycopg(database: Database, events: Events, table: str, commit: bool) -> Enqueued:
    with database.connect(autocommit=False) as connection:
        done = enqueue(connection, events, table=table)
        connection.commit() if commit else connection.rollback()
        return done


def _psycopg_cursor(database: Database, events: Events, table: str, commit: bool) -> Enqueued:
    with database.connect(autocommit=False) as connection, psycopg.RawCursor(connection) as cursor:
        cursor.execute("SELECT $1::int", (7,))
        done = enqueue(cursor, events, table=table)
        assert cursor.fetchone() == (7,), "the caller's cursor keeps its results"
        connection.commit() if commit else connection.rollback()
        return done


def _psycopg_async(database: Database, events: Events, table: str, commit: bool) -> Enqueued:
    async def run() -> Enqueued:
        async with await database.connect_async(autocommit=False) as connection, connection.cursor() as cursor:
            done = await enqueue_async(cursor if commit else connection, events, table=table)
            await (connection.commit() if commit else connection.rollback())
            return done

    return asyncio.run(run())


def _alchemy_url(database: Database, driver: str) -> sqlalchemy.URL:
    return sqlalchemy.make_url(database.url).set(drivername=f"postgresql+{driver}")


@contextlib.contextmanager
def _engine(database: Database, driver: str) -> Iterator[sqlalchemy.Engine]:
    engine = sqlalchemy.create_engine(_alchemy_url(database, driver))
    try:
        yield engine
    finally:
        engine.dispose()


def _alchemy_connection(database: Database, events: Events, table: str, commit: bool) -> Enqueued:
    with _engine(database, "psycopg") as engine, engine.connect() as connection:
        done = enqueue(connection, events, table=table)
        connection.commit() if commit else connection.rollback()
        return done


def _alchemy_session(database: Database, events: Events, table: str, commit: bool) -> Enqueued:
    with _engine(database, "psycopg2") as engine, Session(engine) as session:
        done = enqueue(session, events, table=table)
        session.commit() if commit else session.rollback()
        return done


def _alchemy_scoped_session(database: Database, events: Events, table: str, commit: bool) -> Enqueued:
    with _engine(database, "psycopg") as engine:
        session = scoped_session(sessionmaker(engine))
        try:
            done = enqueue(session, events, table=table)
            session.commit() if commit else session.rollback()
            return done
        finally:
            session.remove()


def _alchemy_async(driver: str, kind: type[AsyncSession] | type[AsyncConnection]) -> Caller:
    async def run(database: Database, events: Events, table: str, commit: bool) -> Enqueued:
        engine = create_async_engine(_alchemy_url(database, driver))
        try:
            async with kind(engine) as target:
                done = await enqueue_async(target, events, table=table)
                await (target.commit() if commit else target.rollback())
                return done
        finally:
            await engine.dispose()

    def call(database: Database, events: Events, table: str, commit: bool) -> Enqueued:
        started: Coroutine[Any, Any, Enqueued] = run(database, events, table, commit)
        return asyncio.run(started)

    return call


def _django(database: Database, events: Events, table: str, commit: bool) -> Enqueued:
    with django_connection(database) as connection:
        connection.set_autocommit(False)
        done = enqueue(connection, events, table=table)
        connection.commit() if commit else connection.rollback()
        return done


def _asyncpg(database: Database, events: Events, table: str, commit: bool) -> Enqueued:
    async def run() -> Enqueued:
        connection = await asyncpg.connect(database.url)
        # What many applications do; the outbox's own headers are not to be encoded by it a second time.
        await connection.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
        try:
            transaction = connection.transaction()
            await transaction.start()
            done = await enqueue_async(connection, events, table=table)
            await (transaction.commit() if commit else transaction.rollback())
            return done
        finally:
            await connection.close()

    return asyncio.run(run())


def _asyncpg_pool(database: Database, events: Events, table: str, commit: bool) -> Enqueued:
    async def run() -> Enqueued:
        async with asyncpg.create_pool(database.url, min_size=1, max_size=1) as pool, pool.acquire() as connection:
            transaction = connection.transaction()
            await transaction.start()
            done = await enqueue_async(connection, events, table=table)
            await (transaction.commit() if commit else transaction.rollback())
            return done

    return asyncio.run(run())


CALLERS: dict[str, Caller] = {
    "psycopg": _psycopg,
    "psycopg-cursor": _psycopg_cursor,
    "psycopg-async": _psycopg_async,
    "sqlalchemy-connection": _alchemy_connection,
    "sqlalchemy-session": _alchemy_session,
    "sqlalchemy-scoped-session": _alchemy_scoped_session,
    "sqlalchemy-async-session": _alchemy_async("psycopg", AsyncSession),
    "sqlalchemy-async-connection": _alchemy_async("asyncpg", AsyncConnection),
    "django": _django,
    "asyncpg": _asyncpg,
    "asyncpg-pool": _asyncpg_pool,
}

TABLE = "openoutbox_events"


@pytest.fixture(params=list(CALLERS))
def caller(request: pytest.FixtureRequest) -> Caller:
    return CALLERS[request.param]


def test_every_column_arrives_as_given(caller: Caller, outbox: Database) -> None:
    at = datetime(2031, 2, 3, 4, 5, 6, 789_000, tzinfo=UTC)
    nested = {"n": 12345678901234567890123, "text": 'quote " comma , brace }', "ü": [None, True]}
    events = [
        NewEvent("user.signup", bytes(range(256)), partition_key="k'1", headers=nested, available_at=at),
        NewEvent("user.left: 100% sure", b""),
    ]
    assert caller(outbox, events, TABLE, True) == Enqueued([event.event_id for event in events], 2)
    columns = (
        "event_id, event_type, partition_key, payload, headers, status, attempts, last_error, locked_by, locked_at"
    )
    rows = outbox.run(f"SELECT {columns}, delivered_at FROM openoutbox_events ORDER BY payload DESC")
    rest: tuple[object, ...] = ("PENDING", 0, None, None, None, None)
    assert rows == [
        (events[0].event_id, "user.signup", "k'1", bytes(range(256)), nested, *rest),
        (events[1].event_id, "user.left: 100% sure", None, b"", {}, *rest),
    ]
    due: dict[Any, Any] = dict(
        outbox.run("SELECT event_type, available_at FROM openoutbox_events WHERE available_at <> created_at")
    )
    assert due == {"user.signup": at}


def test_a_delay_counts_from_the_databases_time(caller: Caller, outbox: Database) -> None:
    caller(outbox, NewEvent("late", b"", delay=timedelta(hours=1, milliseconds=250)), TABLE, True)
    assert outbox.run("SELECT available_at - created_at FROM openoutbox_events") == [
        (timedelta(hours=1, milliseconds=250),)
    ]


def test_the_caller_decides_about_the_transaction(caller: Caller, outbox: Database) -> None:
    caller(outbox, NewEvent("never.was", b""), TABLE, False)
    assert outbox.run("SELECT count(*) FROM openoutbox_events") == [(0,)]


def test_repeating_an_insert_changes_nothing(caller: Caller, outbox: Database) -> None:
    event, id_ = NewEvent("once", b"first"), uuid7()
    assert caller(outbox, [event], TABLE, True).inserted == 1
    again = [NewEvent("once", b"second", event_id=event.event_id), NewEvent("new", b"", event_id=id_)]
    assert caller(outbox, again, TABLE, True) == Enqueued([event.event_id, id_], 1, unchecked=True)
    assert outbox.run("SELECT payload FROM openoutbox_events WHERE event_type = 'once'") == [(b"first",)]


def test_an_id_that_another_event_has_is_named_where_it_may_be_compared(caller: Caller, outbox: Database) -> None:
    for sql in sql_api_statements():
        outbox.run(sql)
    event = NewEvent("once", b"first")
    assert not caller(outbox, [event], TABLE, True).unchecked
    assert caller(outbox, [event, NewEvent("new", b"")], TABLE, True)[1:] == (1, False)
    for other in (
        NewEvent("once", b"second", event_id=event.event_id),
        NewEvent("o", b"first", event_id=event.event_id),
    ):
        with pytest.raises(EnqueueRefused, match=str(event.event_id)):
            caller(outbox, [NewEvent("lost", b""), other], TABLE, True)
    assert outbox.run("SELECT event_type FROM openoutbox_events ORDER BY 1") == [("new",), ("once",)]


def count_statements(outbox: Database) -> None:
    outbox.run("CREATE TABLE statements (n int)")
    outbox.run("""CREATE FUNCTION count_statement() RETURNS trigger LANGUAGE plpgsql
        AS $$ BEGIN INSERT INTO statements VALUES (1); RETURN NULL; END $$""")
    outbox.run("""CREATE TRIGGER counting AFTER INSERT ON openoutbox_events
        FOR EACH STATEMENT EXECUTE FUNCTION count_statement()""")


def test_thousands_go_in_with_one_statement_in_their_order(caller: Caller, outbox: Database) -> None:
    outbox.run("ALTER TABLE openoutbox_events ADD COLUMN seq BIGINT GENERATED ALWAYS AS IDENTITY")
    count_statements(outbox)
    done = caller(outbox, (NewEvent("many", str(n), partition_key=str(n)) for n in range(5000)), TABLE, True)
    assert done.inserted == 5000
    assert [id_ for (id_,) in outbox.run("SELECT event_id FROM openoutbox_events ORDER BY seq")] == done.event_ids
    assert outbox.run("SELECT count(*) FROM statements") == [(1,)]


def test_no_events_send_no_statement(caller: Caller, database: Database) -> None:
    assert caller(database, [], "there.is_none", True) == Enqueued([], 0)


def test_any_table_name_is_taken_exactly(caller: Caller, database: Database) -> None:
    name = 'Odd "name" 100% a:b'
    database.run('CREATE SCHEMA "Shop"')
    create_outbox(database, TableName(name, "Shop"))
    caller(database, NewEvent("a", b""), f"Shop.{name}", True)
    assert database.run("SELECT count(*) FROM " + TableName(name, "Shop").quoted) == [(1,)]


def test_the_insert_privilege_is_all_it_needs(caller: Caller, outbox: Database) -> None:
    role = f"writer_{outbox.name}"
    outbox.run(f"CREATE ROLE {role} LOGIN PASSWORD 'writer'")
    outbox.run(f"GRANT INSERT ON openoutbox_events TO {role}")
    url = sqlalchemy.make_url(outbox.url).set(username=role, password="writer")
    writer = Database(outbox.name, url.render_as_string(hide_password=False), outbox.admin_url)
    event = NewEvent("a", b"")
    try:
        assert caller(writer, event, TABLE, True).inserted == 1
        assert caller(writer, event, TABLE, True).inserted == 0
    finally:
        outbox.run(f"DROP OWNED BY {role}")
        outbox.run(f"DROP ROLE {role}")


def test_nothing_is_prepared_on_the_server(outbox: Database) -> None:
    with outbox.connect(autocommit=False) as connection:
        connection.prepare_threshold = 0
        for _ in range(10):
            enqueue(connection, NewEvent("a", b""))
        assert connection.execute("SELECT name FROM pg_prepared_statements", prepare=False).fetchall() == []


def test_a_pipeline_is_not_made_to_wait(outbox: Database) -> None:
    with outbox.connect(autocommit=False) as connection:
        with connection.pipeline():
            assert enqueue(connection, NewEvent("a", b"")).inserted is None
        connection.commit()
    assert outbox.run("SELECT count(*) FROM openoutbox_events") == [(1,)]


def test_two_transactions_with_one_id_insert_it_once(outbox: Database) -> None:
    event = NewEvent("a", b"")
    with outbox.connect(autocommit=False) as first, outbox.connect(autocommit=False) as second:
        enqueue(first, event)
        first_pid = first.info.backend_pid
        second.execute("SET LOCAL lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            enqueue(second, event)
        assert first.info.backend_pid == first_pid
        second.rollback()
        first.rollback()
        assert enqueue(second, event).inserted == 1
        second.commit()
    assert outbox.run("SELECT count(*) FROM openoutbox_events") == [(1,)]


async def test_the_wrong_kind_of_connection_is_refused_with_the_way_out(outbox: Database) -> None:
    event = NewEvent("a", b"")
    wrong: list[Any] = [object(), None]
    with outbox.connect() as connection:
        for target in [*wrong, await _closed_async_connection(outbox)]:
            with pytest.raises(TypeError, match=r"enqueue takes a synchronous .* await enqueue_async"):
                enqueue(target, event)
        for target in [*wrong, connection]:
            with pytest.raises(TypeError, match=r"enqueue_async takes an asynchronous .* enqueue\("):
                await enqueue_async(target, event)


async def test_what_has_connections_is_refused_with_how_to_get_one(outbox: Database) -> None:
    engine = create_async_engine(_alchemy_url(outbox, "psycopg"))
    pool = psycopg_pool.ConnectionPool(outbox.url, open=False)
    wrong: dict[str, Any] = {
        "with engine.begin()": engine.sync_engine,
        "with pool.connection()": pool,
        "connect,": "a://",
    }
    for remedy, target in wrong.items():
        with pytest.raises(TypeError, match=f"; {re.escape(remedy)}"):
            enqueue(target, NewEvent("a", b""))
    waiting: dict[str, Any] = {"async with engine.begin()": engine, "async with pool.acquire()": asyncpg.create_pool()}
    for remedy, target in waiting.items():
        with pytest.raises(TypeError, match=f"; {re.escape(remedy)}"):
            await enqueue_async(target, NewEvent("a", b""))


def test_a_missing_table_names_the_command_that_makes_it(caller: Caller, database: Database) -> None:
    with pytest.raises(Exception, match="does not exist") as missing:
        caller(database, NewEvent("a", b""), "shop.events", True)
    assert missing.value.__notes__ == [
        "There is no table shop.events in this database. Create it: relay-cli migrate --table shop.events"
    ]


@pytest.mark.parametrize("number", [1, 2])
def test_an_error_does_not_show_the_payload(caller: Caller, outbox: Database, number: int) -> None:
    outbox.run("ALTER TABLE openoutbox_events DROP COLUMN headers")
    events = [NewEvent("a", "hunter2", headers={"token": "hunter3"}) for _ in range(number)]
    with pytest.raises(Exception, match="headers") as refused:
        caller(outbox, events, TABLE, True)
    assert "hunter" not in "".join(traceback.format_exception(refused.value))


@pytest.mark.parametrize("large", [False, True])
def test_a_large_call_is_cut_into_statements(
    caller: Caller, outbox: Database, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    monkeypatch.setattr("openoutbox.insert.STATEMENT_BYTES", 1000)
    count_statements(outbox)
    bodies = [bytes([number]) * (1200 if large and number == 3 else 100) for number in range(20)]
    done = caller(outbox, [NewEvent("many", body) for body in bodies], TABLE, True)
    assert done.inserted == 20
    assert sorted(body for (body,) in outbox.run("SELECT payload FROM openoutbox_events")) == bodies
    assert outbox.run("SELECT count(*) FROM statements") == [(4 if large else 3,)]


async def _closed_async_connection(database: Database) -> Any:
    connection = await database.connect_async()
    await connection.close()
    return connection


def test_what_cannot_be_leaves_the_transaction_unharmed(outbox: Database) -> None:
    good, bad = NewEvent("a", b""), cast("NewEvent", {"event_type": "a"})
    with outbox.connect(autocommit=False) as connection:
        connection.execute("SELECT 1")
        with pytest.raises(EventError):
            enqueue(connection, [good, bad])
        with pytest.raises(ConfigError, match=r"'a\.b\.c' is not a table name"):
            enqueue(connection, good, table="a.b.c")
        assert enqueue(connection, good).inserted == 1


def test_an_id_is_what_was_given(outbox: Database) -> None:
    id_ = UUID("5a0c32f5-6a8e-4f3e-9d5c-6f6a3c8f7e11")
    with outbox.connect(autocommit=False) as connection:
        assert enqueue(connection, NewEvent("a", b"", event_id=id_)).event_ids == [id_]
