"""The brokers of a benchmark: a fresh destination for each cell, and what arrived there.

Every message is read back and identified by its event id, so that a lost one and a duplicate do not cancel out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Protocol, Self

import nats
import redis
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from nats.js.api import ConsumerConfig, DeliverPolicy

from tests.support.aws import AwsAdmin
from tests.support.rabbitmq import RabbitAdmin
from tests.support.servers.aws import AwsServer, publisher_url
from tests.support.servers.kafka import KafkaServer
from tests.support.servers.nats import NatsServer
from tests.support.servers.rabbitmq import RabbitServer
from tests.support.servers.valkey import ValkeyServer
from tests.support.servers.webhooks import WebhookServer

_PARTITIONS = 6
_CONFIG = {"message.timestamp.type": "LogAppendTime"}  # so that a message says when the broker stored it
_PAGE = 1000
_LOOK = 0.1  # seconds between looks at how much a topic holds
_PATIENCE = 30.0  # seconds without a message after which what is missing is lost


@dataclass(frozen=True)
class Received:
    """What a destination holds."""

    messages: int
    distinct: int

    @classmethod
    def of(cls, ids: Iterator[str]) -> Self:
        """Count ids."""
        seen: set[str] = set()
        messages = 0
        for event_id in ids:
            messages += 1
            seen.add(event_id)
        return cls(messages, len(seen))


class Destinations(Protocol):
    """One broker."""

    url: str
    """The PUBLISHER_URL."""
    pid: int
    """Its process."""

    def prepare(self, target: str) -> Sequence[str]:
        """Make the topic or stream called ``target``; returns what it is called, or the names of several."""

    def received(self, target: str) -> Received:
        """Read everything back."""

    def discard(self, target: str) -> None:
        """Delete it, for the disk's sake."""


class Kafka:
    """Apache Kafka, one node, six partitions a topic."""

    def __init__(self, stack: ExitStack) -> None:
        server = stack.enter_context(KafkaServer())
        self.url, self.pid = server.url, server.pid
        self._admin = AdminClient({"bootstrap.servers": self.url, "log_level": 0})

    def prepare(self, target: str) -> Sequence[str]:
        """Make the topic."""
        self._admin.create_topics([NewTopic(target, num_partitions=_PARTITIONS, config=_CONFIG)])[target].result(30)
        return (target,)

    def received(self, target: str) -> Received:
        """Read every partition from its beginning to its high watermark."""
        return Received.of(bytes(dict(message.headers() or [])["X-Event-ID"]).decode() for message in self.all(target))

    def all(self, target: str) -> Iterator[Message]:
        """The messages that the topic holds now; of one partition in its order."""
        with self._consumer() as consumer:
            partitions = [TopicPartition(target, number, 0) for number in range(_PARTITIONS)]
            missing = sum(consumer.get_watermark_offsets(part, timeout=10)[1] for part in partitions)
            consumer.assign(partitions)
            while missing > 0:
                messages = consumer.consume(min(missing, _PAGE), timeout=_PATIENCE)  # it waits for that many
                if not messages:
                    return
                yield from messages
                missing -= len(messages)

    def wait(self, target: str, count: int, deadline: float) -> None:
        """Return when the topic holds at least so many messages. Raises TimeoutError after ``deadline`` seconds."""
        with self._consumer() as consumer:
            end = time.monotonic() + deadline
            partitions = [TopicPartition(target, number) for number in range(_PARTITIONS)]
            while (messages := sum(consumer.get_watermark_offsets(part, timeout=10)[1] for part in partitions)) < count:
                if time.monotonic() > end:
                    raise TimeoutError(f"{target} holds {messages} of {count} messages after {deadline:g} s")
                time.sleep(_LOOK)

    def discard(self, target: str) -> None:
        """Delete the topic."""
        self._admin.delete_topics([target])[target].result(30)

    def _consumer(self) -> closing[Consumer]:
        return closing(
            Consumer(
                {
                    "bootstrap.servers": self.url,
                    "group.id": "benchmark",
                    "auto.offset.reset": "earliest",
                    "log_level": 0,
                }
            )
        )


