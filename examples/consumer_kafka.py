"""A consumer of Kafka that counts every order once, however often its message arrives.

    pip install ./client '.[kafka]'
    export DATABASE_URL='postgres://user:secret@localhost:5432/app' KAFKA='localhost:9092'
    relay-cli inbox migrate --storage-url "$DATABASE_URL"
    python examples/consumer_kafka.py        # Ctrl-C ends it

The relay delivers at least once. The inbox marks the event in the transaction that has the effect: a repeat finds the
mark and changes nothing. The offset is committed after that transaction, so a crash in between brings the message again
instead of losing it. `relay-cli inbox prune` deletes old marks.
"""

import json
import os
from contextlib import suppress

import psycopg
from confluent_kafka import Consumer

from openoutbox import Message, inbox

TOPIC = os.environ.get("TOPIC", "order.placed")
GROUP = "revenue"

TABLE = """
SELECT pg_advisory_xact_lock(hashtext('revenue')); -- of two that start at once, the later one finds the table
CREATE TABLE IF NOT EXISTS revenue (customer text PRIMARY KEY, total bigint NOT NULL)
"""
ADD = """
INSERT INTO revenue (customer, total) VALUES (%(customer)s, %(amount)s)
ON CONFLICT (customer) DO UPDATE SET total = revenue.total + EXCLUDED.total
"""


def handle(connection: psycopg.Connection, message: Message) -> bool:
    """False for a repeat. Two consumers with one event at the same time: the second waits for the first's commit."""
    with connection.transaction(), inbox.once(connection, message.event_id, consumer=GROUP) as first:
        if first:
            connection.execute(ADD, json.loads(message.payload))
    print(message.event_id, "counted" if first else "seen before", flush=True)
    return first


def run() -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": os.environ["KAFKA"],
            "group.id": GROUP,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6_000,  # after this, the others of the group take over from one that crashed
        }
    )
    consumer.subscribe([TOPIC])
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        connection.execute(TABLE)
        while True:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if error := message.error():
                print(error, flush=True)  # the client goes on
                continue
            handle(connection, Message.from_kafka(message))
            consumer.commit(message=message, asynchronous=False)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        run()
