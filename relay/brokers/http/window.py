"""How many requests to one endpoint may be under way, each on a connection of its own: by need, and by what it takes.

    state     begins when                                            how many
    start     nothing is known, or it was not needed for 30 s        8
    growing   events wait, and the last round was not slower         one more each round
    waiting   the newest connection has not answered yet             as many as now
    refused   429 or 503                                             half, 1 at least; once for all that was under way
    slower    two rounds in a row: the median over 1.5 times the     half, 8 at least; what comes next is
              quickest round's, and 20 ms more                       what later rounds are compared with
    full      the host gives no further connection, or leaves three  as many as there are; after silence for a minute
              in a row without an answer while others have some

A round ends with as many acknowledgements as may be under way, and after 50 ms at least. Only what comes while further
events wait counts. So two things hold: it is never more than the ceiling (HTTP_CONNECTIONS_PER_HOST), and never below
8, or the ceiling if that is lower, unless the receiver itself refused more. A slow path of an endpoint therefore makes
it no narrower; a missing answer on a connection that had others does not, either: ``relay.brokers.http.host`` says when
it is blocked.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Final

_START: Final = 8
_SHORTEST_ROUND: Final = 0.05  # seconds; else a quick receiver is refused events again and again
_RISE: Final = 1.5
_SLACK: Final = 0.02  # seconds; a busy relay adds some
_RISEN_ROUNDS: Final = 2  # in a row; one alone may be this process that did not run
_NEEDED: Final = 30.0  # seconds for which the number stays without need
_FULL: Final = 60.0  # seconds; each try of one more costs an event its timeout and an attempt
REFUSALS: Final = frozenset({429, 503})
"""Statuses that ask for less."""


class RequestWindow:
    """See the module's text. Times are seconds on ``clock``."""

    def __init__(self, ceiling: int, clock: Callable[[], float]) -> None:
        self._ceiling = ceiling
        self._clock = clock
        self._least = min(_START, ceiling)
        self.size = self._least
        """How many may be under way."""
        self._needed_at = clock()
        self._narrowed_at = self._full_until = float("-inf")
        self._quickest: float
        self._risen: int
        self._forget()

    def places(self, wanted: int) -> int:
        """How many of so many may be under way now."""
        now = self._clock()
        if now - self._needed_at > _NEEDED:
            self.size = min(self.size, self._least)
            self._forget()
        if wanted >= self.size:
            self._needed_at = now
        return min(wanted, self.size)

    def answer(self, status: int, began: float, *, waiting: bool, proven: bool) -> bool:
        """Take an answer to a request that ``began``. Returns whether one more may be under way.

        ``waiting``: further events wait. ``proven``: the newest connection has answered.
        """
        if status in REFUSALS:
            if began > self._narrowed_at:
                self._narrow(max(1, self.size // 2))
            return False
        if not waiting or not 200 <= status < 300 or began <= self._narrowed_at:
            return False
        now = self._clock()
        self._taken.append(now - began)
        if len(self._taken) < self.size or now - self._round_at < _SHORTEST_ROUND:
            return False
        return self._end_round(median(self._taken), proven=proven)

    def fill(self, connections: int, *, silent: bool = False) -> None:
        """There are so many, and the host gives no further one; ``silent``: it takes them, and never answers."""
        self._narrow(max(1, min(self.size, connections)))
        if silent:
            self._full_until = self._clock() + _FULL

    def _end_round(self, taken: float, *, proven: bool) -> bool:
        self._quickest = min(self._quickest, taken)
        self._begin_round()
        if taken > self._quickest * _RISE + _SLACK:
            self._risen += 1
            if self._risen >= _RISEN_ROUNDS:
                self._narrow(max(min(self._least, self.size), self.size // 2))
                self._forget()
            return False
        self._risen = 0
        if not proven or self.size >= self._ceiling or self._clock() < self._full_until:
            return False
        self.size += 1
        return True

    def _narrow(self, size: int) -> None:
        self.size = size
        self._narrowed_at = self._clock()
        self._begin_round()

    def _forget(self) -> None:
        """Compare with what comes next."""
        self._quickest = float("inf")
        self._risen = 0
        self._begin_round()

    def _begin_round(self) -> None:
        self._taken: list[float] = []
        self._round_at = self._clock()