class Nats:
    """nats-server, streams on file."""

    def __init__(self, stack: ExitStack) -> None:
        server = stack.enter_context(NatsServer())
        self.url, self.pid = server.url, server.pid

    def prepare(self, target: str) -> Sequence[str]:
        """Make the stream, of one subject."""
        asyncio.run(self._make(target))
        return (target,)

    def received(self, target: str) -> Received:
        """Read the stream from its beginning. The stream drops what has the id of an earlier message."""
        return Received.of(iter(asyncio.run(self._ids(target))))

    def discard(self, target: str) -> None:
        """Delete the stream."""
        asyncio.run(self._delete(target))

    async def _make(self, target: str) -> None:
        client = await nats.connect(self.url)
        await client.jetstream().add_stream(name=target, subjects=[target])
        await client.close()

    async def _delete(self, target: str) -> None:
        client = await nats.connect(self.url)
        await client.jetstream().delete_stream(target)
        await client.close()

    async def _ids(self, target: str) -> Sequence[str]:
        client = await nats.connect(self.url)
        try:
            stream = client.jetstream()
            wanted = (await stream.stream_info(target)).state.messages
            reader = await stream.subscribe(
                target, ordered_consumer=True, config=ConsumerConfig(deliver_policy=DeliverPolicy.ALL)
            )
            event_ids: list[str] = []
            while len(event_ids) < wanted:
                message = await reader.next_msg(timeout=_PATIENCE)
                event_ids.append((message.headers or {})["Nats-Msg-Id"])
            return event_ids
        finally:
            await client.close()


class Redis:
    """Valkey with its append-only file synced every second."""

    def __init__(self, stack: ExitStack) -> None:
        server = stack.enter_context(ValkeyServer())
        self.url, self.pid = server.url, server.pid
        self._client = stack.enter_context(redis.Redis.from_url(self.url))

    def prepare(self, target: str) -> Sequence[str]:
        """Its first entry creates a stream."""
        return (target,)

    def received(self, target: str) -> Received:
        """Read the stream from its beginning."""
        return Received.of(self._ids(target))

    def discard(self, target: str) -> None:
        """Delete the stream."""
        self._client.delete(target)

    def _ids(self, target: str) -> Iterator[str]:
        after = b"-"
        while entries := self._client.xrange(target, min=after, count=_PAGE):
            for _, fields in entries:
                yield fields[b"id"].decode()
            after = b"(" + entries[-1][0]


class RabbitMQ:
    """One RabbitMQ node, quorum queues."""

    queues = 1
    """How many a target has."""

    def __init__(self, stack: ExitStack) -> None:
        server = stack.enter_context(RabbitServer())
        self.url, self.pid = server.url, server.pid

    def prepare(self, target: str) -> Sequence[str]:
        """Make the queues."""
        names = self._names(target)
        with RabbitAdmin(self.url) as admin:
            for name in names:
                admin.declare(name, {"x-queue-type": "quorum"})
        return names

    def received(self, target: str) -> Received:
        """Take everything out of the queues."""
        with RabbitAdmin(self.url) as admin:
            return Received.of(event_id for name in self._names(target) for event_id in admin.drain(name))

    def discard(self, target: str) -> None:
        """Delete the queues."""
        with RabbitAdmin(self.url) as admin:
            for name in self._names(target):
                admin.delete(name)

    def _names(self, target: str) -> list[str]:
        return [target] if self.queues == 1 else [f"{target}.{number}" for number in range(self.queues)]


class Webhooks:
    """One receiver of webhooks by HTTP/1.1, without TLS: aiohttp's server, which keeps what it gets in memory."""

    def __init__(self, stack: ExitStack) -> None:
        self._server = stack.enter_context(WebhookServer())
        self.url, self.pid = self._server.url, self._server.pid

    def prepare(self, target: str) -> Sequence[str]:
        """Its endpoint takes any event type."""
        return (target,)

    def received(self, target: str) -> Received:
        """What came of the type."""
        return Received.of(str(post.header("webhook-id")) for post in self._server.received(target))

    def discard(self, target: str) -> None:
        """Leave it: it ends with the server."""


class Sqs:
    """Standard queues of moto's server, an emulator whose own time is most of what is measured."""

    queues = 8
    """How many a target has: a queue of the emulator slows down with its messages."""

    def __init__(self, stack: ExitStack) -> None:
        server = stack.enter_context(AwsServer())
        self.url, self.pid = publisher_url("sqs", server.url), server.pid
        self._admin = AwsAdmin(server.url)

    def prepare(self, target: str) -> Sequence[str]:
        """Make the queues."""
        for name in self._names(target):
            self._admin.create_queue(name)
        return self._names(target)

    def received(self, target: str) -> Received:
        """Take everything out of the queues."""
        messages = (message for name in self._names(target) for message in self._admin.drain(name))
        return Received.of(message.attributes["X-Event-ID"] for message in messages)

    def discard(self, target: str) -> None:
        """Delete the queues."""
        for name in self._names(target):
            self._admin.delete_queue(name)

    def _names(self, target: str) -> list[str]:
        return [f"{target.replace('.', '-')}-{number}" for number in range(self.queues)]


BROKERS: dict[str, type[Kafka] | type[Nats] | type[Redis] | type[RabbitMQ] | type[Webhooks] | type[Sqs]] = {
    "kafka": Kafka,
    "nats": Nats,
    "redis": Redis,
    "rabbitmq": RabbitMQ,
    "http": Webhooks,
    "sqs": Sqs,
}
"""By PUBLISHER_TYPE."""
