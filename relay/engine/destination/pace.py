"""The rate of a destination: how many events it is offered a second, and what waits for that.

A token bucket, on a clock of the caller's. What one claim brings beyond the rate is kept, with its leases, and takes no
place of other destinations; the destination's types are left out of claims until less than a second's worth waits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_BURST: Final = 0.1  # seconds whose events may go at once
_LEAST: Final = 2.0  # events; one alone would lose what a timer is late
_GROUPED: Final = 0.01  # seconds whose events go together: each one alone would cost a timer
_AHEAD: Final = 1.0  # seconds whose events are claimed ahead


class TokenBucket:
    """A bound on one destination of one relay, all of its connections together."""

    def __init__(self, rate: float, clock: Callable[[], float]) -> None:
        """``rate`` is events a second."""
        self.rate = rate
        self._clock = clock
        self._burst = max(_LEAST, rate * _BURST)
        self._tokens = self._burst
        self._at = clock()

    def take(self, wanted: int) -> int:
        """How many of so many events may go now; they count as gone."""
        self._fill()
        taken = min(wanted, int(self._tokens))
        self._tokens -= taken
        return taken

    @property
    def wait(self) -> float:
        """Seconds until it is worth asking again; 0 where an event may go now."""
        self._fill()
        return 0.0 if self._tokens >= 1 else max((1 - self._tokens) / self.rate, _GROUPED)

    def full_for(self, waiting: int) -> float:
        """Seconds for which nothing more is claimed, while so many events wait; 0 where more may be."""
        return max(0.0, (waiting - max(1.0, self.rate * _AHEAD) + 1) / self.rate)

    def _fill(self) -> None:
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._at) * self.rate)
        self._at = now
