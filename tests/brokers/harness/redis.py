"""A real Valkey of the suite's own, which may be paused and restarted."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from relay.brokers.redis.publisher import RedisPublisher
from tests.brokers.harness.base import Features, ServerHarness, StoredMessage
from tests.support.options import redis_options
from tests.support.servers.valkey import ValkeyServer


class RedisHarness(ServerHarness):
    """One stream a destination; the first entry creates a stream, and any name is one."""

    features = Features(receipts=True, hangs=True, stops=True, too_large=2_000_000)

    def __init__(self, server: ValkeyServer) -> None:
        super().__init__(server)
        self._server = server

    def publisher(self, **options: Any) -> RedisPublisher:
        defaults: dict[str, Any] = {"url": self.url, "max_bulk": 1_000_000}
        return RedisPublisher(redis_options(**(defaults | options)))

    @contextmanager
    def block(self) -> Iterator[None]:
        with Redis.from_url(self._server.url) as client:
            client.execute_command("CLIENT", "PAUSE", 600_000, "WRITE")
            try:
                yield
            finally:
                client.execute_command("CLIENT", "UNPAUSE")

    async def destination(self) -> str:
        return f"conformance.{uuid.uuid4().hex[:12]}"

    async def read(self, destination: str, count: int) -> list[StoredMessage]:
        async with AsyncRedis.from_url(self._server.url) as client:
            entries: Any = await client.xrange(destination, count=count)
        assert len(entries) == count
        return [_message(fields) for _, fields in entries]


def _message(fields: dict[bytes, bytes]) -> StoredMessage:
    key = fields.get(b"partition_key")
    headers = [(name.decode()[2:], value.decode()) for name, value in fields.items() if name.startswith(b"h:")]
    expected = {b"id", b"payload", b"partition_key"}
    assert all(name in expected or name.startswith(b"h:") for name in fields)
    return StoredMessage(fields[b"id"].decode(), None if key is None else key.decode(), fields[b"payload"], headers)
