"""The series: what this relay did, added to the table's minutes once a minute.

The decider counts verdicts, so a delivery is counted when the broker has acknowledged it; the reaper counts expired
leases. Nothing waits for the write: what cannot be written now is added to the next minute's, and what this user may
not write is dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from relay.core.errors import SchemaError, StorageError
from relay.core.optional_parts import MinuteSeries, TypeCounts
from relay.engine.context import EngineContext

logger = logging.getLogger(__name__)

_SHORTEST_WAIT = 1.0  # seconds between two writes
_AGAIN_AFTER = 15.0  # seconds, after a write that failed, and while the table is missing
_REMIND_SECONDS = 600.0


class SeriesWatch:
    """One loop, ``run``; ``leave`` at the stop."""

    def __init__(self, context: EngineContext, series: MinuteSeries | None, take_lag: Callable[[], float]) -> None:
        """``take_lag`` returns the longest lag that was sampled since it was called before."""
        self._series = series
        self._counts = context.counts
        self._take_lag = take_lag
        self._clock = context.clock
        self._since = context.clock()
        self._lag = 0.0
        self._problem = ""
        self._reminded_at = float("-inf")

    def degraded(self) -> Mapping[str, str]:
        """Why the counts cannot be written, for /readyz; empty when they can."""
        return {"series": self._problem} if self._problem else {}

    async def run(self) -> None:
        """Add the counts to each minute, without end."""
        while True:
            wait = _AGAIN_AFTER if self._series is None else await self._add(self._series)
            await asyncio.sleep(wait)

    async def leave(self) -> None:
        """Add what was counted since the last write; never raises."""
        if self._series is not None:
            await self._add(self._series)

    async def _add(self, series: MinuteSeries) -> float:
        """Returns the seconds until the next write."""
        counts, now = self._counts.take(series.most_types), self._clock()
        self._lag = max(self._lag, self._take_lag())
        try:
            wait = await series.add(counts, self._lag, now - self._since)
        except StorageError as error:
            self._failed(error, counts)
            return _AGAIN_AFTER
        self._since, self._lag, self._problem = now, 0.0, ""
        if wait is None:
            return _AGAIN_AFTER
        self._counts.begin()
        return max(wait, _SHORTEST_WAIT)

    def _failed(self, error: StorageError, counts: Sequence[TypeCounts]) -> None:
        now = self._clock()
        if isinstance(error, SchemaError):
            self._since, self._lag, self._problem = now, 0.0, str(error)
        else:
            self._counts.put_back(counts)
            self._problem = ""
        if now - self._reminded_at >= _REMIND_SECONDS:
            self._reminded_at = now
            message = "the counts of this minute cannot be written, deliveries go on: %s"
            logger.warning(message, error, extra={"action": "series_unwritten"})
