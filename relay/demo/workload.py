"""The application of the demonstration: it stores orders, announces them, and sometimes changes its mind.

Each transaction inserts one order and one to four events. Every fifth fails at the last step, as a refused payment
would, and takes its events with it. On request some orders announce what the broker refuses, or what is due later.
"""

from __future__ import annotations

import random
import threading
import time
from datetime import timedelta

from openoutbox import NewEvent, enqueue
from relay.demo.ledger import Ledger
from relay.postgres.connect import SyncConnection, connect
from relay.postgres.sql import statement
from relay.postgres.url import connection_parameters

TOPICS = ("order.placed", "order.item.added")

_NAME = "openoutbox-demo"
_ROLLED_BACK = 5  # every so many-th transaction
_REFUSED = 12  # the same, with an event that the broker refuses
_SCHEDULED = 21  # the same, with an event that is due later
_REMIND_AFTER = timedelta(minutes=15)
LARGEST_MESSAGE = 65_536
"""Bytes; what the relay of the demonstration sends at most."""


class _PaymentRefused(Exception):
    """What makes a transaction of the demonstration roll back."""


def create_orders(storage_url: str) -> None:
    """Create the business table."""
    with connect(connection_parameters(storage_url, _NAME)) as connection:
        connection.execute(statement("demo/orders:create"))


def count_by_status(storage_url: str) -> dict[str, int]:
    """How many events of the outbox are in which state."""
    with connect(connection_parameters(storage_url, _NAME)) as connection:
        return dict(connection.execute(statement("demo/orders:count_by_status")).fetchall())


def place_orders(
    storage_url: str, ledger: Ledger, per_second: float, stop: threading.Event, *, trouble: bool = False
) -> None:
    """Run transactions, so many a second, until ``stop`` is set; with ``trouble`` some events cannot be delivered."""
    begin = time.monotonic()
    with connect(connection_parameters(storage_url, _NAME)) as connection:
        connection.autocommit = False
        number = 0
        while not stop.wait(max(0.0, begin + number / per_second - time.monotonic())):
            number += 1
            _place(connection, ledger, number, _undelivered(number) if trouble else [])


def _place(connection: SyncConnection, ledger: Ledger, number: int, undelivered: list[NewEvent]) -> None:
    events = _events(number)
    ids = [str(event.event_id) for event in events]
    others = [str(event.event_id) for event in undelivered]
    try:
        connection.execute(
            statement("demo/orders:insert"),
            {"order_id": number, "customer": f"customer-{number % 100}", "amount": random.randrange(100, 99_999) / 100},
        )
        enqueue(connection, [*events, *undelivered])
        if number % _ROLLED_BACK == 0:
            raise _PaymentRefused
    except _PaymentRefused:
        connection.rollback()
        ledger.roll_back([*ids, *others])
    else:
        committing = time.monotonic()
        connection.commit()
        ledger.commit(ids, committing)
        ledger.withhold(others)


def _events(number: int) -> list[NewEvent]:
    key = f"order-{number}"
    placed, added = TOPICS
    items = [NewEvent(added, {"order": number, "item": item}, key) for item in range(random.randrange(4))]
    return [NewEvent(placed, {"order": number, "items": len(items)}, key, headers={"source": "demo"}), *items]


def _undelivered(number: int) -> list[NewEvent]:
    """What the relay does not deliver now: it is due later, or the broker refuses it for good."""
    key = f"order-{number}"
    if number % _SCHEDULED == 0:
        return [NewEvent("order.reminder", {"order": number}, key, delay=_REMIND_AFTER)]
    if number % _REFUSED:
        return []
    refused = (
        NewEvent("invoice.rendered", {"order": number, "document": "x" * LARGEST_MESSAGE}, key),  # larger than allowed
        NewEvent("customer updated", {"order": number}, key),  # no Kafka topic has a blank
        NewEvent("order/refunded", {"order": number}, key),  # nor a slash
    )
    return [refused[number // _REFUSED % len(refused)]]
