"""How a delivery log is laid out: the options that ``open_delivery_log`` takes and the drivers read."""

from __future__ import annotations

from dataclasses import dataclass


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
