"""The example consumers of each broker, as processes that are killed and replaced while they work."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, cast

import nats
import redis
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig

from tests.cli.running import environment
from tests.support.fixtures.kafka import create_topic
from tests.support.paths import ROOT
from tests.support.waiting import patience

GROUP = "revenue"
"""The examples' group of consumers, and the name of their marks."""
_AGAIN_AFTER = 2.0  # seconds after which NATS and Redis deliver again what a consumer has not acknowledged


class Consumed(Protocol):
    """A destination of the relay, and what the example that consumes it needs to know."""

    kind: str
    url: str
    topic: str

    def variables(self) -> dict[str, str]:
        """Of the example, beside the database and the topic."""

    def is_consumed(self) -> bool:
        """Whether every message was delivered to the group and acknowledged."""


class ConsumedKafka:
    """A topic with four partitions."""

    kind = "kafka"

    def __init__(self, url: str) -> None:
        self.url = url
        self.topic = create_topic(AdminClient({"bootstrap.servers": url}), f"inbox.{uuid.uuid4().hex[:12]}", 4)

    def variables(self) -> dict[str, str]:
        return {"KAFKA": self.url}

    def is_consumed(self) -> bool:
        consumer = Consumer({"bootstrap.servers": self.url, "group.id": GROUP, "enable.auto.commit": False})
        try:
            partitions = [TopicPartition(self.topic, number) for number in range(4)]
            ends = [consumer.get_watermark_offsets(each, timeout=patience())[1] for each in partitions]
            return [each.offset for each in consumer.committed(partitions, timeout=patience())] == ends
        finally:
            consumer.close()


class ConsumedNats:
    """A stream that keeps repeats, and the example's durable consumer with a short deadline for acknowledgements."""

    kind = "nats"

    def __init__(self, url: str) -> None:
        self.url = url
        self._stream = f"inbox{uuid.uuid4().hex[:12]}"
        self.topic = f"{self._stream}.event"
        asyncio.run(self._with_jetstream(self._create))

    def variables(self) -> dict[str, str]:
        return {"NATS": self.url}

    def is_consumed(self) -> bool:
        info = asyncio.run(self._with_jetstream(lambda jetstream: jetstream.consumer_info(self._stream, GROUP)))
        return (info.num_pending, info.num_ack_pending) == (0, 0)

    async def _create(self, jetstream: JetStreamContext) -> None:
        await jetstream.add_stream(name=self._stream, subjects=[self.topic], duplicate_window=0.1)
        config = ConsumerConfig(
            durable_name=GROUP, filter_subject=self.topic, ack_policy=AckPolicy.EXPLICIT, ack_wait=_AGAIN_AFTER
        )
        await jetstream.add_consumer(self._stream, config)

    async def _with_jetstream(self, work: Any) -> Any:
        client = await nats.connect(self.url)
        try:
            return await work(client.jetstream())
        finally:
            await client.close()


class ConsumedRedis:
    """A stream of the shared Valkey."""

    kind = "redis"

    def __init__(self, url: str) -> None:
        self.url = url
        self.topic = f"inbox.{uuid.uuid4().hex[:12]}"

    def variables(self) -> dict[str, str]:
        return {"REDIS": self.url, "CLAIM_AFTER_MS": str(round(_AGAIN_AFTER * 1000))}

    def is_consumed(self) -> bool:
        with redis.Redis.from_url(self.url, protocol=2) as client:
            (group,) = cast("list[dict[str, int]]", client.xinfo_groups(self.topic))
            return (group["lag"], group["pending"]) == (0, 0)


class ExampleConsumers:
    """Some processes of one example; what all of them have printed is kept."""

    def __init__(self, consumed: Consumed, database_url: str, folder: Path, count: int) -> None:
        self._command = [sys.executable, str(ROOT / "examples" / f"consumer_{consumed.kind}.py")]
        self._variables = {"DATABASE_URL": database_url, "TOPIC": consumed.topic, **consumed.variables()}
        self._folder = folder
        self._logs: list[Path] = []
        self._processes = [self._start() for _ in range(count)]
        self.kills = 0

    def kill_one(self) -> None:
        """SIGKILL to the one that has worked longest, and a new one in its place."""
        process = self._processes.pop(0)
        assert process.poll() is None, self.said()
        process.kill()
        process.wait(patience())
        self._processes.append(self._start())
        self.kills += 1

    def kill_all(self) -> None:
        """SIGKILL to all."""
        for process in self._processes:
            process.kill()
            process.wait(patience())

    def said(self) -> str:
        """All that they have printed. Fails if one ended that was not killed."""
        text = "".join(log.read_text(errors="replace") for log in self._logs)
        assert all(process.poll() is None for process in self._processes), text[-4000:]
        return text

    def _start(self) -> subprocess.Popen[bytes]:
        with tempfile.NamedTemporaryFile(dir=self._folder, suffix=".log", delete=False) as log:
            self._logs.append(Path(log.name))
            return subprocess.Popen(
                self._command,
                env=environment(**self._variables),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )


@contextmanager
def example_consumers(
    consumed: Consumed, database_url: str, folder: Path, count: int = 2
) -> Iterator[ExampleConsumers]:
    """``count`` of them until the end of the block."""
    consumers = ExampleConsumers(consumed, database_url, folder, count)
    try:
        yield consumers
    finally:
        consumers.kill_all()
