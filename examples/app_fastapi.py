"""An application with FastAPI: an order and its event are committed together, or neither is.

    pip install ./client fastapi uvicorn 'psycopg[binary,pool]'
    export DATABASE_URL='postgres://user:secret@localhost:5432/app'    # with the table that relay-cli migrate makes
    uvicorn --app-dir examples app_fastapi:app --port 8000

    curl -X PUT localhost:8000/orders/9f0cbb5c-0f0a-4a08-8a4b-0d0a4d3c1c11 \
        -H 'Content-Type: application/json' -d '{"customer": "ada", "amount": 30}'

The client chooses the order's id, so it may repeat a request whose answer was lost: the order and the event stay one.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

from fastapi import FastAPI, HTTPException
from psycopg_pool import AsyncConnectionPool
from pydantic import BaseModel, PositiveInt

from openoutbox import NewEvent, enqueue_async

TOPIC = os.environ.get("TOPIC", "order.placed")
CREDIT_LIMIT = 1000

TABLE = """
SELECT pg_advisory_xact_lock(hashtext('orders')); -- of two workers that start at once, the later one finds the table
CREATE TABLE IF NOT EXISTS orders (
    id uuid PRIMARY KEY, customer text NOT NULL, amount bigint NOT NULL CHECK (amount > 0)
)
"""
INSERT = "INSERT INTO orders (id, customer, amount) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
ONE_AT_A_TIME = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
OWED = "SELECT sum(amount) FROM orders WHERE customer = %s"

pool = AsyncConnectionPool(os.environ["DATABASE_URL"], open=False)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    async with pool:
        async with pool.connection() as connection:
            await connection.execute(TABLE)
        yield


app = FastAPI(lifespan=lifespan)


class Order(BaseModel):
    customer: str
    amount: PositiveInt


@app.put("/orders/{order_id}")
async def place(order_id: UUID, order: Order) -> dict[str, bool]:
    async with pool.connection() as connection:  # one transaction: committed at the end, rolled back by an exception
        await connection.execute(ONE_AT_A_TIME, [order.customer])
        new = (await connection.execute(INSERT, [order_id, order.customer, order.amount])).rowcount == 1
        if new:
            body = {"order_id": str(order_id), **order.model_dump()}
            await enqueue_async(connection, NewEvent(TOPIC, body, partition_key=order.customer))
        owed = await (await connection.execute(OWED, [order.customer])).fetchone()
        if owed and owed[0] and owed[0] > CREDIT_LIMIT:
            raise HTTPException(409, "over the credit limit")  # takes the order and its event back
    return {"new": new}
