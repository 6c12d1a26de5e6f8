"""Events to Redis streams: XADD, pipelined, no transaction; each command's reply is its event's own outcome.

One session carries the events. It is opened on the first publish, and again after it was lost, timed out or was
abandoned. A probe uses a short connection of its own: it does not wait behind the events, and a half-dead session
cannot answer it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from redis.asyncio import ConnectionPool
from redis.exceptions import RedisError

from relay.brokers.current_session import CurrentSession
from relay.brokers.redis.errors import unreachable
from relay.brokers.redis.options import RedisOptions, connection_pool
from relay.brokers.redis.session import RedisSession, ping
from relay.core.errors import BrokerUnreachable
from relay.core.event import OutboxEvent
from relay.core.outcome import OutcomeSink, Unreachable


class RedisPublisher:
    """Publishes over one session at a time; see the module's text."""

    name = "redis"

    def __init__(self, options: RedisOptions) -> None:
        self._options = options
        self._pool: ConnectionPool | None = None
        self._current = CurrentSession(self._connect)

    async def open(self) -> None:
        """Check the configuration. Raises ConfigError; does not connect."""
        self._connections()

    async def publish(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> None:
        """Write every event, what is left after a cut over a new connection; without one all are unreachable."""
        await self._current.offer(events, sink)

    async def probe(self, timeout: float) -> None:
        """Connect, log in, PING. An error reply other than LOADING or a refused login also counts as alive."""
        try:
            async with asyncio.timeout(timeout):
                await ping(self._connections())
        except (RedisError, OSError) as error:  # a TimeoutError is an OSError
            if isinstance(error, TimeoutError):
                raise BrokerUnreachable(f"no answer within {timeout:g} s") from None
            if reason := unreachable(error):
                raise BrokerUnreachable(reason) from None

    async def abandon(self, reason: str) -> None:
        """Cut the connection and what is buffered for it."""
        if (session := await self._current.give_up(reason)) is not None:
            session.end(Unreachable(reason))
            await session.gone()

    async def close(self) -> None:
        """Abandon what is left."""
        await self.abandon("the publisher was closed")

    def twin(self) -> RedisPublisher:
        """A publisher with connections of its own."""
        return RedisPublisher(self._options)

    def _connections(self) -> ConnectionPool:
        if self._pool is None:
            self._pool = connection_pool(self._options)
        return self._pool

    async def _connect(self) -> RedisSession:
        options = self._options
        try:
            async with asyncio.timeout(options.connection_timeout):
                return await RedisSession.connect(
                    self._connections(),
                    silence=options.write_timeout,
                    max_pending=options.max_pending,
                    max_bulk=options.max_bulk,
                    receipts=options.receipts,
                )
        except TimeoutError:
            raise BrokerUnreachable(f"no connection within {options.connection_timeout:g} s") from None
        except (RedisError, OSError) as error:
            raise BrokerUnreachable(unreachable(error) or str(error)) from None
