"""A consumer of a RabbitMQ queue that counts every order once, however often its message arrives.

    pip install ./client 'psycopg[binary]' pika
    export DATABASE_URL='postgres://user:secret@localhost:5432/app' RABBITMQ='amqp://user:secret@localhost:5672/%2F'
    relay-cli inbox migrate --with dead-letters --storage-url "$DATABASE_URL"
    python examples/consumer_rabbitmq.py     # Ctrl-C ends it

RabbitMQ delivers again what was not acknowledged when the connection was lost. The inbox marks the event in the
transaction that has the effect, so a repeat finds the mark and changes nothing. The message is acknowledged after that
transaction. `relay-cli inbox prune` deletes old marks.

A message whose handling fails five times, or that no relay sent, becomes a dead letter in openoutbox_inbox_tries.
"""

import json
import os
from contextlib import nullcontext, suppress
from uuid import uuid4

import pika
import psycopg
from pika.spec import Basic, BasicProperties

from openoutbox import Message, MessageError, inbox

TOPIC = os.environ.get("TOPIC", "order.placed")
CONSUMER = "revenue"
# RabbitMQ 4 drops what a quorum queue delivered 20 times, also what came back because another consumer was at work.
QUEUE = {"x-queue-type": "quorum", "x-delivery-limit": 1_000_000}

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


def handle(connection: psycopg.Connection, method: Basic.Deliver, properties: BasicProperties, body: bytes) -> bool:
    """Whether to acknowledge it. False: it failed, or another consumer is at work on it, and it is to come again."""
    try:
        message = Message.from_rabbitmq(method, properties, body)
    except MessageError as error:
        # It has no id, and so a new one: a crash before its acknowledgement makes two letters of it, and loses none.
        stranger = Message(str(uuid4()), method.routing_key, None, body, {})
        done = inbox.set_aside(lambda: nullcontext(connection), stranger, error, consumer=CONSUMER)
    else:
        done = inbox.process(lambda: nullcontext(connection), message, count, consumer=CONSUMER, attempts=5)
    print(done.event_id, SAID.get(done.outcome, f"{done.outcome} {done.error!r}"), flush=True)
    return done.acknowledge


def run() -> None:
    with (
        pika.BlockingConnection(pika.URLParameters(os.environ["RABBITMQ"])) as broker,
        psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection,
    ):
        connection.execute(TABLE)
        channel = broker.channel()
        channel.queue_declare(TOPIC, durable=True, arguments=QUEUE)
        channel.basic_qos(prefetch_count=100)
        for method, properties, body in channel.consume(TOPIC):
            if handle(connection, method, properties, body):
                channel.basic_ack(method.delivery_tag)
            else:
                broker.sleep(1)
                channel.basic_nack(method.delivery_tag, requeue=True)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        run()
