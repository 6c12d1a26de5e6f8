"""What differs between SQS and SNS: where an event goes, how a batch is sent, and the question that a probe asks.

A queue is found by its name (``GetQueueUrl``). A topic's ARN is put together: from SNS_TOPIC_ARN_PREFIX, or from the
account that the credentials belong to (``GetCallerIdentity``, which needs no right) and the region.

The probe lists one queue or topic, or asks for one that is named. A refusal of that right is an answer: the request
was signed by a known key.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, Protocol

from botocore.exceptions import ClientError
from botocore.parsers import ResponseParserError

from relay.brokers.aws.client import AwsClient
from relay.brokers.aws.errors import classify, is_missing
from relay.brokers.aws.message import AwsMessage
from relay.brokers.aws.options import AwsOptions, AwsTarget
from relay.core.outcome import ConnectionCut, Unreachable

Entry = dict[str, Any]
"""One message of a batch request."""


class Service(Protocol):
    """SQS or SNS."""

    noun: str

    async def address(self, client: AwsClient, name: str) -> str:
        """Where to send what goes to this queue or topic. Raises what the client raises."""

    async def exists(self, client: AwsClient, name: str) -> bool:
        """Whether there is a queue or topic of this name. Raises what the client raises."""

    async def keeps(self, client: AwsClient, name: str) -> bool:
        """Whether what it acknowledges arrives anywhere. Raises what the client raises."""

    def entry(self, message: AwsMessage) -> Entry:
        """A message as a batch request has it, without an id."""

    async def send(self, client: AwsClient, address: str, entries: Sequence[Entry]) -> dict[str, Any]:
        """Send a batch; returns the service's answer. Raises what the client raises."""

    async def ask(self, client: AwsClient, name: str = "") -> None:
        """Make the probe's request, about a queue or topic where it is named. Raises what the client raises."""


class Sqs:
    """Queues."""

    noun = "queue"

    async def address(self, client: AwsClient, name: str) -> str:
        """The queue's URL."""
        answer = _checked(await client.api.get_queue_url(QueueName=name))
        return str(answer["QueueUrl"])

    async def exists(self, client: AwsClient, name: str) -> bool:
        """Whether there is one of this name."""
        return await _is_there(self.address(client, name))

    async def keeps(self, client: AwsClient, name: str) -> bool:  # noqa: ARG002 - as the port has it
        """A queue keeps what it takes."""
        return True

    def entry(self, message: AwsMessage) -> Entry:
        """A message as SendMessageBatch has it."""
        return {"MessageBody": message.body, "MessageAttributes": _attributes(message)}

    async def send(self, client: AwsClient, address: str, entries: Sequence[Entry]) -> dict[str, Any]:
        """SendMessageBatch."""
        return _checked(await client.api.send_message_batch(QueueUrl=address, Entries=entries))

    async def ask(self, client: AwsClient, name: str = "") -> None:
        """ListQueues, of one; GetQueueAttributes, where events for the queue are sent."""
        if not name:
            _checked(await client.api.list_queues(MaxResults=1))
            return
        url = await self.address(client, name)
        _checked(await client.api.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"]))


class Sns:
    """Topics."""

    noun = "topic"

    def __init__(self, options: AwsOptions, target: AwsTarget) -> None:
        self._options, self._target = options, target
        self._prefix = options.topic_arn_prefix

    async def address(self, client: AwsClient, name: str) -> str:  # noqa: ARG002 - as the port has it
        """The topic's ARN."""
        if self._prefix is None:
            identity = await AwsClient.connect("sts", self._options, self._target, reuse=False)
            try:
                caller = await identity.api.get_caller_identity()
            finally:
                await identity.close()
            partition = str(caller["Arn"]).split(":")[1]
            self._prefix = f"arn:{partition}:sns:{self._target.region}:{caller['Account']}:"
        return self._prefix + name

    async def exists(self, client: AwsClient, name: str) -> bool:
        """Whether there is one of this name."""
        return await _is_there(self.ask(client, name))

    async def keeps(self, client: AwsClient, name: str) -> bool:
        """Whether there is a confirmed subscription. Without one SNS acknowledges, and drops."""
        answer = await client.api.get_topic_attributes(TopicArn=await self.address(client, name))
        return str(answer["Attributes"].get("SubscriptionsConfirmed")) != "0"

    def entry(self, message: AwsMessage) -> Entry:
        """A message as PublishBatch has it."""
        return {"Message": message.body, "MessageAttributes": _attributes(message)}

    async def send(self, client: AwsClient, address: str, entries: Sequence[Entry]) -> dict[str, Any]:
        """PublishBatch."""
        answer: dict[str, Any] = await client.api.publish_batch(TopicArn=address, PublishBatchRequestEntries=entries)
        return answer

    async def ask(self, client: AwsClient, name: str = "") -> None:
        """ListTopics, or GetTopicAttributes."""
        if name:
            await client.api.get_topic_attributes(TopicArn=await self.address(client, name))
        else:
            await client.api.list_topics()


def service_of(options: AwsOptions, target: AwsTarget) -> Service:
    """The service of the options."""
    return Sqs() if options.kind == "sqs" else Sns(options, target)


def unreachable(error: Exception) -> str | None:
    """Why an error of ``ask`` means that the service cannot be used; None when it answered anyway."""
    outcome = classify(error)
    if isinstance(outcome, Unreachable | ConnectionCut):
        return outcome.reason
    return None if isinstance(error, ClientError) else str(getattr(outcome, "reason", error))


async def _is_there(question: Awaitable[object]) -> bool:
    """Whether what is asked about is there. Raises what else is wrong."""
    try:
        await question
    except ClientError as error:
        if not is_missing(error):
            raise
        return False
    return True


def _checked(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer of SQS. Raises ResponseParserError for a page of a proxy, which the SDK reads as an empty answer."""
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    if "html" in str(headers.get("content-type", "")):
        raise ResponseParserError("the answer is a page of HTML")
    return answer


def _attributes(message: AwsMessage) -> dict[str, dict[str, str]]:
    return {name: {"DataType": "String", "StringValue": value} for name, value in message.attributes.items()}
