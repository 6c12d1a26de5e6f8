"""Events to Redis streams: XADD, pipelined, no transaction; each command's reply is its event's own outcome.

A session is opened on the first publish, and again after it was lost, timed out, was abandoned, or met a server that
takes no writes. A cluster needs one for each of its nodes in use; see ``relay.brokers.redis.nodes``.

A probe uses short connections of its own. So it does not wait behind the events, a half-dead session cannot answer it,
and replies that are slow because a session has much to do are no outage: Redis serves its connections in turn. A server
that answers and takes no writes (a replica, one that is paused or loads its data, a cluster that is down) fails the
probe.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from redis.exceptions import RedisError

from relay.brokers.redis.errors import kind_of, unreachable
from relay.brokers.redis.nodes import RedisNodes
from relay.brokers.redis.options import RedisOptions
from relay.brokers.redis.servers import RedisAddress, RedisServers, disconnect, ping
from relay.brokers.redis.session import Redirect, RedisSession
from relay.core.errors import BrokerUnreachable
from relay.core.event import OutboxEvent
from relay.core.outcome import OutcomeSink


class RedisPublisher:
    """Publishes over one session at a time, or one for each node of a cluster; see the module's text."""

    name = "redis"
    keeps_runs = False
    blocked = ""

    def __init__(self, options: RedisOptions) -> None:
        self._options = options
        self._servers: RedisServers | None = None
        self._nodes = RedisNodes(self._connect)

    async def open(self) -> None:
        """Check the configuration. Raises ConfigError; does not connect."""
        self._named_servers()

    async def publish(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> None:
        """Write every event, what is left after a cut over a new connection; without one all are unreachable."""
        if events:
            await self._nodes.publish(events, sink)

    async def probe(self, timeout: float) -> None:
        """Ask the first server, and each node of a cluster in use, whether it takes writes."""
        await self.probe_destination("", timeout)

    def destination_of(self, event: OutboxEvent) -> str:
        """The node of a cluster that has its stream, by its address, or the servers that a client starts with.

        Empty for a single server, and while no node has named another one.
        """
        if not self._nodes.addresses:
            return ""
        return str(self._nodes.node_of(event) or self._named_servers())

    async def probe_destination(self, destination: str, timeout: float) -> None:
        """As ``probe``, of one node; of one that was replaced meanwhile the first server, which names the next one."""
        nodes = self._nodes.addresses
        asked = (
            [None, *nodes] if not destination else [next((node for node in nodes if str(node) == destination), None)]
        )
        try:
            async with asyncio.timeout(timeout):
                for address in asked:
                    await self._ping_node(address)
        except TimeoutError:
            raise BrokerUnreachable(f"{self._named_servers()}: no answer within {timeout:g} s") from None

    async def _ping_node(self, address: RedisAddress | None) -> None:
        try:
            await self._ping(address)
        except (BrokerUnreachable, TimeoutError):
            if address is not None:  # its slots may have a new primary by now, which the other nodes name
                self._nodes.forget(address)
            raise

    def take_back(self, reason: str) -> None:
        """Nothing waits here for long."""

    async def abandon(self, reason: str) -> None:
        """Cut the connections and what is buffered for them."""
        await self._nodes.abandon(reason)

    async def close(self) -> None:
        """Abandon what is left."""
        await self.abandon("the publisher was closed")

    def twin(self) -> RedisPublisher:
        """A publisher with connections of its own."""
        return RedisPublisher(self._options)

    async def _ping(self, address: RedisAddress | None) -> None:
        """Log in on a connection of its own and ask. Raises BrokerUnreachable, TimeoutError when cancelled by one."""
        try:
            connection = await self._named_servers().connect(address)
            try:
                await ping(connection, self._nodes.last_streams.get(address))
            finally:
                await disconnect(connection)
        except (RedisError, OSError) as error:
            if isinstance(error, TimeoutError):
                raise
            if reason := unreachable(error):
                raise kind_of(error)(f"{address or self._named_servers()}: {reason}") from None

    def _named_servers(self) -> RedisServers:
        if self._servers is None:
            self._servers = RedisServers(self._options)
        return self._servers

    async def _connect(self, address: RedisAddress | None, redirect: Redirect) -> RedisSession:
        timeout = self._options.connection_timeout
        try:
            async with asyncio.timeout(timeout):
                connection = await self._named_servers().connect(address)
        except TimeoutError:
            raise BrokerUnreachable(f"{address or self._named_servers()}: no connection within {timeout:g} s") from None
        except (RedisError, OSError) as error:
            reason = unreachable(error) or str(error)
            raise kind_of(error)(f"{address or self._named_servers()}: {reason}") from None
        return RedisSession(connection, self._options, redirect)
