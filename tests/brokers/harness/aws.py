"""Moto's server of the suite's own, which may be paused and restarted: an emulator of SQS and SNS."""

from __future__ import annotations

import asyncio
import base64
import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from relay.brokers.aws.publisher import AwsPublisher
from relay.core.ports import Publisher
from tests.brokers.harness.base import NEVER, SLOW, Features, Marking, ServerHarness, StoredMessage
from tests.support.aws import AwsAdmin, ReadMessage
from tests.support.options import aws_options
from tests.support.servers.aws import AwsServer, publisher_url

_OWN = ("X-Event-ID", "X-Payload-Encoding", "X-More-Headers")


class SqsHarness(ServerHarness):
    """One FIFO queue a destination: a standard queue promises no order. The emulator forgets its queues at a stop."""

    kind = "sqs"
    features = Features(
        receipts=True,
        hangs=True,
        stops=True,
        missing_destination="NonExistentQueue",
        invalid_names=("", ".fifo", "a b", "ünï", "a*", "x" * 81),
        too_large=2_000_000,
        big_batch=300,
        parts=True,
    )

    def __init__(self, server: AwsServer) -> None:
        super().__init__(server)
        self._server = server
        self._names: list[str] = []

    def publisher(self, **options: Any) -> AwsPublisher:
        url = publisher_url(self.kind, self.url)
        return AwsPublisher(aws_options(**({"url": url} | options)))

    @property
    def part_troubles(self) -> Sequence[str]:
        return ["hangs", "slow"]

    @contextmanager
    def part_trouble(self, trouble: str, destination: str) -> Iterator[Publisher]:
        with self._behind_proxy() as proxy:
            proxy.tap = tap = Marking(destination, cut=False)
            proxy.slow_links, proxy.delay = tap.links, {"hangs": NEVER, "slow": SLOW}[trouble]
            yield self._at(f"127.0.0.1:{proxy.port}")

    async def destination(self) -> str:
        self._names.append(f"conformance-{uuid.uuid4().hex[:12]}.fifo")
        await asyncio.to_thread(self._create, self._names[-1])
        return self._names[-1]

    async def read(self, destination: str, count: int) -> list[StoredMessage]:
        messages = await asyncio.to_thread(AwsAdmin(self._server.url).read, destination, count)
        return [decode(message) for message in messages]

    def start(self) -> None:
        super().start()
        for name in self._names:
            self._create(name)

    def _create(self, name: str) -> None:
        AwsAdmin(self._server.url).create_queue(name)


class SnsHarness(SqsHarness):
    """One FIFO topic a destination, read through a queue that is subscribed to it."""

    kind = "sns"
    features = Features(
        receipts=True,
        hangs=True,
        stops=True,
        missing_destination="NotFound",
        invalid_names=("", ".fifo", "a b", "ünï", "a*", "x" * 257),
        too_large=2_000_000,
        big_batch=300,
        parts=True,
    )

    @property
    def part_troubles(self) -> Sequence[str]:
        return ["hangs"]  # the emulator stores a FIFO topic's messages too slowly to time others beside a slow one

    def _create(self, name: str) -> None:
        AwsAdmin(self._server.url).create_topic(name)


def decode(message: ReadMessage) -> StoredMessage:
    """A message as docs/reference/messages.md tells a consumer to read it."""
    attributes = message.attributes
    assert len(attributes) <= 10
    more = json.loads(attributes.get("X-More-Headers", "{}"))
    headers = {name: value for name, value in attributes.items() if name not in _OWN} | more
    encoding = attributes.get("X-Payload-Encoding")
    payload = {None: message.body.encode, "empty": bytes, "base64": lambda: base64.b64decode(message.body)}[encoding]()
    return StoredMessage(attributes["X-Event-ID"], headers.pop("X-Partition-Key", None), payload, [*headers.items()])
