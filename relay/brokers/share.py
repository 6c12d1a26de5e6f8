"""A destination's share of the event loop: half of it, once reading its answers has taken more than a moment."""

from __future__ import annotations

import time
from typing import Final

LONGEST_TURN: Final = 0.01
"""Seconds of reading after which other work of the event loop gets its turn."""


class LoopShare:
    """What reading one destination's answers has taken, and when as much time has been left to all others."""

    def __init__(self) -> None:
        self._even_at = 0.0

    def take(self, seconds: float) -> float:
        """Note the time that reading took just now. Returns for how many seconds to read no more; mostly none."""
        now = time.monotonic()
        self._even_at = max(self._even_at, now) + seconds
        return self.owed(now)

    def owed(self, now: float | None = None) -> float:
        """For how many seconds from ``now`` nothing more is read; none below a moment."""
        owed = self._even_at - (time.monotonic() if now is None else now)
        return owed if owed >= LONGEST_TURN else 0.0
