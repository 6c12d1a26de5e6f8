"""The application of the demonstration: it stores orders, announces them, and sometimes changes its mind.

Each transaction inserts one order and one to four events. Every fifth fails at the last step, as a refused payment
would, and takes its events with it.
"""

from __future__ import annotations

import random
import threading
import time

from relay.client import NewEvent, enqueue
from relay.demo.ledger import Ledger
from relay.postgres.connect import SyncConnection, connect
from relay.postgres.sql import statement
from relay.postgres.url import connection_parameters

TOPICS = ("order.placed", "order.item.added")

_NAME = "openoutbox-demo"
_ROLLED_BACK = 5  # every so many-th transaction


class PaymentRefused(Exception):
    """What makes a transaction of the demonstration roll back."""


def create_orders(storage_url: str) -> None:
    """Create the business table."""
    with connect(connection_parameters(storage_url, _NAME)) as connection:
        connection.execute(statement("demo/orders:create"))


def count_by_status(storage_url: str) -> dict[str, int]:
    """How many events of the outbox are in which state."""
    with connect(connection_parameters(storage_url, _NAME)) as connection:
        return dict(connection.execute(statement("demo/orders:count_by_status")).fetchall())


def place_orders(storage_url: str, ledger: Ledger, per_second: float, stop: threading.Event) -> None:
    """Run transactions, so many a second, until ``stop`` is set."""
    begin = time.monotonic()
    with connect(connection_parameters(storage_url, _NAME)) as connection:
        connection.autocommit = False
        number = 0
        while not stop.wait(max(0.0, begin + number / per_second - time.monotonic())):
            number += 1
            _place(connection, ledger, number)


def _place(connection: SyncConnection, ledger: Ledger, number: int) -> None:
    events = _events(number)
    ids = [str(event.event_id) for event in events]
    try:
        connection.execute(
            statement("demo/orders:insert"),
            {"order_id": number, "customer": f"customer-{number % 100}", "amount": random.randrange(100, 99_999) / 100},
        )
        enqueue(connection, events)
        if number % _ROLLED_BACK == 0:
            raise PaymentRefused
    except PaymentRefused:
        connection.rollback()
        ledger.roll_back(ids)
    else:
        committing = time.monotonic()
        connection.commit()
        ledger.commit(ids, committing)


def _events(number: int) -> list[NewEvent]:
    key = f"order-{number}"
    placed, added = TOPICS
    items = [NewEvent(added, {"order": number, "item": item}, key) for item in range(random.randrange(4))]
    return [NewEvent(placed, {"order": number, "items": len(items)}, key, headers={"source": "demo"}), *items]
