"""Consume a subject from NATS JetStream, each event once.

JetStream drops copies itself, but only inside the stream's duplicate window; a retry or a replay may come later.

python examples/consume_nats.py --storage-url postgres://... --server nats://localhost:4222 --subject order.placed
"""

from __future__ import annotations

import argparse
import asyncio
import time

import nats
import psycopg
from handling import TABLES, handle_once
from nats.js import JetStreamContext


async def consume(subscription: JetStreamContext.PullSubscription, connection: psycopg.Connection, idle: float) -> None:
    """Handle what comes, until nothing has come for ``idle`` seconds."""
    until = time.monotonic() + idle
    while time.monotonic() < until:
        try:
            messages = await subscription.fetch(10, timeout=0.5)
        except TimeoutError:
            continue
        for message in messages:
            event_id = (message.headers or {})["Nats-Msg-Id"]
            done = await asyncio.to_thread(handle_once, connection, event_id, message.data)
            print("handled" if done else "dropped a copy of", event_id, flush=True)
            await message.ack()  # only now: a crash before it brings the message again
        until = time.monotonic() + idle


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--storage-url", required=True)
    parser.add_argument("--server", required=True)
    parser.add_argument("--subject", required=True)
    parser.add_argument("--durable", default="example")
    parser.add_argument("--idle", type=float, default=float("inf"), help="end after so many seconds without an event")
    given = parser.parse_args()
    client = await nats.connect(given.server)
    subscription = await client.jetstream().pull_subscribe(given.subject, durable=given.durable)
    try:
        with psycopg.connect(given.storage_url, autocommit=True) as connection:
            connection.execute(TABLES)
            await consume(subscription, connection, given.idle)
    finally:
        await client.close()


if __name__ == "__main__":
    asyncio.run(main())
