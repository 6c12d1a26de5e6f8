"""A consumer of the bank's topic: one letter for each withdrawal, however often its message arrives.

    relay-cli inbox migrate --with dead-letters --storage-url "$STORAGE_URL"
    python -m examples.bank.letters --url "$STORAGE_URL" --kafka localhost:9092

A letter is an effect that a repeat would double: nothing about it says that it was written before. The inbox does. A
message whose letter cannot be written, or that no relay sent, becomes a dead letter of the inbox.
"""

from __future__ import annotations

import argparse
import json
import time
from contextlib import nullcontext, suppress

import psycopg
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import Message as KafkaMessage

from openoutbox import Message, MessageError, inbox

CONSUMER = "letters"

LETTERS = (
    "CREATE TABLE IF NOT EXISTS letters (tenant_id UUID NOT NULL, account_id UUID NOT NULL, cents BIGINT NOT NULL)"
)
WRITE = "INSERT INTO letters (tenant_id, account_id, cents) VALUES (%s, %s, %s)"


def write(connection: psycopg.Connection, message: Message) -> None:
    """Write the letter that the event asks for."""
    headers = message.headers
    if headers["type"] == "MoneyWithdrawn":
        data = json.loads(message.payload)
        connection.execute(WRITE, [headers["tenant_id"], headers["stream_id"], data["amount"]])


def handle(connection: psycopg.Connection, received: KafkaMessage) -> bool:
    """Whether to go on. False: it failed, or another consumer is at work on it, and it is to be read again."""
    try:
        message = Message.from_kafka(received)
    except MessageError as error:
        place = f"{received.topic()}/{received.partition()}/{received.offset()}"
        message = Message(place, received.topic(), None, received.value() or b"", {})
        done = inbox.set_aside(lambda: nullcontext(connection), message, error, consumer=CONSUMER)
    else:
        done = inbox.process(lambda: nullcontext(connection), message, write, consumer=CONSUMER)
    said = "seen before" if done.outcome == "repeat" else done.outcome
    print(message.headers.get("type"), said, done.error or "", flush=True)
    return done.acknowledge


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
            if handle(connection, message):
                consumer.commit(message=message, asynchronous=False)
            else:
                time.sleep(1)
                consumer.seek(TopicPartition(topic, message.partition() or 0, message.offset() or 0))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--kafka", required=True)
    parser.add_argument("--topic", default="bank.accounts")
    arguments = parser.parse_args()
    with suppress(KeyboardInterrupt):
        run(arguments.url, arguments.kafka, arguments.topic)
