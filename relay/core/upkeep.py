"""How far behind the upkeep of a table is, and which times are wrong: a sample of the storage, for telemetry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Upkeep(NamedTuple):
    """How far behind the table's upkeep is; seconds."""

    oldest_delivered_age: float | None
    """Since the oldest DELIVERED row was delivered, 0.0 when there is none: older than retained, prune does not run.
    None when it was not read in time."""
    horizon_held: float
    """For which vacuum could not remove dead rows, 0.0 when it can."""
    ahead: Mapping[str, int] | None = None
    """Rows whose time is ahead of the database's clock, by column; None when they were not read in time."""
