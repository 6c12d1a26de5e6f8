"""A client of SQS and SNS for tests and benchmarks: it creates, subscribes, counts and reads."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import boto3
from botocore.config import Config

from tests.support.servers.aws import CREDENTIALS, REGION
from tests.support.waiting import patience

_FIFO = ".fifo"


class ReadMessage(NamedTuple):
    """A message as a consumer gets it."""

    body: str
    attributes: dict[str, str]
    group: str | None
    deduplication: str | None


class AwsAdmin:
    """One connection pool to an emulator."""

    def __init__(self, endpoint: str) -> None:
        session = boto3.Session(
            CREDENTIALS["AWS_ACCESS_KEY_ID"], CREDENTIALS["AWS_SECRET_ACCESS_KEY"], region_name=REGION
        )
        config = Config(connect_timeout=patience(5), read_timeout=patience(30))
        self._sqs: Any = session.client("sqs", endpoint_url=endpoint, config=config)
        self._sns: Any = session.client("sns", endpoint_url=endpoint, config=config)

    def create_queue(self, name: str, **attributes: str) -> str:
        """Create a queue; FIFO when its name says so. Returns its URL."""
        fifo = {"FifoQueue": "true"} if name.endswith(_FIFO) else {}
        return str(self._sqs.create_queue(QueueName=name, Attributes=fifo | attributes)["QueueUrl"])

    def create_topic(self, name: str) -> str:
        """Create a topic and subscribe a queue of the same name to it, with raw delivery. Returns its ARN."""
        fifo = {"FifoTopic": "true"} if name.endswith(_FIFO) else {}
        arn = str(self._sns.create_topic(Name=name, Attributes=fifo)["TopicArn"])
        url = self.create_queue(name)
        queue = self._sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        self._sns.subscribe(TopicArn=arn, Protocol="sqs", Endpoint=queue, Attributes={"RawMessageDelivery": "true"})
        return arn

    def unsubscribe(self, name: str) -> None:
        """End every subscription of a topic."""
        arn = str(self._sns.create_topic(Name=name)["TopicArn"])  # which exists
        for one in self._sns.list_subscriptions_by_topic(TopicArn=arn)["Subscriptions"]:
            self._sns.unsubscribe(SubscriptionArn=one["SubscriptionArn"])

    def delete_queue(self, name: str) -> None:
        """Delete a queue."""
        self._sqs.delete_queue(QueueUrl=self._sqs.get_queue_url(QueueName=name)["QueueUrl"])

    def count(self, name: str) -> int:
        """How many messages a queue has that are not read."""
        url = self._sqs.get_queue_url(QueueName=name)["QueueUrl"]
        wanted = "ApproximateNumberOfMessages"
        return int(self._sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[wanted])["Attributes"][wanted])

    def send(self, name: str, body: str) -> None:
        """Put a message without attributes into a queue."""
        self._sqs.send_message(QueueUrl=self._sqs.get_queue_url(QueueName=name)["QueueUrl"], MessageBody=body)

    def read(self, name: str, count: int) -> list[ReadMessage]:
        """Take messages out of a queue until there are ``count``."""
        messages: list[ReadMessage] = []
        deadline = time.monotonic() + patience()
        while len(messages) < count:
            assert time.monotonic() < deadline, f"{len(messages)} of {count} messages in {name}"
            messages += self._take(name)
        return messages

    def drain(self, name: str) -> list[ReadMessage]:
        """Take out all messages that are there."""
        messages: list[ReadMessage] = []
        while part := self._take(name):
            messages += part
        return messages

    def _take(self, name: str) -> list[ReadMessage]:
        url = self._sqs.get_queue_url(QueueName=name)["QueueUrl"]
        answer = self._sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"], AttributeNames=["All"]
        )
        received = answer.get("Messages", [])
        if received:
            handles = [{"Id": str(n), "ReceiptHandle": one["ReceiptHandle"]} for n, one in enumerate(received)]
            self._sqs.delete_message_batch(QueueUrl=url, Entries=handles)
        return [_read(one) for one in received]


def _read(message: dict[str, Any]) -> ReadMessage:
    attributes = {name: value["StringValue"] for name, value in message.get("MessageAttributes", {}).items()}
    system = message.get("Attributes", {})
    return ReadMessage(message["Body"], attributes, system.get("MessageGroupId"), system.get("MessageDeduplicationId"))
