"""``in_order=True``: the events of a key stand in the table as their changes were committed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from openoutbox import NewEvent, enqueue, enqueue_async
from tests.client.consumers import alchemy_url
from tests.support.fixtures.database import Database
from tests.support.waiting import patience, wait_until

WRITERS, CHANGES = 4, 10


class Base(DeclarativeBase):
    pass


class Account(Base):
    __tablename__ = "accounts"
    id: Mapped[int] = mapped_column(primary_key=True)
    balance: Mapped[int]


@pytest.fixture
def shop(outbox: Database) -> Database:
    outbox.run("ALTER TABLE openoutbox_events ADD COLUMN seq BIGINT GENERATED ALWAYS AS IDENTITY")
    outbox.run("CREATE TABLE accounts (id INT PRIMARY KEY, balance INT NOT NULL)")
    outbox.run("INSERT INTO accounts VALUES (7, 0)")
    return outbox


@contextmanager
def engine_of(database: Database) -> Iterator[sqlalchemy.Engine]:
    engine = sqlalchemy.create_engine(alchemy_url(database, "psycopg"))
    try:
        yield engine
    finally:
        engine.dispose()


def announced(shop: Database) -> list[int]:
    rows = shop.run("SELECT convert_from(payload, 'UTF8')::int FROM openoutbox_events ORDER BY seq")
    return [number for (number,) in rows]


def test_changes_that_the_session_still_holds_are_sent_before(shop: Database) -> None:
    """With autoflush off the row is changed at the commit, so that its lock keeps no other writer waiting."""
    with engine_of(shop) as engine, Session(engine, autoflush=False) as first, Session(engine) as second:
        account = first.get_one(Account, 7)
        account.balance += 1
        enqueue(first, NewEvent("account", str(account.balance), partition_key="7"), in_order=True)
        second.execute(sqlalchemy.text("SET LOCAL lock_timeout = '100ms'"))
        with pytest.raises(sqlalchemy.exc.OperationalError, match="lock timeout"):
            second.execute(sqlalchemy.text("UPDATE accounts SET balance = balance + 1 WHERE id = 7"))


def test_an_asynchronous_session_is_flushed_too(shop: Database) -> None:
    async def run() -> None:
        engine = create_async_engine(alchemy_url(shop, "asyncpg"))
        try:
            async with AsyncSession(engine, autoflush=False) as session:
                (await session.get_one(Account, 7)).balance = 5
                await enqueue_async(session, NewEvent("account", b"5", partition_key="7"), in_order=True)
                held = await session.execute(sqlalchemy.text("SELECT balance FROM accounts WHERE id = 7"))
                assert held.scalar_one() == 5
        finally:
            await engine.dispose()

    asyncio.run(run())


def test_the_events_of_a_key_are_in_the_order_of_the_commits(shop: Database) -> None:
    """Without a row that the writers wait for: each number is drawn after the lock, and kept until the commit."""

    def write(writer: int) -> None:
        with shop.connect(autocommit=False) as connection:
            for number in range(CHANGES):
                connection.execute("SELECT pg_advisory_xact_lock_shared(1)")  # another statement comes before
                enqueue(connection, NewEvent("a", str(writer * CHANGES + number), partition_key="k"), in_order=True)
                connection.execute("INSERT INTO commits (what) VALUES (%s)", [writer * CHANGES + number])
                connection.commit()

    shop.run("CREATE TABLE commits (at BIGINT GENERATED ALWAYS AS IDENTITY, what INT)")
    with ThreadPoolExecutor(WRITERS) as pool:
        for done in [pool.submit(write, writer) for writer in range(WRITERS)]:
            done.result(patience())
    assert announced(shop) == [what for (what,) in shop.run("SELECT what FROM commits ORDER BY at")]


def test_a_second_writer_of_the_key_waits_for_the_commit_and_other_keys_do_not(shop: Database) -> None:
    def write(key: str) -> None:
        with shop.connect(autocommit=False) as connection:
            enqueue(connection, NewEvent("a", b"2", partition_key=key), in_order=True)

    with shop.connect(autocommit=False) as connection, ThreadPoolExecutor(1) as pool:
        enqueue(connection, NewEvent("a", b"1", partition_key="k"), in_order=True)
        write("another")
        waiting = pool.submit(write, "k")
        wait_until(lambda: waiting.done() or shop.waiting_for_locks(), what="the second writer to wait")
        assert not waiting.done()
        connection.commit()
        waiting.result(patience())
    assert sorted(announced(shop)) == [1, 2, 2]


def test_keys_are_locked_in_one_order(shop: Database) -> None:
    """Two calls with the same keys, the one backwards, do not wait for each other in a circle."""
    keys = [f"key-{number}" for number in range(50)]

    def write(ordered: Callable[[list[str]], list[str]]) -> None:
        with shop.connect(autocommit=False) as connection:
            for _ in range(20):
                events = [NewEvent("a", b"1", partition_key=key) for key in ordered(keys)]
                enqueue(connection, events, in_order=True)
                connection.commit()

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(write, list), pool.submit(write, lambda keys: keys[::-1])]:
            done.result(patience(30))
    assert len(announced(shop)) == 2 * 20 * len(keys)


def test_events_without_a_key_wait_for_nobody(shop: Database) -> None:
    with shop.connect(autocommit=False) as connection, shop.connect(autocommit=False) as other:
        other.execute("SET lock_timeout = '100ms'")
        enqueue(connection, NewEvent("a", b"1"), in_order=True)
        enqueue(other, NewEvent("a", b"2"), in_order=True)
        enqueue(connection, NewEvent("a", b"1", partition_key="k"), in_order=True)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            enqueue(other, NewEvent("a", b"2", partition_key="k"), in_order=True)


def test_a_writer_in_another_language_takes_the_same_lock(shop: Database) -> None:
    with shop.connect(autocommit=False) as connection, shop.connect(autocommit=False) as other:
        other.execute("SET lock_timeout = '100ms'")
        connection.execute("SELECT pg_advisory_xact_lock(1329745752, hashtext('k'))")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            enqueue(other, NewEvent("a", b"2", partition_key="k"), in_order=True)
