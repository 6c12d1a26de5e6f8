"""Calls that a type checker must refuse where no driver is installed, each in the line of its mark."""

from __future__ import annotations

from openoutbox import Message, NewEvent, Outbox, enqueue, enqueue_async, event, inbox
from openoutbox.targets import AsyncTarget, SyncTarget

EVENT = NewEvent("order.placed", {"id": 7})
OUTBOX = Outbox("events")  # wrong


def announce(connection: SyncTarget, waiting: AsyncTarget) -> str | None:
    enqueue(42, EVENT)  # wrong
    enqueue("postgres://localhost/app", EVENT)  # wrong
    enqueue(waiting, EVENT)  # wrong
    enqueue(connection, "order.placed")  # wrong
    OUTBOX.enqueue(None, EVENT)  # wrong
    NewEvent("order.placed")  # wrong
    event(7)  # wrong
    return enqueue(connection, EVENT).inserted  # wrong


async def announce_async(connection: SyncTarget) -> None:
    await enqueue_async(42, EVENT)  # wrong
    await enqueue_async(connection, EVENT)  # wrong
    await OUTBOX.enqueue_async(connection, EVENT)  # wrong


def handle(connection: SyncTarget, message: Message) -> None:
    with inbox.once(42, "id", consumer="billing"):  # wrong
        pass
    with inbox.once(connection, None, consumer="billing"):  # wrong
        pass
    inbox.first_of(None, ["id"], consumer="billing")  # wrong
    inbox.first_of(connection, ["id"])  # wrong
    print(message.body)  # wrong
