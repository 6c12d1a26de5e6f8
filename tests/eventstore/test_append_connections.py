"""Appending inside the caller's transaction: one table of connections, the same case for each."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, cast

import asyncpg
import psycopg
import pytest
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from relay.core.errors import SchemaError, StorageBusy, StorageUnavailable
from relay.eventstore import (
    ANY,
    NO_STREAM,
    Announcement,
    Appended,
    EventStore,
    NewEvent,
    UnknownTenant,
    VersionConflict,
    append_sync,
)
from tests.eventstore.conftest import OTHER_TENANT, STREAM, TENANT
from tests.support.fixtures.postgres import Database
from tests.support.waiting import eventually, patience

OUTBOX = {"E": "topic"}
Target = Any
Append = Callable[..., Coroutine[Any, Any, Appended]]
Opener = Callable[[Database], AbstractAsyncContextManager[Target]]


def alchemy_url(database: Database, driver: str) -> sqlalchemy.URL:
    return sqlalchemy.make_url(database.url).set(drivername=f"postgresql+{driver}")


@contextlib.asynccontextmanager
async def psycopg_sync(database: Database) -> AsyncIterator[Target]:
    with psycopg.connect(database.url, row_factory=dict_row) as connection:
        yield connection


@contextlib.asynccontextmanager
async def psycopg_async(database: Database) -> AsyncIterator[Target]:
    async with await psycopg.AsyncConnection.connect(database.url, row_factory=dict_row) as connection:
        yield connection


def alchemy(driver: str, kind: Callable[[sqlalchemy.Engine], Target]) -> Opener:
    @contextlib.asynccontextmanager
    async def open_target(database: Database) -> AsyncIterator[Target]:
        engine = sqlalchemy.create_engine(alchemy_url(database, driver))
        target = kind(engine)
        try:
            yield target
        finally:
            target.close()
            engine.dispose()

    return open_target


def alchemy_async(driver: str, kind: type[AsyncSession] | type[AsyncConnection]) -> Opener:
    @contextlib.asynccontextmanager
    async def open_target(database: Database) -> AsyncIterator[Target]:
        engine = create_async_engine(alchemy_url(database, driver))
        try:
            async with kind(engine) as target:
                yield target
        finally:
            await engine.dispose()

    return open_target


_transactions: dict[asyncpg.Connection[Any], asyncpg.transaction.Transaction] = {}
"""The open one of each of asyncpg's connections, which do not end it themselves."""


@contextlib.asynccontextmanager
async def plain_asyncpg(database: Database) -> AsyncIterator[Target]:
    connection = await asyncpg.connect(database.url)
    await begin(connection)
    try:
        yield connection
    finally:
        del _transactions[connection]
        await connection.close()


async def begin(connection: asyncpg.Connection[Any]) -> None:
    _transactions[connection] = connection.transaction()
    await _transactions[connection].start()


SYNC: dict[str, Opener] = {
    "psycopg": psycopg_sync,
    "sqlalchemy-connection": alchemy("psycopg", sqlalchemy.Engine.connect),
    "sqlalchemy-session": alchemy("psycopg2", Session),
    "sqlalchemy-scoped-session": alchemy("psycopg", lambda engine: scoped_session(sessionmaker(engine))),
}
ASYNC: dict[str, Opener] = {
    "psycopg-async": psycopg_async,
    "sqlalchemy-async-session": alchemy_async("psycopg", AsyncSession),
    "sqlalchemy-async-connection": alchemy_async("asyncpg", AsyncConnection),
    "asyncpg": plain_asyncpg,
}


async def end(target: Target, how: str) -> None:
    if isinstance(target, asyncpg.Connection):
        await getattr(_transactions[target], how)()
        await begin(target)
        return
    ended = getattr(target, how)()
    if isinstance(ended, Awaitable):
        await ended


def through_store(store: EventStore, target: Target) -> Append:
    async def append(*arguments: Any) -> Appended:
        return await store.append(*arguments, connection=target)

    return append


def through_function(_: EventStore, target: Target) -> Append:
    async def append(*arguments: Any) -> Appended:
        return append_sync(target, *arguments)

    return append


@pytest.fixture
async def outbox_store(gapless_store: EventStore, outbox_database: Database) -> EventStore:
    assert outbox_database.url
    return gapless_store


