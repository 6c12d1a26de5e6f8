"""A consumer of NATS JetStream that counts every order once, however often its message arrives.

    pip install '.[nats]'
    export DATABASE_URL='postgres://user:secret@localhost:5432/app' NATS='nats://localhost:4222'
    nats stream add ORDERS --subjects 'order.*' --defaults
    python examples/consumer_nats.py         # Ctrl-C ends it

JetStream itself drops repeats of a Nats-Msg-Id, but only within the stream's duplicate window (2 minutes), and it
delivers again what was not acknowledged in time. So the event's id goes into processed_events in the transaction that
has the effect: a repeat finds it there and changes nothing. The message is acknowledged after that transaction.
"""

import asyncio
import json
import os
from contextlib import suppress

import nats
import psycopg
from nats.aio.msg import Msg

TOPIC = os.environ.get("TOPIC", "order.placed")
DURABLE = "revenue"

TABLES = """
CREATE TABLE IF NOT EXISTS revenue (customer text PRIMARY KEY, total bigint NOT NULL);
CREATE TABLE IF NOT EXISTS processed_events (
    consumer text NOT NULL, event_id uuid NOT NULL, processed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (consumer, event_id)
)
"""
REMEMBER = "INSERT INTO processed_events (consumer, event_id) VALUES (%s, %s) ON CONFLICT DO NOTHING"
ADD = """
INSERT INTO revenue (customer, total) VALUES (%(customer)s, %(amount)s)
ON CONFLICT (customer) DO UPDATE SET total = revenue.total + EXCLUDED.total
"""


async def handle(connection: psycopg.AsyncConnection, message: Msg) -> bool:
    """False for a repeat. Two consumers with one event at the same time: the second waits for the first's commit."""
    event_id = (message.headers or {})["Nats-Msg-Id"]
    async with connection.transaction():
        new = (await connection.execute(REMEMBER, [DURABLE, event_id])).rowcount == 1
        if new:
            await connection.execute(ADD, json.loads(message.data))
    print(event_id, "counted" if new else "seen before", flush=True)
    return new


async def run() -> None:
    client = await nats.connect(os.environ["NATS"])
    subscription = await client.jetstream().pull_subscribe(TOPIC, durable=DURABLE)
    async with await psycopg.AsyncConnection.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        await connection.execute(TABLES)
        while True:
            try:
                messages = await subscription.fetch(100, timeout=5)
            except TimeoutError:  # nothing new: NATS' own error, or a plain one where the server is slow to say so
                continue
            for message in messages:
                await handle(connection, message)
                await message.ack()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(run())
