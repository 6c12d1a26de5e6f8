"""Events to Redis streams: XADD, pipelined, no transaction; each command's reply is its event's own outcome.

A session is opened on the first publish, and again after it was lost, timed out, was abandoned, or met a server that
takes no writes. A cluster needs one for each of its nodes in use; see ``relay.brokers.redis.nodes``.

Where Sentinels name the primary, they also say when it is another one (``relay.brokers.redis.sentinels``): the session
with the old one ends at once, and so does an attempt to connect to it. With REDIS_WAIT_REPLICAS a session begins by
counting the replicas; where there are too few, nothing is written.

A probe uses short connections of its own. So it does not wait behind the events, a half-dead session cannot answer it,
and replies that are slow because a session has much to do are no outage: Redis serves its connections in turn. A server
that answers and takes no writes (a replica, one that is paused or loads its data, a cluster that is down) fails the
probe.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError, ResponseError

from relay.brokers.login import renewed
from relay.brokers.redis.errors import kind_of, unreachable
from relay.brokers.redis.nodes import RedisNodes
from relay.brokers.redis.options import RedisOptions
from relay.brokers.redis.sentinels import Sentinels
from relay.brokers.redis.servers import RedisServers, count_replicas, disconnect, ping
from relay.brokers.redis.session import Redirect, RedisSession, too_few
from relay.brokers.redis.shards import Answers
from relay.brokers.server_address import ServerAddress
from relay.core.durations import in_words
from relay.core.errors import BrokerUnreachable
from relay.core.event import OutboxEvent
from relay.core.outcome import Outcome, OutcomeSink, TimedOut, Unreachable
from relay.core.ports import NO_MEMBERS


class RedisPublisher:
    """Publishes over one session at a time, or one for each node of a cluster; see the module's text."""

    name = "redis"
    keeps_runs = False
    blocked = ""
    members = NO_MEMBERS

    def __init__(self, options: RedisOptions) -> None:
        self._options = options
        self._servers: RedisServers | None = None
        self._nodes = RedisNodes(self._connect, self._ask)
        self._last: RedisSession | None = None
        """The last session with the first server."""
        self._sentinels: Sentinels | None = None
        """None until the first connection."""
        self._primary: ServerAddress | None = None
        """The last one that a Sentinel has announced."""

    async def open(self) -> None:
        self._named_servers()

    async def publish(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> None:
        """Write every event, what is left after a cut over a new connection; without one all are unreachable."""
        if events:
            await self._nodes.publish(events, sink)

    async def probe(self, timeout: float) -> None:
        """Ask whether it takes writes; a cluster answers while one of its nodes in use does."""
        await self.probe_destination("", timeout)

    def destination_of(self, event: OutboxEvent) -> str:
        """The node of a cluster that has its stream, by its address, or the servers that a client starts with.

        Empty for a single server, and while no node has named another one. One that does not answer has its streams
        until another node names the next one.
        """
        if not self._nodes.owners:
            return ""
        return str(self._nodes.owner_of(event) or self._named_servers())

    async def probe_destination(self, destination: str, timeout: float) -> None:
        """As ``probe``, of one node; of one that was replaced meanwhile the first server, which names the next one."""
        nodes = self._nodes.addresses
        if destination or not nodes:
            named = (node for node in self._nodes.owners if str(node) == destination)
            await self._ping_node(next(named, None), timeout)
        else:
            await self._ping_any([None, *nodes], timeout)

    async def _ping_any(self, addresses: Sequence[ServerAddress | None], timeout: float) -> None:
        """Return with the first answer. Raises what the last node raised without one."""
        failure = BrokerUnreachable("no node is in use")
        pings = [asyncio.ensure_future(self._ping_node(address, timeout)) for address in addresses]
        try:
            for ping in asyncio.as_completed(pings):
                try:
                    return await ping
                except BrokerUnreachable as error:
                    failure = error
            raise failure
        finally:
            for each in pings:
                each.cancel()
            await asyncio.wait(pings)

    async def _ask(self, nodes: Collection[ServerAddress | None]) -> Answers:
        """See ``relay.brokers.redis.shards``. A node without an answer is forgotten."""
        asked = list({None, *self._nodes.addresses, *nodes})
        return dict(zip(asked, await asyncio.gather(*map(self._silence, asked)), strict=True))

    async def _silence(self, address: ServerAddress | None) -> str:
        """Why a node does not answer; empty when it does."""
        try:
            await self._ping_node(address, self._options.connection_timeout)
        except BrokerUnreachable as error:
            return str(error)
        return ""

    async def _ping_node(self, address: ServerAddress | None, timeout: float) -> None:
        try:
            async with asyncio.timeout(timeout):
                await self._ping(address)
        except TimeoutError:
            node = address or self._named_servers()
            raise BrokerUnreachable(f"{node}: no answer within {in_words(timeout)}") from None

    def take_back(self, reason: str) -> None:
        """Nothing waits here for long."""

    async def abandon(self, reason: str) -> None:
        await self._nodes.abandon(reason)
        if self._sentinels is not None:  # the next connection subscribes again
            await self._sentinels.close()

    async def close(self) -> None:
        await self.abandon("the publisher was closed")

    def twin(self) -> RedisPublisher:
        return RedisPublisher(self._options)

    async def _ping(self, address: ServerAddress | None) -> None:
        """Log in on a connection of its own and ask; a node that cannot be reached is forgotten."""
        try:
            connection = await self._named_servers().connect(address)
            try:
                await ping(connection, self._nodes.last_streams.get(address))
            finally:
                await disconnect(connection)
        except (RedisError, OSError) as error:
            if reason := str(error) or "no answer" if isinstance(error, TimeoutError) else unreachable(error):
                if address is not None:  # its slots may have a new primary by now, which the other nodes name
                    self._nodes.forget(address)
                with renewed(self._options):
                    raise kind_of(error)(f"{address or self._named_servers()}: {reason}") from None

    def _named_servers(self) -> RedisServers:
        if self._servers is None:
            self._servers = RedisServers(self._options)
        return self._servers

    def _moved(self, sentinel: ServerAddress, primary: ServerAddress) -> None:
        """A Sentinel says that the primary is this one now."""
        self._named_servers().prefer(sentinel)  # the others may not know it yet
        self._primary = primary
        if (session := self._nodes.first) is not None and session.address != primary:
            session.end(Unreachable(f"the Sentinels name {primary} as the primary, and no longer {session.address}"))

    async def _connect(self, address: ServerAddress | None, redirect: Redirect) -> RedisSession:
        timeout, servers = self._options.connection_timeout, self._named_servers()
        if address is None:
            if self._last is not None and isinstance(self._last.ended_as, TimedOut):
                servers.avoid(self._last.address)  # it may take connections and no writes: the others name the rest
            self._sentinels = self._sentinels or Sentinels(servers, self._moved)
            self._sentinels.start()
        announced = self._primary
        try:
            async with asyncio.timeout(timeout):
                connection = await servers.connect(address)
                ended = await self._too_few(connection)
        except TimeoutError:
            raise BrokerUnreachable(f"{address or servers}: no connection within {in_words(timeout)}") from None
        except (RedisError, OSError) as error:
            reason = unreachable(error) or str(error)
            with renewed(self._options):
                raise kind_of(error)(f"{address or servers}: {reason}") from None
        session = RedisSession(connection, self._options, redirect)
        self._last = session if address is None else self._last
        if address is None and self._primary is not announced and self._primary != session.address:
            ended = Unreachable(f"the Sentinels name another primary: {self._primary}")
        if ended is not None:
            session.end(ended)
            await disconnect(connection)
        return session

    async def _too_few(self, connection: AbstractConnection) -> Outcome | None:
        """What becomes of events while fewer replicas are in step than REDIS_WAIT_REPLICAS asks for."""
        if not self._options.wait_replicas:
            return None
        try:
            replicas = await count_replicas(connection)
        except ResponseError:  # the WAIT behind the first event says why
            return None
        except BaseException:  # cancellation too
            await disconnect(connection)
            raise
        return too_few(replicas, self._options) if replicas < self._options.wait_replicas else None
