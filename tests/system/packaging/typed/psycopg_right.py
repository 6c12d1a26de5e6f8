"""Calls that a type checker must take, with psycopg."""

from __future__ import annotations

import psycopg

from openoutbox import NewEvent, enqueue, enqueue_async, inbox
from openoutbox.testing import announced, assert_announced, refute_announced

EVENT = NewEvent("order.placed", {"id": 7}, partition_key="7", unique="order-7/placed")


def announce(connection: psycopg.Connection, cursor: psycopg.Cursor[dict[str, int]]) -> int | None:
    enqueue(cursor, [EVENT], in_order=True, trace=True)
    return enqueue(connection, EVENT, table="shop.events").inserted


def handle(connection: psycopg.Connection, event_id: str) -> bool:
    with connection.transaction(), inbox.once(connection, event_id, consumer="billing") as first:
        return first


async def announce_async(connection: psycopg.AsyncConnection, cursor: psycopg.AsyncCursor) -> int | None:
    await enqueue_async(cursor, EVENT, autocommit=True)
    return (await enqueue_async(connection, EVENT)).inserted


async def handle_async(connection: psycopg.AsyncConnection, event_id: bytes) -> bool:
    async with connection.transaction(), inbox.once(connection, event_id, consumer="billing") as first:
        return first


def check(connection: psycopg.Connection, cursor: psycopg.Cursor) -> bytes:
    refute_announced(connection)
    assert announced(cursor)[0].event_type
    return assert_announced(connection, type="order.placed", key=None, payload={"id": 7}).payload


async def check_async(connection: psycopg.AsyncConnection) -> bytes:
    await refute_announced(connection, type="order.placed")
    return (await assert_announced(connection, type="order.placed")).payload
