"""Calls that a type checker must take, with SQLAlchemy and asyncpg."""

from __future__ import annotations

import asyncpg
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from openoutbox import NewEvent, enqueue, enqueue_async, inbox

EVENT = NewEvent("order.placed", {"id": 7})


def announce(connection: Connection, session: Session, scoped: scoped_session[Session]) -> None:
    enqueue(connection, EVENT)
    enqueue(session, EVENT, in_order=True)
    enqueue(scoped, EVENT)
    for target in (connection, session, scoped):
        with inbox.once(target, "id", consumer="billing") as first:
            print(first)


async def announce_async(
    connection: AsyncConnection,
    session: AsyncSession,
    scoped: async_scoped_session[AsyncSession],
    driver: asyncpg.Connection,
) -> None:
    await enqueue_async(connection, EVENT)
    await enqueue_async(session, EVENT)
    await enqueue_async(scoped, EVENT)
    await enqueue_async(driver, EVENT)
    async with inbox.once(connection, "id", consumer="billing") as first:
        print(first)
    async with inbox.once(session, "id", consumer="billing") as first:
        print(first)
    async with inbox.once(driver, "id", consumer="billing") as first:
        print(first)
