"""Events to Redis streams: XADD, pipelined, no transaction; each command's reply is its event's own outcome.

One connection carries the events, made on the first publish and again after it was lost, timed out or abandoned.
Probes use a short connection of their own, so that they neither wait behind the events nor are fooled by a
connection that only looks alive.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from redis.asyncio import ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from relay.brokers.connecting import OneConnection
from relay.brokers.redis.session import Wire, ping, unreachable
from relay.core.errors import BrokerUnreachable, ConfigError
from relay.core.event import OutboxEvent
from relay.core.outcome import OutcomeSink, Unreachable


@dataclass(frozen=True, slots=True)
class RedisOptions:
    """Times are seconds, sizes are bytes."""

    url: str = field(repr=False)
    """``redis://user:password@host:6379/0``, ``rediss://…`` for TLS; redis-py's parameters may stand in the query
    (``ssl_ca_certs=/etc/ca.pem``)."""
    connection_timeout: float = 5.0
    """For one connection, TLS and login included."""
    write_timeout: float = 1.0
    """Longest silence while replies are due, and longest wait for a full connection to take more."""
    max_pending: int = 4000
    """Most unanswered commands; beyond that ``publish`` waits."""
    max_bulk: int = 512 * 2**20
    """Largest payload; Redis takes no longer string (``proto-max-bulk-len``) and would cut the connection."""
    receipts: bool = False
    """Whether an acknowledgement carries the entry's id."""


class RedisPublisher:
    """Publishes over one connection at a time; see the module's text."""

    name = "redis"

    def __init__(self, options: RedisOptions) -> None:
        self._options = options
        self._pool: ConnectionPool | None = None
        self._connection = OneConnection(self._connect)

    async def open(self) -> None:
        """Check the configuration. Raises ConfigError; connects to nobody yet."""
        self._made_pool()

    async def publish(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> None:
        """Write every event; without a connection all of them are unreachable at once."""
        if not events:
            return
        try:
            wire = await self._connection.get()
        except BrokerUnreachable as error:
            lost = Unreachable(str(error))
            sink([(event, lost) for event in events])
        else:
            await wire.offer(events, sink)

    async def probe(self, timeout: float) -> None:
        """Connect, log in, PING. An error reply other than LOADING or a refused login is a sign of life too."""
        try:
            async with asyncio.timeout(timeout):
                await ping(self._made_pool())
        except (RedisError, OSError) as error:  # a TimeoutError is an OSError
            if isinstance(error, TimeoutError):
                raise BrokerUnreachable(f"no answer within {timeout:g} s") from None
            if reason := unreachable(error):
                raise BrokerUnreachable(reason) from None

    async def abandon(self, reason: str) -> None:
        """Cut the connection and what is buffered for it."""
        if (wire := await self._connection.give_up(reason)) is not None:
            wire.end(Unreachable(reason))
            await wire.gone()

    async def close(self) -> None:
        """Abandon what is left."""
        await self.abandon("the publisher was closed")

    def _made_pool(self) -> ConnectionPool:
        """Where connections come from; nothing is pooled. Raises ConfigError."""
        if self._pool is None:
            options = self._options
            try:
                pool = ConnectionPool.from_url(options.url)
                pool.connection_kwargs |= {
                    "socket_connect_timeout": options.connection_timeout,
                    "socket_timeout": None,  # the wire watches for silence itself
                    "socket_keepalive": True,
                    "decode_responses": False,
                    "encoding": "utf-8",
                    "health_check_interval": 0,
                    "retry": Retry(NoBackoff(), 0),  # a repeat inside the library could overtake or double events
                    "retry_on_timeout": False,
                }
                pool.make_connection()  # type: ignore[no-untyped-call]
            except (ValueError, TypeError, RedisError) as error:
                raise ConfigError(f"PUBLISHER_URL is not usable for Redis: {error}") from None
            self._pool = pool
        return self._pool

    async def _connect(self) -> Wire:
        options = self._options
        try:
            async with asyncio.timeout(options.connection_timeout):
                return await Wire.connect(
                    self._made_pool(),
                    silence=options.write_timeout,
                    max_pending=options.max_pending,
                    max_bulk=options.max_bulk,
                    receipts=options.receipts,
                )
        except TimeoutError:
            raise BrokerUnreachable(f"no connection within {options.connection_timeout:g} s") from None
        except (RedisError, OSError) as error:
            raise BrokerUnreachable(unreachable(error) or str(error)) from None
