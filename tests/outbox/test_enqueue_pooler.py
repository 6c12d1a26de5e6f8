"""What an application's ``enqueue`` promises behind PgBouncer in transaction mode, by each driver."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import asyncpg
import psycopg
import pytest
import sqlalchemy

from openoutbox import NewEvent, enqueue, enqueue_async
from tests.support.fixtures.outbox import Outbox, through

TIMES = 10
"""More than the executions after which psycopg prepares a statement."""


def with_psycopg(url: str) -> None:
    with psycopg.connect(url) as first, psycopg.connect(url) as second:
        for _ in range(TIMES):
            for connection in (first, second):
                enqueue(connection, NewEvent("t", b""))
                connection.commit()


def with_sqlalchemy(url: str) -> None:
    never = {"prepare_threshold": None}
    engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"), connect_args=never)
    with engine.connect() as first, engine.connect() as second:
        for _ in range(TIMES):
            for connection in (first, second):
                enqueue(connection, NewEvent("t", b""))
                connection.commit()
    engine.dispose()


def with_asyncpg(url: str) -> None:
    async def run() -> None:
        connections = [await asyncpg.connect(url, statement_cache_size=0) for _ in range(2)]
        for _ in range(TIMES):
            for connection in connections:
                async with connection.transaction():
                    await enqueue_async(connection, NewEvent("t", b""))
        for connection in connections:
            await connection.close()

    asyncio.run(run())


@pytest.mark.parametrize("announce", [with_psycopg, with_sqlalchemy, with_asyncpg])
def test_it_works_behind_pgbouncer(outbox: Outbox, pgbouncer: str, announce: Callable[[str], None]) -> None:
    announce(through(outbox, pgbouncer).writer_url)
    assert outbox.database.run("SELECT count(*) FROM openoutbox_events") == [(2 * TIMES,)]
