"""Subscriptions to the Sentinels of a service: they say at once that the primary is another one.

The old primary does not: after a failover it takes writes for some ten seconds, until a Sentinel makes it a replica,
and then loses them. Every Sentinel says it once it knows, so a subscription that is broken costs nothing while another
one lasts. Each is made again after a while, since a Sentinel that is gone in silence would look like a quiet one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from redis.exceptions import RedisError

from relay.brokers.redis.servers import RedisServers, disconnect, text
from relay.brokers.server_address import ServerAddress

_CHANNEL: Final = "+switch-master"
_LONGEST: Final = 30.0  # seconds without a message, after which a subscription is made again
_PAUSE: Final = 1.0  # seconds before a subscription that failed is made again

Moved = Callable[[ServerAddress, ServerAddress], None]
"""Takes the Sentinel that says it, and the new primary."""


class Sentinels:
    """One task for each Sentinel, from ``start`` to ``close``."""

    def __init__(self, servers: RedisServers, moved: Moved) -> None:
        self._servers = servers
        self._moved = moved
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Subscribe, unless that is done; without Sentinels nothing happens."""
        if not self._tasks:
            loop = asyncio.get_running_loop()
            self._tasks = [loop.create_task(self._follow(sentinel)) for sentinel in self._servers.sentinels]

    async def close(self) -> None:
        """End the subscriptions."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _follow(self, sentinel: ServerAddress) -> None:
        """Subscribe again and again; the body of a task."""
        while True:
            quiet = False
            # A TimeoutError is an OSError; what else is suppressed is a message that has another form.
            with suppress(RedisError, OSError, LookupError, TypeError, ValueError):
                quiet = await self._listen(sentinel)
            if not quiet:
                await asyncio.sleep(_PAUSE)

    async def _listen(self, sentinel: ServerAddress) -> bool:
        """Pass on what one subscription says; true when it said nothing for long. Raises RedisError or OSError."""
        async with asyncio.timeout(_LONGEST):
            connection = await self._servers.open_sentinel(sentinel)
        try:
            await connection.send_command("SUBSCRIBE", _CHANNEL)
            with suppress(TimeoutError):
                while True:
                    async with asyncio.timeout(_LONGEST):
                        message: Any = await connection.read_response()
                    # "message", the channel, and "service old-host old-port new-host new-port".
                    words = text(message[2]).split()
                    if text(message[0]) == "message" and words[0] == self._servers.service:
                        self._moved(sentinel, ServerAddress(words[3], int(words[4])))
            return True
        finally:
            await disconnect(connection)
