"""How far behind the upkeep of a table is: a sample that the storage reads and telemetry shows."""

from __future__ import annotations

from typing import NamedTuple


class Upkeep(NamedTuple):
    """How far behind the table's upkeep is; seconds."""

    oldest_delivered_age: float | None
    """Since the oldest DELIVERED row was delivered, 0.0 when there is none: older than retained, prune does not run.
    None when it was not read in time."""
    horizon_held: float
    """For which vacuum could not remove dead rows, 0.0 when it can."""
