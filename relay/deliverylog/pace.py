"""How much of the processor the recorder leaves to the engine.

The recorder's thread and the engine's share one interpreter. While more attempts arrive than the log can take and the
queue is full, some are dropped in any case; the recorder then rests after each batch, so that it takes no more than a
share of a core, and a relay at full speed keeps its speed. While nothing is dropped, or the log can take what arrives,
it never rests.
"""

from __future__ import annotations

import time
from typing import Final

SHARE: Final = 0.02
"""Of one core, that the recorder's thread takes while it drops attempts since more arrive than the log can take."""


class Pace:
    """Belongs to the recorder's thread: it reads that thread's processor time."""

    def __init__(self) -> None:
        self._at = time.monotonic()
        self._rested = 0.0
        self._worked = time.thread_time()
        self._arrived = 0
        self._dropped = 0

    def rest(self, written: int, busy: float, arrived: int, dropped: int) -> float:
        """Seconds to rest after a batch.

        ``written`` attempts took ``busy`` seconds; ``arrived`` is the number that arrived since the start, of which
        ``dropped`` did not fit into the queue.
        """
        now, worked = time.monotonic(), time.thread_time()
        period, taken, arrivals = now - self._at, worked - self._worked, arrived - self._arrived
        awake = period - self._rested
        outrun = dropped > self._dropped and arrivals * busy > written * period
        rest = taken / SHARE - awake if outrun else 0.0
        self._at, self._rested, self._worked = now, max(rest, 0.0), worked
        self._arrived, self._dropped = arrived, dropped
        return self._rested
