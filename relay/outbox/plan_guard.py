"""Whether claims are guarded: those that are slow without the guard may have been planned wrongly.

The guard is two settings before the claim, in its round trip and transaction (``sql/outbox/claim.sql:guard``). At every
claim it would cost small ones a fifth of the relay's processor time. A session that plans its claims once is guarded
from its begin on (``relay.postgres.prepared``). Elsewhere, while a walk over dead entries is not cheap, every
claim has it (``PostgresOutbox``): where the planner believes that nothing waits, as after most vacuums, it takes an
index that knows no head. Else a busy machine or disk makes a claim slow, too, so one such claim says nothing: two in a
row are guarded against, for ``_TIMES`` as long as the second took. Then claims go without again; if the planner is
still wrong, slow ones take a twenty-fifth of the time.

Used by ``PostgresOutbox`` for the statements that walk the queue's index. It waits for nothing and does not fail.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

_SLOW: Final = 0.1  # seconds; a claim takes a few milliseconds where it walks its index
_TIMES: Final = 50


class ClaimGuard:
    """Learns from how long statements took."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = float("-inf")
        self._slow_before = False

    @property
    def on(self) -> bool:
        """Whether the next statement is guarded."""
        return self._clock() < self._until

    def took(self, seconds: float) -> None:
        """A statement without the guard has ended after ``seconds``."""
        if seconds <= _SLOW:
            self._slow_before = False
        elif self._slow_before:
            self._until = self._clock() + _TIMES * seconds
            self._slow_before = False
        else:
            self._slow_before = True

    def failed(self, seconds: float) -> None:
        """A statement has failed, which a wrong plan may have led to: guard the next ones at once."""
        self._until = max(self._until, self._clock() + _TIMES * max(seconds, _SLOW))

    def lift(self) -> None:
        """Nothing is left to claim, so that no plan can be slow."""
        self._until = float("-inf")
