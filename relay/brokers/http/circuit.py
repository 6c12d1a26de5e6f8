"""A circuit for each host: after several failures in a row nothing is sent there for a while, then one event is.

Closed, everything passes. Open, nothing does: an event for that host is ``Away`` at once and costs no connection. After
the pause one event passes as a probe (half-open); its answer closes the circuit, its failure opens it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

FAILURES: Final = 5
"""Connections refused, handshakes failed and answers missing, in a row, that open a circuit."""


class Circuit:
    """The state for one host. ``clock`` is monotonic, in seconds."""

    def __init__(self, pause: float, clock: Callable[[], float]) -> None:
        self._pause = pause
        self._clock = clock
        self._in_a_row = 0
        self._opened_at: float | None = None
        self._probing = False
        self.reason = ""
        """Why it is open."""

    def admit(self) -> bool:
        """Whether an event may be sent now. Half-open, True makes that event the probe: its outcome must be noted."""
        if self._opened_at is None:
            return True
        if self._probing or self._clock() - self._opened_at < self._pause:
            return False
        self._probing = True
        return True

    def worked(self) -> None:
        """The host has answered."""
        self._in_a_row, self._opened_at, self._probing = 0, None, False

    def failed(self, reason: str) -> None:
        """The host could not be reached, or has not answered."""
        self._in_a_row += 1
        if self._probing or self._in_a_row >= FAILURES:
            self._opened_at, self._probing, self.reason = self._clock(), False, reason

    def give_back(self) -> None:
        """The probe was abandoned: the next event is the probe."""
        self._probing = False
