"""What the Redis publisher can be configured with, and how that becomes redis-py's connection pool."""

from __future__ import annotations

from dataclasses import dataclass, field

from redis.asyncio import ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from relay.core.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisOptions:
    """Times are seconds, sizes are bytes. What a variable sets has no default here: ``relay.settings`` holds it."""

    url: str = field(repr=False)
    """``redis://user:password@host:6379/0``, ``rediss://…`` for TLS; redis-py's parameters may stand in the query
    (``ssl_ca_certs=/etc/ca.pem``)."""
    connection_timeout: float
    """For one connection, TLS and login included."""
    write_timeout: float
    """Longest silence while replies are due, and longest wait for a full connection to take more."""
    max_pending: int = 4000
    """Most unanswered commands; beyond that ``publish`` waits."""
    max_bulk: int = 512 * 2**20
    """Largest payload; Redis takes no longer string (``proto-max-bulk-len``) and would cut the connection."""
    receipts: bool
    """Whether an acknowledgement carries the entry's id."""


def connection_pool(options: RedisOptions) -> ConnectionPool:
    """Return the factory of connections; nothing is pooled and nothing connects. Raises ConfigError."""
    try:
        pool = ConnectionPool.from_url(options.url)
        pool.connection_kwargs |= {
            "socket_connect_timeout": options.connection_timeout,
            "socket_timeout": None,  # the session watches for silence itself
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
    return pool
