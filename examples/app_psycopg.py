r"""An application with psycopg: import a file of orders, all of them with their events or none at all.

    pip install ./client 'psycopg[binary]'
    export DATABASE_URL='postgres://user:secret@localhost:5432/app'    # with the table that relay-cli migrate makes
    printf 'customer,amount\nada,30\nbob,20\n' | python examples/app_psycopg.py

A file of any length is one transaction; its events go in with one statement.
"""

import csv
import os
import sys
from collections.abc import Iterable
from uuid import uuid4

import psycopg

from openoutbox import NewEvent, enqueue

TOPIC = os.environ.get("TOPIC", "order.placed")

TABLE = """
CREATE TABLE IF NOT EXISTS orders (
    id uuid PRIMARY KEY, customer text NOT NULL, amount bigint NOT NULL CHECK (amount > 0)
)
"""
INSERT = "INSERT INTO orders (id, customer, amount) VALUES (%(order_id)s, %(customer)s, %(amount)s)"


def import_orders(connection: psycopg.Connection, lines: Iterable[str]) -> int:
    """Returns how many there were. Any line that the database refuses takes back all of them and their events."""
    orders = [
        {"order_id": str(uuid4()), "customer": row["customer"], "amount": int(row["amount"])}
        for row in csv.DictReader(lines)
    ]
    with connection.transaction():
        enqueue(connection, [NewEvent(TOPIC, order, partition_key=str(order["customer"])) for order in orders])
        connection.cursor().executemany(INSERT, orders)
    return len(orders)


if __name__ == "__main__":
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as own:
        own.execute(TABLE)
        print(import_orders(own, sys.stdin), "orders imported")
