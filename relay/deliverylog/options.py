"""How a delivery log is laid out: the options that ``open_delivery_log`` takes and the drivers read."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_SCHEMA = "openoutbox_log"


@dataclass(frozen=True, slots=True)
class DeliveryLogOptions:
    """The options of a delivery log; each driver reads those that concern it."""

    schema: str = DEFAULT_SCHEMA
    """PostgreSQL: the schema of the tables."""
    prefix: str = ""
    """ClickHouse: the prefix of every table's name."""
    retention_days: int | None = None
    """Days to keep attempts and events; None keeps everything."""
    months_ahead: int = 3
    """PostgreSQL: how many months' partitions to keep ready beside this one."""
    connections: int = 4
    """PostgreSQL: most connections of this process; ClickHouse server: most queries at once."""
