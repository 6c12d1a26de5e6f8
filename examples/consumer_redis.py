"""A consumer of a Redis stream that counts every order once, however often its message arrives.

    pip install ./client '.[redis]'
    export DATABASE_URL='postgres://user:secret@localhost:5432/app' REDIS='redis://localhost:6379/0'
    relay-cli inbox migrate --with dead-letters --storage-url "$DATABASE_URL"
    python examples/consumer_redis.py        # Ctrl-C ends it

Redis delivers a message to one consumer of the group, and keeps it pending until it is acknowledged. Another consumer
claims what stays pending for CLAIM_AFTER_MS, because its consumer crashed, or is only slow: then both have it. The
inbox marks the event in the transaction that has the effect, so the second one finds the mark and changes nothing. The
message is acknowledged after that transaction. `relay-cli inbox prune` deletes old marks.

A message whose handling fails stays pending and is claimed again. One that fails five times, or that no relay sent,
becomes a dead letter in openoutbox_inbox_tries.
"""

import json
import os
from contextlib import nullcontext, suppress
from typing import Any, cast

import psycopg
import redis

from openoutbox import Message, MessageError, inbox

TOPIC = os.environ.get("TOPIC", "order.placed")
GROUP = "revenue"
CLAIM_AFTER_MS = int(os.environ.get("CLAIM_AFTER_MS", "60000"))

Fields = dict[bytes, bytes]

TABLE = """
SELECT pg_advisory_xact_lock(hashtext('revenue')); -- of two that start at once, the later one finds the table
CREATE TABLE IF NOT EXISTS revenue (customer text PRIMARY KEY, total bigint NOT NULL)
"""
ADD = """
INSERT INTO revenue (customer, total) VALUES (%(customer)s, %(amount)s)
ON CONFLICT (customer) DO UPDATE SET total = revenue.total + EXCLUDED.total
"""
SAID = {"handled": "counted", "repeat": "seen before"}


def count(connection: psycopg.Connection, message: Message) -> None:
    connection.execute(ADD, json.loads(message.payload))


def handle(connection: psycopg.Connection, message_id: bytes, fields: Fields) -> bool:
    """Whether to acknowledge it. False: it failed, or another consumer is at work on it, and it is to come again."""
    try:
        message = Message.from_redis(TOPIC, fields)
    except MessageError as error:
        stranger = Message(f"{TOPIC}/{message_id.decode()}", TOPIC, None, repr(fields).encode(), {})
        done = inbox.set_aside(lambda: nullcontext(connection), stranger, error, consumer=GROUP)
    else:
        done = inbox.process(lambda: nullcontext(connection), message, count, consumer=GROUP, attempts=5)
    print(done.event_id, SAID.get(done.outcome, f"{done.outcome} {done.error!r}"), flush=True)
    return done.acknowledge


def messages(client: redis.Redis, name: str) -> list[tuple[bytes, Fields]]:
    """What others have left pending for too long, and then what is new."""
    # Which types these answer with depends on the client's options, so it names none.
    _, claimed, *_ = cast("Any", client.xautoclaim(TOPIC, GROUP, name, CLAIM_AFTER_MS, count=100))
    read = cast("Any", client.xreadgroup(GROUP, name, {TOPIC: ">"}, count=100, block=1000))
    return [*claimed, *(message for _, new in read for message in new)]


def run() -> None:
    client = redis.Redis.from_url(os.environ["REDIS"], protocol=2)
    with suppress(redis.ResponseError):  # the group exists
        client.xgroup_create(TOPIC, GROUP, id="0", mkstream=True)
    name = f"{os.uname().nodename}-{os.getpid()}"
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        connection.execute(TABLE)
        while True:
            for message_id, fields in messages(client, name):
                if handle(connection, message_id, fields):
                    client.xack(TOPIC, GROUP, message_id)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        run()
