"""A real Valkey of the suite's own, which may be paused and restarted, and a cluster of them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import cycle
from typing import Any

from redis.asyncio import Redis as AsyncRedis

from relay.brokers.null import NullPublisher
from relay.brokers.redis.publisher import RedisPublisher
from relay.conformance.harness import TROUBLES
from relay.core.ports import Publisher
from tests.brokers.harness.base import Cutting, Features, ServerHarness, StoredMessage, in_trouble
from tests.support.options import redis_options
from tests.support.servers.tcp_proxy import TcpProxy
from tests.support.servers.valkey import ValkeyServer
from tests.support.servers.valkey_groups import ValkeyCluster, ask


class RedisHarness(ServerHarness):
    """One stream a destination; the first entry creates a stream, and any name is one."""

    features = Features(receipts=True, hangs=True, stops=True, too_large=2_000_000)

    def __init__(self, server: ValkeyServer, others: Sequence[ValkeyServer] = ()) -> None:
        super().__init__(server, others=others)
        self._server = server

    def publisher(self, **options: Any) -> RedisPublisher:
        defaults: dict[str, Any] = {"url": self.url, "max_bulk": 1_000_000}
        return RedisPublisher(redis_options(**(defaults | options)))

    def block(self) -> AbstractContextManager[None]:
        return _pausing_writes([self._server])

    async def destination(self) -> str:
        return f"conformance.{uuid.uuid4().hex[:12]}"

    def _server_of(self, _destination: str) -> ValkeyServer:
        return self._server

    async def read(self, destination: str, count: int) -> list[StoredMessage]:
        async with AsyncRedis.from_url(self._server_of(destination).url) as client:
            entries: Any = await client.xrange(destination, count=count)
        assert len(entries) == count
        return [_message(fields) for _, fields in entries]


class RedisClusterHarness(RedisHarness):
    """Destinations are on the shards in turn. Clients reach each node through a proxy, whose address the node tells."""

    def __init__(self, cluster: ValkeyCluster, proxies: Sequence[TcpProxy]) -> None:
        super().__init__(cluster.nodes[0], cluster.nodes[1:])
        self._cluster = cluster
        self._proxies = proxies
        self._turns = cycle(cluster.nodes)

    @property
    def url(self) -> str:
        return f"redis+cluster://{self._address or ','.join(f'127.0.0.1:{one.port}' for one in self._proxies)}"

    def block(self) -> AbstractContextManager[None]:
        return _pausing_writes(self._cluster.nodes)

    @contextmanager
    def trouble(self, trouble: str) -> Iterator[tuple[Publisher, Publisher]]:
        if trouble in ("blocks", "no DNS"):
            with super().trouble(trouble) as both:
                yield both
        else:
            with in_trouble(trouble, self._proxies):
                yield self.publisher(), NullPublisher()

    @property
    def part_troubles(self) -> Sequence[str]:
        return [one for one in TROUBLES if one != "no DNS"]

    @contextmanager
    def part_trouble(self, trouble: str, destination: str) -> Iterator[Publisher]:
        node = self._server_of(destination)
        proxy = self._proxies[self._cluster.nodes.index(node)]
        with _pausing_writes([node]) if trouble == "blocks" else in_trouble(trouble, [proxy]):
            yield self.publisher()

    @contextmanager
    def cutting(self, mark: bytes) -> Iterator[Publisher]:
        for proxy in self._proxies:
            proxy.tap = Cutting(mark)
        try:
            yield self.publisher()
        finally:
            for proxy in self._proxies:
                proxy.tap = None

    async def destination(self) -> str:
        node = next(self._turns)
        while self._server_of(name := await super().destination()) is not node:
            pass
        return name

    def start(self) -> None:
        super().start()
        self._cluster.wait_agreed()

    def _server_of(self, destination: str) -> ValkeyServer:
        return self._cluster.owner(destination)


@contextmanager
def _pausing_writes(servers: Sequence[ValkeyServer]) -> Iterator[None]:
    for server in servers:
        ask(server, "CLIENT", "PAUSE", 600_000, "WRITE")
    try:
        yield
    finally:
        for server in servers:
            ask(server, "CLIENT", "UNPAUSE")


def _message(fields: dict[bytes, bytes]) -> StoredMessage:
    key = fields.get(b"partition_key")
    headers = [(name.decode()[2:], value.decode()) for name, value in fields.items() if name.startswith(b"h:")]
    expected = {b"id", b"payload", b"partition_key"}
    assert all(name in expected or name.startswith(b"h:") for name in fields)
    return StoredMessage(fields[b"id"].decode(), None if key is None else key.decode(), fields[b"payload"], headers)
