"""A consumer of the bank's topic: one letter for each withdrawal, however often its message arrives.

    relay-cli inbox migrate --storage-url "$STORAGE_URL"
    python -m examples.bank.letters --url "$STORAGE_URL" --kafka localhost:9092

A letter is an effect that a repeat would double: nothing about it says that it was written before. The inbox does.
"""

from __future__ import annotations

import argparse
import json
from contextlib import suppress
from typing import cast

import psycopg
from confluent_kafka import Consumer, Message

from openoutbox import inbox

CONSUMER = "letters"

LETTERS = (
    "CREATE TABLE IF NOT EXISTS letters (tenant_id UUID NOT NULL, account_id UUID NOT NULL, cents BIGINT NOT NULL)"
)
WRITE = "INSERT INTO letters (tenant_id, account_id, cents) VALUES (%s, %s, %s)"


def handle(connection: psycopg.Connection, message: Message) -> None:
    """Write the letter that the event asks for, and mark the event, in one transaction."""
    headers = {name: value.decode() for name, value in cast("list[tuple[str, bytes]]", message.headers() or [])}
    with connection.transaction(), inbox.once(connection, headers["X-Event-ID"], consumer=CONSUMER) as first:
        if first and headers["type"] == "MoneyWithdrawn":
            data = json.loads(message.value() or b"")
            connection.execute(WRITE, [headers["tenant_id"], headers["stream_id"], data["amount"]])
    print(headers["type"], "handled" if first else "seen before", flush=True)


def run(url: str, kafka: str, topic: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": kafka,
            "group.id": CONSUMER,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(LETTERS)
        while True:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if error := message.error():
                print(error, flush=True)  # the client goes on
                continue
            handle(connection, message)
            consumer.commit(message=message, asynchronous=False)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--kafka", required=True)
    parser.add_argument("--topic", default="bank.accounts")
    arguments = parser.parse_args()
    with suppress(KeyboardInterrupt):
        run(arguments.url, arguments.kafka, arguments.topic)
