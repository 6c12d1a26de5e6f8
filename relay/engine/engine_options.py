"""The engine's options, parsed and checked. Times are seconds, sizes are bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relay.core.backoff import RetryPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Sizes and intervals of the loops. What a variable sets has no default here: ``relay.settings`` holds it."""

    batch_size: int
    """Maximum number of events in one claim."""
    batch_bytes: int
    """Maximum bytes of one claim, and of all events in flight: payloads, headers, keys and destinations."""
    max_in_flight: int
    """Maximum number of events that are claimed and not settled."""
    in_order: bool
    """Whether the storage claims in order per key: at most one event, or run, of each key is with the broker."""
    poll_interval: float
    """Longest wait after an empty claim."""
    lease_timeout: float
    """How long a claim or renewal is valid."""
    reap_batch_size: int
    """Maximum number of expired leases that one statement reclaims."""
    health_check_interval: float
    """Time between two probes of a broker and database that answer."""
    connect_retry_interval: float
    """Time between two probes of a broker that does not answer."""
    connection_timeout: float
    """How long connecting to the broker may take, and so a probe over a slow link; the longest of the destinations."""
    shutdown_timeout: float
    """From the order to stop until the process has ended."""
    retry: RetryPolicy
    """When a failed event is retried, and when it is dead."""
    allowed_types: Sequence[str] | None
    """Patterns of the event types that are sent; None for all."""
    probe_timeout: float = 5.0
    """How long a probe waits for the broker's answer, where connecting takes no longer."""
    sample_interval: float = 2.5
    """Time between two samples of the backlog, when they are cheap."""
