"""What the Redis publisher can be configured with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relay.brokers.login import BrokerOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisOptions(BrokerOptions):
    """Times are seconds, sizes are bytes.

    ``url`` is ``redis://user:password@host:6379/0``, ``rediss://…`` for TLS, ``redis+sentinel://…``,
    ``redis+cluster://…`` (see ``relay.brokers.redis.servers``); redis-py's parameters may stand in the query
    (``ssl_ca_certs=/etc/ca.pem``).
    """

    connection_timeout: float
    """For one connection, TLS and login included."""
    write_timeout: float
    """Longest silence while replies are due, and longest wait for a full connection to take more."""
    maxlen: int | None
    """About how many entries a stream keeps; older ones are removed, read or not. None: all of them."""
    maxlen_streams: Sequence[str] | None
    """Patterns of the streams that ``maxlen`` is for: no event's name chooses which stream loses entries."""
    allowed_types: Sequence[str]
    """Patterns of event types, which stand for ``maxlen_streams`` where that is empty."""
    wait_replicas: int
    """How many replicas must have an event before it counts as acknowledged; 0: the primary's answer is enough."""
    max_pending: int = 4000
    """Most unanswered commands; beyond that ``publish`` waits."""
    max_bulk: int = 512 * 2**20
    """Largest payload; Redis takes no longer string (``proto-max-bulk-len``) and would cut the connection."""
    receipts: bool
    """Whether an acknowledgement carries the entry's id."""
