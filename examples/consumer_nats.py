"""A consumer of NATS JetStream that counts every order once, however often its message arrives.

    pip install ./client '.[nats]'
    export DATABASE_URL='postgres://user:secret@localhost:5432/app' NATS='nats://localhost:4222'
    nats stream add ORDERS --subjects 'order.*' --defaults
    relay-cli inbox migrate --storage-url "$DATABASE_URL"
    python examples/consumer_nats.py         # Ctrl-C ends it

JetStream itself drops repeats of a Nats-Msg-Id, but only within the stream's duplicate window (2 minutes), and it
delivers again what was not acknowledged in time. So the inbox marks the event in the transaction that has the effect: a
repeat finds the mark and changes nothing. The message is acknowledged after that transaction. `relay-cli inbox prune`
deletes old marks.
"""

import asyncio
import json
import os
from contextlib import suppress

import nats
import psycopg

from openoutbox import Message, inbox

TOPIC = os.environ.get("TOPIC", "order.placed")
DURABLE = "revenue"

TABLE = """
SELECT pg_advisory_xact_lock(hashtext('revenue')); -- of two that start at once, the later one finds the table
CREATE TABLE IF NOT EXISTS revenue (customer text PRIMARY KEY, total bigint NOT NULL)
"""
ADD = """
INSERT INTO revenue (customer, total) VALUES (%(customer)s, %(amount)s)
ON CONFLICT (customer) DO UPDATE SET total = revenue.total + EXCLUDED.total
"""


async def handle(connection: psycopg.AsyncConnection, message: Message) -> bool:
    """False for a repeat. Two consumers with one event at the same time: the second waits for the first's commit."""
    async with connection.transaction(), inbox.once(connection, message.event_id, consumer=DURABLE) as first:
        if first:
            await connection.execute(ADD, json.loads(message.payload))
    print(message.event_id, "counted" if first else "seen before", flush=True)
    return first


async def run() -> None:
    client = await nats.connect(os.environ["NATS"])
    subscription = await client.jetstream().pull_subscribe(TOPIC, durable=DURABLE)
    async with await psycopg.AsyncConnection.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        await connection.execute(TABLE)
        while True:
            try:
                messages = await subscription.fetch(100, timeout=5)
            except TimeoutError:  # nothing new: NATS' own error, or a plain one where the server is slow to say so
                continue
            for message in messages:
                await handle(connection, Message.from_nats(message))
                await message.ack()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(run())
