"""A consumer of Kafka that counts every order once, however often its message arrives.

    pip install ./client '.[kafka]'
    export DATABASE_URL='postgres://user:secret@localhost:5432/app' KAFKA='localhost:9092'
    relay-cli inbox migrate --with dead-letters --storage-url "$DATABASE_URL"
    python examples/consumer_kafka.py        # Ctrl-C ends it

The relay delivers at least once. The inbox marks the event in the transaction that has the effect: a repeat finds the
mark and changes nothing. The offset is committed after that transaction, so a crash in between brings the message again
instead of losing it. `relay-cli inbox prune` deletes old marks.

A message whose handling fails five times, or that no relay sent, becomes a dead letter in openoutbox_inbox_tries. Then
the next one is read.
"""

import json
import os
import time
from contextlib import nullcontext, suppress

import psycopg
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import Message as KafkaMessage

from openoutbox import Message, MessageError, inbox

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
SAID = {"handled": "counted", "repeat": "seen before"}


def count(connection: psycopg.Connection, message: Message) -> None:
    connection.execute(ADD, json.loads(message.payload))


def handle(connection: psycopg.Connection, received: KafkaMessage) -> bool:
    """Whether to go on. False: it failed, or another consumer is at work on it, and it is to be read again."""
    try:
        message = Message.from_kafka(received)
    except MessageError as error:
        place = f"{received.topic()}/{received.partition()}/{received.offset()}"
        stranger = Message(place, received.topic(), None, received.value() or b"", {})
        done = inbox.set_aside(lambda: nullcontext(connection), stranger, error, consumer=GROUP)
    else:
        done = inbox.process(lambda: nullcontext(connection), message, count, consumer=GROUP, attempts=5)
    print(done.event_id, SAID.get(done.outcome, f"{done.outcome} {done.error!r}"), flush=True)
    return done.acknowledge


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
            if handle(connection, message):
                consumer.commit(message=message, asynchronous=False)
            else:
                time.sleep(1)
                consumer.seek(TopicPartition(TOPIC, message.partition() or 0, message.offset() or 0))


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        run()
