"""Place an order and announce it: both are committed together, or neither is.

python examples/plain_app.py --storage-url postgres://... --customer ada --item lamp --item desk
"""

from __future__ import annotations

import argparse
from datetime import timedelta

import psycopg

from relay.client import NewEvent, enqueue

TABLES = """
CREATE TABLE IF NOT EXISTS orders (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer TEXT NOT NULL,
    items TEXT[] NOT NULL CHECK (cardinality(items) > 0)
)
"""


def place_order(connection: psycopg.Connection, customer: str, items: list[str]) -> int:
    """The new order's number. The transaction is the caller's: nothing is sent before it has committed."""
    row = connection.execute(
        "INSERT INTO orders (customer, items) VALUES (%s, %s) RETURNING id", (customer, items)
    ).fetchone()
    assert row is not None
    order = {"order_id": row[0], "customer": customer, "items": items}
    placed = NewEvent("order.placed", order, partition_key=customer, headers={"schema": "order.placed/1"})
    reminder = NewEvent("order.reminder", order, partition_key=customer, delay=timedelta(days=3))
    enqueue(connection, [placed, reminder])
    return int(row[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--storage-url", required=True)
    parser.add_argument("--customer", required=True)
    parser.add_argument("--item", action="append", default=[])
    given = parser.parse_args()
    with psycopg.connect(given.storage_url) as connection:  # commits at its end, or rolls back on an error
        connection.execute(TABLES)
        connection.commit()
        print(f"order {place_order(connection, given.customer, given.item)} placed")


if __name__ == "__main__":
    main()
