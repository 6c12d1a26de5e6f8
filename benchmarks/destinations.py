"""The brokers of a benchmark: a fresh destination for each cell, and what arrived there.

Every message is read back and identified by its event id, so that a lost one and a duplicate do not cancel out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol, Self

import nats
import redis
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from nats.js.api import ConsumerConfig, DeliverPolicy

from tests.support.servers.kafka import KafkaServer
from tests.support.servers.nats import NatsServer
from tests.support.servers.valkey import ValkeyServer

_PARTITIONS = 6
_CONFIG = {"message.timestamp.type": "LogAppendTime"}  # so that a message says when the broker stored it
_PAGE = 1000
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

    def prepare(self, target: str) -> None:
        """Make the topic or stream called ``target``."""

    def received(self, target: str) -> Received:
        """Read everything back."""

    def discard(self, target: str) -> None:
        """Delete it, for the disk's sake."""


class Kafka:
    """Apache Kafka, one node, six partitions a topic."""

    def __init__(self, stack: ExitStack) -> None:
        self.url = stack.enter_context(KafkaServer()).url
        self._admin = AdminClient({"bootstrap.servers": self.url, "log_level": 0})

    def prepare(self, target: str) -> None:
        """Make the topic."""
        self._admin.create_topics([NewTopic(target, num_partitions=_PARTITIONS, config=_CONFIG)])[target].result(30)

    def received(self, target: str) -> Received:
        """Read every partition from its beginning to its high watermark."""
        consumer = Consumer(
            {"bootstrap.servers": self.url, "group.id": "benchmark", "auto.offset.reset": "earliest", "log_level": 0},
        )
        try:
            partitions = [TopicPartition(target, number, 0) for number in range(_PARTITIONS)]
            wanted = sum(consumer.get_watermark_offsets(part, timeout=10)[1] for part in partitions)
            consumer.assign(partitions)
            return Received.of(self._ids(consumer, wanted))
        finally:
            consumer.close()

    def discard(self, target: str) -> None:
        """Delete the topic."""
        self._admin.delete_topics([target])[target].result(30)

    @staticmethod
    def _ids(consumer: Consumer, wanted: int) -> Iterator[str]:
        while wanted > 0:
            messages = consumer.consume(_PAGE, timeout=_PATIENCE)
            if not messages:
                return
            for message in messages:
                yield bytes(dict(message.headers() or [])["X-Event-ID"]).decode()
            wanted -= len(messages)


class Nats:
    """nats-server, streams on file."""

    def __init__(self, stack: ExitStack) -> None:
        self.url = stack.enter_context(NatsServer()).url

    def prepare(self, target: str) -> None:
        """Make the stream, of one subject."""
        asyncio.run(self._make(target))

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
        self.url = stack.enter_context(ValkeyServer()).url
        self._client = stack.enter_context(redis.Redis.from_url(self.url))

    def prepare(self, target: str) -> None:
        """Its first entry creates a stream."""

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


BROKERS: dict[str, type[Kafka] | type[Nats] | type[Redis]] = {"kafka": Kafka, "nats": Nats, "redis": Redis}
"""By PUBLISHER_TYPE."""
