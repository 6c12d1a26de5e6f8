"""How a delivery log is laid out, which ``open_delivery_log`` takes and the drivers read, and how it is written."""

from __future__ import annotations

from dataclasses import dataclass

from relay.deliverylog.mapping import Naming


@dataclass(frozen=True, slots=True)
class DeliveryLogOptions:
    """The options of a delivery log; each driver reads its own. The defaults are those of ``open_delivery_log``."""

    schema: str
    """PostgreSQL: the schema of the tables."""
    prefix: str
    """ClickHouse: the prefix of every table's name."""
    retention_days: int | None
    """Days to keep attempts and events; None keeps everything."""
    months_ahead: int
    """PostgreSQL: number of months after this one whose partitions are kept ready."""
    connections: int
    """PostgreSQL: maximum number of connections; ClickHouse server: maximum number of queries at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderOptions:
    """How attempts are collected and written. What a variable sets has no default here: ``relay.settings`` holds it."""

    batch_size: int
    """Maximum number of entries in one write."""
    flush_interval: float
    """Seconds that an attempt waits for its batch to fill."""
    failed_only: bool
    queue_size: int
    """Maximum number of queued attempts; further ones are dropped."""
    close_timeout: float
    """Seconds for which ``close`` continues to write."""
    naming: Naming
    queue_bytes: int = 64 * 2**20
    """Maximum size of the queued attempts' events, payloads and headers."""
    write_timeout: float = 6.0
    """Seconds after which a write has failed and is retried. It doubles, up to four times this, while writes take
    longer and the database answers, so that a slow one gets a batch written."""
    retry_interval: float = 1.0
    """Seconds between two attempts to write."""
