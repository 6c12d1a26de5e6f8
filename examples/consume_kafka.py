"""Consume a topic from Kafka, each event once.

python examples/consume_kafka.py --storage-url postgres://... --brokers localhost:9092 --topic order.placed
"""

from __future__ import annotations

import argparse
import time

import psycopg
from confluent_kafka import Consumer, KafkaException, Message
from handling import TABLES, handle_once


def event_id(message: Message) -> str:
    """The identity that the relay gives every message."""
    value = dict(message.headers() or [])["X-Event-ID"]
    return value.decode() if isinstance(value, bytes) else str(value)


def consume(consumer: Consumer, connection: psycopg.Connection, idle: float) -> None:
    """Handle what comes, until nothing has come for ``idle`` seconds."""
    until = time.monotonic() + idle
    while time.monotonic() < until:
        message = consumer.poll(0.2)
        if message is None:
            continue
        if message.error():
            raise KafkaException(message.error())
        done = handle_once(connection, event_id(message), message.value() or b"")
        print("handled" if done else "dropped a copy of", event_id(message), flush=True)
        consumer.commit(message=message, asynchronous=False)  # only now: a crash before it brings the message again
        until = time.monotonic() + idle


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--storage-url", required=True)
    parser.add_argument("--brokers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--group", default="example")
    parser.add_argument("--idle", type=float, default=float("inf"), help="end after so many seconds without an event")
    given = parser.parse_args()
    consumer = Consumer(
        {
            "bootstrap.servers": given.brokers,
            "group.id": given.group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([given.topic])
    try:
        with psycopg.connect(given.storage_url, autocommit=True) as connection:
            connection.execute(TABLES)
            consume(consumer, connection, given.idle)
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
