"""A consumer of NATS JetStream that counts every order once, however often its message arrives.

    pip install ./client '.[nats]'
    export DATABASE_URL='postgres://user:secret@localhost:5432/app' NATS='nats://localhost:4222'
    nats stream add ORDERS --subjects 'order.*' --defaults
    relay-cli inbox migrate --with dead-letters --storage-url "$DATABASE_URL"
    python examples/consumer_nats.py         # Ctrl-C ends it

JetStream itself drops repeats of a Nats-Msg-Id, but only within the stream's duplicate window (2 minutes), and it
delivers again what was not acknowledged in time. So the inbox marks the event in the transaction that has the effect: a
repeat finds the mark and changes nothing. The message is acknowledged after that transaction. `relay-cli inbox prune`
deletes old marks.

A message whose handling fails five times, or that no relay sent, becomes a dead letter in openoutbox_inbox_tries.
"""

import asyncio
import json
import os
from contextlib import nullcontext, suppress

import nats
import psycopg
from nats.aio.msg import Msg

from openoutbox import Message, MessageError, inbox

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
SAID = {"handled": "counted", "repeat": "seen before"}


async def count(connection: psycopg.AsyncConnection, message: Message) -> None:
    await connection.execute(ADD, json.loads(message.payload))


async def handle(connection: psycopg.AsyncConnection, received: Msg) -> bool:
    """Whether to acknowledge it. False: it failed, or another consumer is at work on it, and it is to come again."""
    try:
        message = Message.from_nats(received)
    except MessageError as error:
        place = f"{received.metadata.stream}/{received.metadata.sequence.stream}"
        stranger = Message(place, received.subject, None, received.data, {})
        done = await inbox.set_aside_async(lambda: nullcontext(connection), stranger, error, consumer=DURABLE)
    else:
        done = await inbox.process_async(lambda: nullcontext(connection), message, count, consumer=DURABLE, attempts=5)
    print(done.event_id, SAID.get(done.outcome, f"{done.outcome} {done.error!r}"), flush=True)
    return done.acknowledge


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
                if await handle(connection, message):
                    await message.ack()
                else:
                    await message.nak(delay=1)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(run())
