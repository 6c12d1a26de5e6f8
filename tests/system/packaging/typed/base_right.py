"""Calls that a type checker must take where no driver is installed."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import nullcontext
from dataclasses import dataclass
from decimal import Decimal
from uuid import UUID

from openoutbox import Message, NewEvent, Outbox, enqueue, enqueue_async, event, inbox
from openoutbox.targets import AsyncTarget, SyncTarget

OUTBOX = Outbox(encode=str, headers={"source": "shop"})


@event("order.placed", key="customer_id")
@dataclass
class OrderPlaced:
    customer_id: str
    amount: Decimal


def announce(connection: SyncTarget, order: OrderPlaced) -> list[UUID]:
    OUTBOX.enqueue(connection, order)
    OUTBOX.enqueue(connection, [order, OUTBOX.new(order, unique="order-7/placed")], in_order=True)
    return enqueue(connection, NewEvent("order.placed", b"{}")).event_ids


async def announce_async(connection: AsyncTarget, order: OrderPlaced) -> int | None:
    await OUTBOX.enqueue_async(connection, order)
    return (await enqueue_async(connection, [NewEvent("order.placed", {"id": 7})])).inserted


def charge(connection: SyncTarget, message: Message) -> None:
    print(connection, message.payload.decode(), message.partition_key)


def handle(connection: SyncTarget, message: Message) -> bool:
    if inbox.first_of(connection, [message.event_id], consumer="audit"):
        print(message.event_type)
    return inbox.process(lambda: nullcontext(connection), message, charge, consumer="billing").acknowledge


def handle_async(connection: AsyncTarget, event_ids: list[str]) -> Awaitable[list[str]]:
    return inbox.first_of(connection, event_ids, consumer="billing")
