"""The engine's settings, already parsed and checked. Times are seconds, sizes bytes."""

from __future__ import annotations

from dataclasses import dataclass, field

from relay.core.backoff import RetryPolicy


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Sizes and paces of the loops; the defaults are those of CONTRACT section 5."""

    batch_size: int = 100
    """Most events in one claim."""
    batch_bytes: int = 64 * 2**20
    """Most payload bytes of one claim, and of all that is in flight."""
    max_in_flight: int = 800
    """Most events claimed and not settled."""
    in_order: bool = False
    """Of each key one event is with the broker at a time; the storage claims in order per key."""
    poll_interval: float = 0.5
    """Longest wait after an empty claim."""
    lease_timeout: float = 180.0
    """How long a claim or renewal is good for."""
    reap_batch_size: int = 100
    """Most leases taken back by one statement."""
    health_check_interval: float = 5.0
    """Between two looks at a broker and database that are well."""
    connect_retry_interval: float = 5.0
    """Between two probes of a broker that is not."""
    probe_timeout: float = 5.0
    """How long a probe waits for the broker's answer."""
    sample_interval: float = 2.5
    """Between two samples of the backlog, when they are cheap."""
    shutdown_timeout: float = 8.0
    """From the order to stop until the process is gone."""
    retry: RetryPolicy = field(default_factory=RetryPolicy)
