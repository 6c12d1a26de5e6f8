"""Consumers of one message, through every kind of connection: ``once``, an effect, and the transaction goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import asyncpg
import sqlalchemy
from django.db import connections, transaction
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from openoutbox import inbox
from tests.client.django_connections import django_connection
from tests.support.fixtures.database import Database

EVENT = "0190b0a0-0000-7000-8000-000000000001"
EFFECT = "INSERT INTO effects (what) VALUES ('effect')"
BEFORE = "INSERT INTO effects (what) VALUES ('before')"
AFTER = "INSERT INTO effects (what) VALUES ('after')"


class Boom(Exception):
    """What goes wrong in a consumer."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery of an event, and what becomes of it."""

    database: Database
    event_id: str = EVENT
    consumer: str = "billing"
    fail: bool = False
    """An error leaves the block, and the consumer goes on."""
    commit: bool = True


Consume = Callable[[Delivery], bool]
"""Consume in a transaction of its own; whether the event was new."""


def _consume(delivery: Delivery, target: Any, execute: Callable[[str], Any]) -> bool:
    new = False
    execute(BEFORE)
    with suppress(Boom), inbox.once(target, delivery.event_id, consumer=delivery.consumer) as first:
        new = first
        if first:
            execute(EFFECT)
        if delivery.fail:
            raise Boom
    execute(AFTER)
    return new


async def _consume_async(delivery: Delivery, target: Any, execute: Callable[[str], Any]) -> bool:
    new = False
    await execute(BEFORE)
    with suppress(Boom):
        async with inbox.once(target, delivery.event_id, consumer=delivery.consumer) as first:
            new = first
            if first:
                await execute(EFFECT)
            if delivery.fail:
                raise Boom
    await execute(AFTER)
    return new


def _psycopg(delivery: Delivery) -> bool:
    with delivery.database.connect(autocommit=False) as connection:
        new = _consume(delivery, connection, lambda sql: connection.execute(sql.encode()))
        connection.commit() if delivery.commit else connection.rollback()
        return new


def _psycopg_cursor(delivery: Delivery) -> bool:
    """In autocommit mode, within a transaction that the consumer opened."""
    with delivery.database.connect(autocommit=True) as connection, connection.cursor() as cursor:
        new = False
        with suppress(Boom), connection.transaction():
            new = _consume(delivery, cursor, lambda sql: cursor.execute(sql.encode()))
            if not delivery.commit:
                raise Boom
        return new


def _psycopg_async(delivery: Delivery) -> bool:
    async def run() -> bool:
        async with await delivery.database.connect_async(autocommit=False) as connection:
            new = await _consume_async(delivery, connection, lambda sql: connection.execute(sql.encode()))
            await (connection.commit() if delivery.commit else connection.rollback())
            return new

    return asyncio.run(run())


def alchemy_url(database: Database, driver: str) -> sqlalchemy.URL:
    """The database's URL with a driver of SQLAlchemy's in it."""
    return sqlalchemy.make_url(database.url).set(drivername=f"postgresql+{driver}")


def _alchemy(driver: str, make: Callable[[sqlalchemy.Engine], Any]) -> Consume:
    def consume(delivery: Delivery) -> bool:
        engine = sqlalchemy.create_engine(alchemy_url(delivery.database, driver))
        target = make(engine)
        try:
            new = _consume(delivery, target, lambda sql: target.execute(sqlalchemy.text(sql)))
            target.commit() if delivery.commit else target.rollback()
            return new
        finally:
            target.close()
            engine.dispose()

    return consume


def _alchemy_async(driver: str, kind: type[AsyncSession] | type[AsyncConnection]) -> Consume:
    async def run(delivery: Delivery) -> bool:
        engine = create_async_engine(alchemy_url(delivery.database, driver))
        try:
            async with kind(engine) as target:
                new = await _consume_async(delivery, target, lambda sql: target.execute(sqlalchemy.text(sql)))
                await (target.commit() if delivery.commit else target.rollback())
                return new
        finally:
            await engine.dispose()

    def consume(delivery: Delivery) -> bool:
        return asyncio.run(run(delivery))

    return consume


def execute_in(connection: Any) -> Callable[[str], None]:
    """Statements by a cursor of Django's."""

    def execute(sql: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(sql)

    return execute


def _django(delivery: Delivery) -> bool:
    with django_connection(delivery.database) as connection:
        new = False
        with suppress(Boom), transaction.atomic(using=connection.alias):
            new = _consume(delivery, connections[connection.alias], execute_in(connection))
            if not delivery.commit:
                raise Boom
        return new


def _django_manual(delivery: Delivery) -> bool:
    """With AUTOCOMMIT off, so that the consumer commits."""
    with django_connection(delivery.database) as connection:
        connection.set_autocommit(False)
        new = _consume(delivery, connection, execute_in(connection))
        connection.commit() if delivery.commit else connection.rollback()
        return new


def _asyncpg(delivery: Delivery) -> bool:
    async def run() -> bool:
        connection = await asyncpg.connect(delivery.database.url)
        transaction = connection.transaction()
        try:
            await transaction.start()
            new = await _consume_async(delivery, connection, connection.execute)
            await (transaction.commit() if delivery.commit else transaction.rollback())
            return new
        finally:
            await connection.close()

    return asyncio.run(run())


CONSUMERS: dict[str, Consume] = {
    "psycopg": _psycopg,
    "psycopg-cursor": _psycopg_cursor,
    "psycopg-async": _psycopg_async,
    "sqlalchemy-connection": _alchemy("psycopg", lambda engine: engine.connect()),
    "sqlalchemy-session": _alchemy("psycopg2", Session),
    "sqlalchemy-scoped-session": _alchemy("psycopg", lambda engine: scoped_session(sessionmaker(engine))),
    "sqlalchemy-async-session": _alchemy_async("psycopg", AsyncSession),
    "sqlalchemy-async-connection": _alchemy_async("asyncpg", AsyncConnection),
    "django": _django,
    "django-manual": _django_manual,
    "asyncpg": _asyncpg,
}
