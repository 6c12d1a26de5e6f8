"""The replicas that REDIS_WAIT_REPLICAS asks for: for ``relay-cli check``, not for publishing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from redis.exceptions import RedisError, ResponseError

from relay.brokers.kinds import CheckContext
from relay.brokers.redis.options import RedisOptions
from relay.brokers.redis.servers import RedisServers, address_of, count_replicas, disconnect
from relay.core.errors import BrokerUnreachable
from relay.core.finding import Finding, Level

_SUBJECT: Final = "replicas"


async def check(options: RedisOptions, _: Sequence[str] | None, context: CheckContext) -> list[Finding]:
    """Count the replicas of the server that a client starts with. Raises BrokerUnreachable."""
    if not options.wait_replicas:
        return []
    servers = RedisServers(options)
    try:
        async with asyncio.timeout(context.timeout):
            connection = await servers.connect(None)
            try:
                replicas = await count_replicas(connection)
            finally:
                await disconnect(connection)
    except ResponseError as error:
        advice = "grant it (ACL SETUSER name +wait), or set REDIS_WAIT_REPLICAS=0; until then its events wait"
        return [Finding(Level.ERROR, _SUBJECT, f"WAIT is refused: {error}", advice)]
    except (RedisError, OSError) as error:
        raise BrokerUnreachable(f"{servers}: {error}") from None
    wanted = options.wait_replicas
    message = f"replicas in step with {address_of(connection)}: {replicas}; REDIS_WAIT_REPLICAS={wanted}"
    if replicas >= wanted:
        return [Finding(Level.OK, _SUBJECT, message)]
    advice = "add replicas, or lower REDIS_WAIT_REPLICAS; until then its events wait"
    return [Finding(Level.ERROR, _SUBJECT, message, advice)]
