"""Calls that a type checker must refuse, each in the line of its mark."""

from __future__ import annotations

import psycopg

from openoutbox import NewEvent, enqueue, enqueue_async, inbox
from openoutbox.testing import assert_announced, refute_announced

EVENT = NewEvent("order.placed", {"id": 7})


def announce(connection: psycopg.Connection, waiting: psycopg.AsyncConnection, url: str) -> None:
    enqueue(42, EVENT)  # wrong
    enqueue(url, EVENT)  # wrong
    enqueue(None, EVENT)  # wrong
    enqueue(waiting, EVENT)  # wrong
    enqueue(waiting.cursor(), EVENT)  # wrong
    enqueue(connection, {"event_type": "order.placed"})  # wrong
    enqueue(connection, EVENT, ordered=True)  # wrong
    NewEvent("order.placed", None)  # wrong
    NewEvent("order.placed", {}, partition_key=7)  # wrong


async def announce_async(connection: psycopg.Connection, waiting: psycopg.AsyncConnection) -> None:
    await enqueue_async(42, EVENT)  # wrong
    await enqueue_async(connection, EVENT)  # wrong
    await enqueue_async(connection.cursor(), EVENT)  # wrong
    await enqueue_async(waiting, "order.placed")  # wrong


async def handle(connection: psycopg.Connection, waiting: psycopg.AsyncConnection) -> None:
    with inbox.once(42, "id", consumer="billing"):  # wrong
        pass
    with inbox.once(connection, 42, consumer="billing"):  # wrong
        pass
    with inbox.once(waiting, "id", consumer="billing"):  # wrong
        pass
    async with inbox.once(connection, "id", consumer="billing"):  # wrong
        pass


def check(connection: psycopg.Connection, waiting: psycopg.AsyncConnection, url: str) -> bytes:
    assert_announced(url, type="order.placed")  # wrong
    assert_announced(connection, key="7")  # wrong
    refute_announced(connection, key=7)  # wrong
    return assert_announced(waiting, type="order.placed").payload  # wrong
