r"""An application with asyncpg, without SQLAlchemy: import a file of orders, all with their events or none at all.

    pip install ./client asyncpg
    export DATABASE_URL='postgres://user:secret@localhost:5432/app'    # with the table that relay-cli migrate makes
    printf 'customer,amount\nada,30\nbob,20\n' | python examples/app_asyncpg.py

Behind PgBouncer in transaction mode, connect with ``statement_cache_size=0``.
"""

import asyncio
import csv
import os
import sys
from collections.abc import Iterable
from uuid import uuid4

import asyncpg

from openoutbox import NewEvent, enqueue_async

TOPIC = os.environ.get("TOPIC", "order.placed")

TABLE = """
CREATE TABLE IF NOT EXISTS orders (
    id uuid PRIMARY KEY, customer text NOT NULL, amount bigint NOT NULL CHECK (amount > 0)
)
"""
INSERT = "INSERT INTO orders (id, customer, amount) VALUES ($1, $2, $3)"


async def import_orders(pool: asyncpg.Pool, lines: Iterable[str]) -> int:
    orders = [(uuid4(), row["customer"], int(row["amount"])) for row in csv.DictReader(lines)]
    events = [
        NewEvent(TOPIC, {"order_id": str(order_id), "customer": customer, "amount": amount}, partition_key=customer)
        for order_id, customer, amount in orders
    ]
    async with pool.acquire() as connection, connection.transaction():  # outside a transaction each statement commits
        await enqueue_async(connection, events)
        await connection.executemany(INSERT, orders)
    return len(orders)


async def main() -> None:
    async with asyncpg.create_pool(os.environ["DATABASE_URL"], min_size=1, max_size=4) as pool:
        await pool.execute(TABLE)
        print(await import_orders(pool, sys.stdin), "orders imported")


if __name__ == "__main__":
    asyncio.run(main())
