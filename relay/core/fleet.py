"""The times of a fleet's heartbeats and the comparison of destinations, for writers and readers of the list."""

from __future__ import annotations

from typing import Final

HEARTBEAT: Final = 5.0
"""Seconds between two heartbeats of a relay."""
LIVING: Final = 30.0
"""Seconds after its last heartbeat for which a relay counts as living: six of them may be lost."""
FORGOTTEN: Final = 600.0
"""Seconds after which the row of a relay that is gone is deleted."""


def same_destination(one: str, other: str) -> bool:
    """Whether two relays of one type deliver to one destination: their lists of fingerprints share a server.

    A server belongs to one cluster. Lists without a common server differ, also where they name one cluster.
    ``join`` in ``sql/outbox/fleet.sql`` compares in the same way.
    """
    return not set(one.split()).isdisjoint(other.split())
