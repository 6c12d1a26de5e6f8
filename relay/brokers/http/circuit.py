"""A circuit for each endpoint: after several requests without an answer nothing is sent there for a while, then one.

Closed, everything passes. Open, nothing does: an event is ``Away`` at once and costs no connection. After
the pause it is half-open: one event passes at a time. An answer closes the circuit, a failure opens it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

FAILURES: Final = 5
"""Answers missing and connections cut, in a row, that open a circuit."""


class Circuit:
    """The state for one endpoint. ``clock`` is monotonic, in seconds."""

    def __init__(self, pause: float, clock: Callable[[], float]) -> None:
        self._pause = pause
        self._clock = clock
        self._in_a_row = 0
        self._opened_at: float | None = None
        self.reason = ""
        """Why it is open."""

    @property
    def open(self) -> bool:
        """Whether nothing passes."""
        return self._opened_at is not None and self._clock() - self._opened_at < self._pause

    @property
    def half_open(self) -> bool:
        """Whether one event passes at a time."""
        return self._opened_at is not None and not self.open

    def worked(self) -> None:
        """The host has answered."""
        self._in_a_row, self._opened_at = 0, None

    def failed(self, reason: str) -> None:
        """The host has not answered."""
        self._in_a_row += 1
        if self.half_open or self._in_a_row >= FAILURES:
            self._opened_at, self.reason = self._clock(), reason
