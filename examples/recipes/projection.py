"""Balances: a table that follows the events of accounts."""

import asyncio
import contextlib
import logging
from typing import Any

from psycopg import AsyncConnection, OperationalError
from psycopg.errors import LockNotAvailable
from psycopg.sql import SQL, Identifier

from relay.core.errors import StorageError
from relay.eventstore import EventStore, SubscriptionLost

_log = logging.getLogger(__name__)

SIGNS = {"MoneyDeposited": 1, "MoneyWithdrawn": -1}
TABLE = """
CREATE TABLE IF NOT EXISTS {} (
    tenant_id UUID, account_id UUID, cents BIGINT NOT NULL, PRIMARY KEY (tenant_id, account_id)
)
"""
CHANGE = """
INSERT INTO {} AS balance VALUES (%s, %s, %s)
ON CONFLICT (tenant_id, account_id) DO UPDATE SET cents = balance.cents + excluded.cents
"""


async def create(connection: AsyncConnection[Any], name: str) -> None:
    """Create the table of a projection; repeatable."""
    async with connection.transaction():
        await connection.execute(SQL(TABLE).format(Identifier(name)))


async def project(store: EventStore, connection: AsyncConnection[Any], name: str) -> None:
    """Follow the events until an error or a cancellation ends it."""
    change = SQL(CHANGE).format(Identifier(name))
    async with contextlib.aclosing(store.subscribe(name, types=list(SIGNS))) as batches:
        async for batch in batches:
            rows = [(event.tenant_id, event.stream_id, SIGNS[event.type] * event.data["cents"]) for event in batch]
            async with connection.transaction(), connection.cursor() as cursor:
                await cursor.executemany(change, rows)
                await batch.acknowledge(connection)


async def serve(url: str, store: EventStore, name: str, pause: float = 1.0) -> None:
    """Follow the events until cancelled, or until the subscription is deleted; begins again after an error."""
    while True:
        try:
            async with await AsyncConnection.connect(url) as connection:
                await project(store, connection, name)
        except (OperationalError, StorageError, SubscriptionLost) as error:
            _log.warning("projection %s begins again: %s", name, error)
        await asyncio.sleep(pause)


async def show(connection: AsyncConnection[Any], view: str, name: str, before: str | None = None) -> bool:
    """Let the view show table ``name``. False while it is behind table ``before``, or a lock is busy: try again."""
    try:
        async with connection.transaction():
            await connection.execute("SET LOCAL lock_timeout = '500ms'")
            cursor = await connection.execute(
                "SELECT Name, Position FROM event_subscription WHERE Name = ANY(%s) ORDER BY Name FOR UPDATE",
                ([name, before],),
            )
            positions = dict(await cursor.fetchall())
            if before is not None and positions[name] < positions[before]:
                return False
            change = SQL("CREATE OR REPLACE VIEW {} AS SELECT * FROM {}")
            await connection.execute(change.format(Identifier(view), Identifier(name)))
    except LockNotAvailable:
        return False
    return True


async def remove(store: EventStore, connection: AsyncConnection[Any], name: str) -> None:
    """Remove a projection that no view shows and whose processes have ended; repeatable."""
    await store.delete_subscription(name)
    async with connection.transaction():
        await connection.execute(SQL("DROP TABLE IF EXISTS {}").format(Identifier(name)))
