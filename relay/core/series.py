"""What relays count, minute by minute, and the port that takes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class TypeCounts(NamedTuple):
    """What a relay decided about the events of one type; of an empty type: about those of all others."""

    event_type: str
    delivered: int
    failed: int
    """Attempts."""
    dead: int


class MinuteSeries(Protocol):
    """What the relays of the table did, minute by minute."""

    @property
    def most_types(self) -> int:
        """Event types with counts of their own in one ``add``."""

    async def add(self, counts: Sequence[TypeCounts], lag: float, gathered: float) -> float | None:
        """Add what was counted in the last ``gathered`` seconds, and the longest lag of that time.

        Returns the seconds until the next minute begins; None without the extension. Raises StorageError.
        """
