"""How long a probe may wait for its answer: short while that is enough, as long as connecting may take where it is not.

A probe often needs a connection of its own, and over a slow link that takes many round trips. A probe of a broker that
is away starts with a short deadline, so that one that hung for a moment is found soon; each that runs into it doubles
the next, up to the longest connection timeout of the destinations. While the broker answers, a probe may take twice as
long as the last one did, 5 s at least.
"""

from __future__ import annotations

_GRACE = 1.0  # seconds a probe may take beyond the interval, for a login that needs many round trips
_NEARLY = 0.9  # of a deadline, from which on the deadline and not the broker ended a probe


class ProbeTime:
    """The deadlines of the probes of one broker or destination, in seconds."""

    def __init__(self, usual: float, interval: float, connection_timeout: float) -> None:
        """``interval`` is the time between two probes of a broker that is away."""
        self._usual = usual
        self._longest = max(usual, connection_timeout)
        self._first = min(usual, interval + _GRACE)
        self.away = self._first
        """Of a broker that does not answer."""
        self.flowing = usual
        """Of one that does."""

    def note_answer(self, seconds: float) -> None:
        """A probe was answered after that long."""
        self.away = self._first
        self.flowing = min(self._longest, max(self._usual, 2 * seconds))

    def note_silence(self, seconds: float) -> None:
        """A probe ended without an answer after that long."""
        if seconds >= _NEARLY * self.away:
            self.away = min(self._longest, 2 * self.away)
