"""How far behind the present the head stays: behind it, the rows of late commits are met by the next claim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

MARGIN: Final = 2.0
"""Most seconds before the present that the head does not enter."""
SHORTEST_MARGIN: Final = 0.1
"""Seconds, where many rows are claimed."""
_FEW_ENTRIES: Final = 100  # in the margin: they cost a claim nothing that can be seen
_MOST_ENTRIES: Final = 500
_PACE_SECONDS: Final = 2.0  # over which the pace of claims is measured
_AGE_SECONDS: Final = 10.0  # to 20, over which the age of claimed rows is remembered


class Margin:
    """Follows the pace of claims, and how late the rows were that they met."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pace = 0.0
        self._paced_at = clock()
        self._ages = (MARGIN, MARGIN)
        self._aged_at = clock()

    @property
    def seconds(self) -> float:
        """Twice the age of the oldest row that claims met of late, so that they meet the next one like it.

        Within what a number of rows allows: each is an entry that the next claims step over.
        """
        if not self._pace:
            return MARGIN
        few, most = _FEW_ENTRIES / self._pace, _MOST_ENTRIES / self._pace
        return min(MARGIN, max(SHORTEST_MARGIN, few, min(2 * max(self._ages), most)))

    def claimed(self, rows: int) -> None:
        """Claims took so many more."""
        now = self._clock()
        elapsed = now - self._paced_at
        if elapsed < _PACE_SECONDS / 4:
            self._pace += rows / _PACE_SECONDS
        else:
            self._pace = (self._pace + rows / _PACE_SECONDS) * max(1 - elapsed / _PACE_SECONDS, 0.0)
            self._paced_at = now

    def met(self, age: float) -> None:
        """Claims met a row that was due for so many seconds."""
        now = self._clock()
        if now >= self._aged_at + _AGE_SECONDS:
            self._ages, self._aged_at = (0.0, self._ages[0]), now
        self._ages = (max(self._ages[0], age), self._ages[1])
