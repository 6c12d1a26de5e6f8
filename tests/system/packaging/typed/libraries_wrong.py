"""Calls that a type checker must refuse, each in the line of its mark."""

from __future__ import annotations

import asyncpg
from psycopg_pool import AsyncConnectionPool, ConnectionPool
from sqlalchemy import Connection, Engine
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession
from sqlalchemy.orm import Session, sessionmaker

from openoutbox import NewEvent, enqueue, enqueue_async, inbox

EVENT = NewEvent("order.placed", {"id": 7})


def announce(
    engine: Engine,
    connection: AsyncConnection,
    session: AsyncSession,
    maker: sessionmaker[Session],
    pool: ConnectionPool,
) -> None:
    enqueue(engine, EVENT)  # wrong
    enqueue(connection, EVENT)  # wrong
    enqueue(session, EVENT)  # wrong
    enqueue(maker, EVENT)  # wrong
    enqueue(pool, EVENT)  # wrong


async def announce_async(
    engine: AsyncEngine, connection: Connection, session: Session, pool: AsyncConnectionPool, driver: asyncpg.Pool
) -> None:
    await enqueue_async(engine, EVENT)  # wrong
    await enqueue_async(connection, EVENT)  # wrong
    await enqueue_async(session, EVENT)  # wrong
    await enqueue_async(pool, EVENT)  # wrong
    await enqueue_async(driver, EVENT)  # wrong


async def handle(connection: Connection, session: AsyncSession) -> None:
    with inbox.once(session, "id", consumer="billing"):  # wrong
        pass
    async with inbox.once(connection, "id", consumer="billing"):  # wrong
        pass