async def test_an_append_belongs_to_the_transaction_of_any_connection(
    outbox_store: EventStore, outbox_database: Database
) -> None:
    version = 0
    callers: list[tuple[str, Opener, Callable[[EventStore, Target], Append]]]
    callers = [(name, opener, through_store) for name, opener in (SYNC | ASYNC).items()]
    callers += [(name, opener, through_function) for name, opener in SYNC.items()]
    for name, opener, way in callers:
        async with opener(outbox_database) as target:
            append = way(outbox_store, target)
            await append(TENANT, STREAM, [NewEvent("E", {"rolled back": name})], ANY, OUTBOX)
            await end(target, "rollback")
            events = [NewEvent("E", {"by": name}), NewEvent("Quiet", 'q"\\:x', {"m": "%(n)s :y"})]
            appended = await append(TENANT, STREAM, events, version, OUTBOX)
            version += 2
            assert appended == (version - 1, version, version), name
            with pytest.raises(VersionConflict) as caught:
                await append(TENANT, STREAM, [NewEvent("E")], 1)
            assert caught.value.actual == version, name
            with pytest.raises(UnknownTenant):
                await append(STREAM, STREAM, [NewEvent("E")], NO_STREAM)
            with pytest.raises(SchemaError, match="not_there"):
                await append(TENANT, STREAM, [NewEvent("E")], ANY, Announcement(OUTBOX, table="not_there"))
            once = [NewEvent("Once", event_id=f"00000000-0000-0000-0000-{version:012}")]
            first = await append(TENANT, STREAM, once, version, OUTBOX)
            version += 1
            assert await append(TENANT, STREAM, once, ANY, OUTBOX) == first == (version, version, version), name
            assert await outbox_store.read_stream(TENANT, STREAM, version - 2) == []
            await end(target, "commit")
        stored = await outbox_store.read_stream(TENANT, STREAM, version - 2)
        assert [(event.data, event.meta) for event in stored] == [
            ({"by": name}, {}),
            ('q"\\:x', {"m": "%(n)s :y"}),
            (None, {}),
        ]
    assert outbox_database.run("SELECT count(*) FROM openoutbox_events") == [(len(callers),)]


async def test_another_connection_is_refused_by_its_type(gapless_store: EventStore, database: Database) -> None:
    for connection, name in ((object(), "builtins.object"), (database.url, "builtins.str")):
        with pytest.raises(TypeError, match=f"psycopg 3, SQLAlchemy 2 or asyncpg as connection, not {name}"):
            await gapless_store.append(TENANT, STREAM, [NewEvent("A")], ANY, connection=cast("Any", connection))
        with pytest.raises(TypeError, match=name):
            append_sync(cast("Any", connection), TENANT, STREAM, [NewEvent("A")], ANY)
    async with await database.connect_async() as asynchronous:
        with pytest.raises(TypeError, match=r"psycopg.*AsyncConnection; await EventStore.append"):
            append_sync(cast("Any", asynchronous), TENANT, STREAM, [NewEvent("A")], ANY)
    assert await gapless_store.read_all() == []


async def test_a_synchronous_append_that_waits_lets_the_event_loop_run(
    gapless_store: EventStore, database: Database
) -> None:
    """It waits for a transaction of the same event loop. A cancelled one ends before its caller goes on."""
    with database.connect(autocommit=False) as connection:
        async with await database.connect_async() as other:
            async with other.transaction():
                await gapless_store.append(OTHER_TENANT, STREAM, [NewEvent("A")], ANY, connection=other)
                appends = [
                    asyncio.create_task(
                        gapless_store.append(TENANT, STREAM, [NewEvent("B")], ANY, connection=connection)
                    )
                ]
                await eventually(database.waiting_for_locks)
                appends[0].cancel()
                await asyncio.sleep(0)
                assert not appends[0].done()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(appends[0], patience())
        connection.commit()
    assert [event.type for event in await gapless_store.read_all()] == ["A", "B"]


async def test_a_failure_has_the_same_class_through_every_driver(gapless_store: EventStore, database: Database) -> None:
    for opener in (SYNC | ASYNC).values():
        async with opener(database) as target:
            append = through_store(gapless_store, target)
            await append(TENANT, STREAM, [NewEvent("E")], ANY)
            await end(target, "rollback")
            with database.connect(autocommit=False) as blocker:
                blocker.execute("LOCK TABLE event_position IN EXCLUSIVE MODE")
                done = asyncio.create_task(append(TENANT, STREAM, [NewEvent("E")], ANY))
                (pid,) = await eventually(database.waiting_for_locks)
                database.run("SELECT pg_cancel_backend(%s)", (pid,))
                with pytest.raises(StorageBusy, match="append to stream"):
                    await asyncio.wait_for(done, patience())
                await end(target, "rollback")
                done = asyncio.create_task(append(TENANT, STREAM, [NewEvent("E")], ANY))
                (pid,) = await eventually(database.waiting_for_locks)
                database.run("SELECT pg_terminate_backend(%s)", (pid,))
                with pytest.raises(StorageUnavailable, match="append to stream"):
                    await asyncio.wait_for(done, patience())
            with contextlib.suppress(Exception):
                await end(target, "rollback")
