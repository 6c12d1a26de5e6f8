"""A consumer of an SQS queue that counts every order once, however often its message arrives.

    pip install ./client 'psycopg[binary]' boto3
    export DATABASE_URL='postgres://user:secret@localhost:5432/app' AWS_DEFAULT_REGION='eu-central-1'
    aws sqs create-queue --queue-name order-placed
    relay-cli inbox migrate --with dead-letters --storage-url "$DATABASE_URL"
    python examples/consumer_sqs.py          # Ctrl-C ends it

SQS delivers again what was not deleted within the visibility timeout, because its consumer crashed, or is only slow:
then both have it. The inbox marks the event in the transaction that has the effect, so the second one finds the mark
and changes nothing. The message is deleted after that transaction. `relay-cli inbox prune` deletes old marks.

A message whose handling fails five times, or that no relay sent, becomes a dead letter in openoutbox_inbox_tries. Where
the queue has a redrive policy of its own, its maxReceiveCount has to be far above five.
"""

import json
import os
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any

import boto3
import psycopg

from openoutbox import Message, MessageError, inbox

TOPIC = os.environ.get("TOPIC", "order.placed")
QUEUE = TOPIC.replace(".", "-")  # as the relay does: a queue's name has no dots
CONSUMER = "revenue"

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


def handle(connection: psycopg.Connection, received: dict[str, Any]) -> bool:
    """Whether to delete it. False: it failed, or another consumer is at work on it, and it is to come again."""
    try:
        message = replace(Message.from_sqs(received), event_type=TOPIC)  # SQS does not say it
    except MessageError as error:
        stranger = Message(f"{QUEUE}/{received['MessageId']}", TOPIC, None, received["Body"].encode(), {})
        done = inbox.set_aside(lambda: nullcontext(connection), stranger, error, consumer=CONSUMER)
    else:
        done = inbox.process(lambda: nullcontext(connection), message, count, consumer=CONSUMER, attempts=5)
    print(done.event_id, SAID.get(done.outcome, f"{done.outcome} {done.error!r}"), flush=True)
    return done.acknowledge


def run() -> None:
    client = boto3.client("sqs")
    queue = client.get_queue_url(QueueName=QUEUE)["QueueUrl"]
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        connection.execute(TABLE)
        while True:
            answer = client.receive_message(
                QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=10, MessageAttributeNames=["All"]
            )
            for received in answer.get("Messages", []):
                one = {"QueueUrl": queue, "ReceiptHandle": received["ReceiptHandle"]}
                if handle(connection, received):
                    client.delete_message(**one)
                else:
                    client.change_message_visibility(**one, VisibilityTimeout=1)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        run()
