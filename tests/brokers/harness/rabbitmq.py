"""A real RabbitMQ node of the suite's own, which may be paused and restarted."""

from __future__ import annotations

import uuid
from contextlib import AbstractContextManager
from typing import Any

from relay.brokers.rabbitmq.publisher import RabbitPublisher
from tests.brokers.harness.base import Features, ServerHarness, StoredMessage
from tests.support.options import rabbit_options
from tests.support.rabbitmq import RabbitAdmin
from tests.support.servers.rabbitmq import RabbitServer


class RabbitHarness(ServerHarness):
    """One quorum queue a destination; the node takes messages of up to a megabyte."""

    features = Features(
        hangs=True,
        stops=True,
        missing_destination="NO_ROUTE",
        invalid_names=("x" * 256, "ü" * 128),
        too_large=2_000_000,
    )

    def __init__(self, server: RabbitServer) -> None:
        super().__init__(server)
        self._server = server

    def publisher(self, **options: Any) -> RabbitPublisher:
        return RabbitPublisher(rabbit_options(**({"url": self.url} | options)))

    def block(self) -> AbstractContextManager[None]:
        return self._server.without_memory()

    async def destination(self) -> str:
        name = f"conformance.{uuid.uuid4().hex[:12]}"
        with RabbitAdmin(self._server.url) as admin:
            admin.declare(name, {"x-queue-type": "quorum"})
        return name

    async def read(self, destination: str, count: int) -> list[StoredMessage]:
        with RabbitAdmin(self._server.url) as admin:
            messages = admin.read(destination, count)
        return [
            StoredMessage(
                message.message_id,
                message.headers.pop("X-Partition-Key", None),
                message.body,
                [*message.headers.items()],
            )
            for message in messages
        ]
