"""The backlog: how many events wait, and for how long.

Counting may be slow where millions of rows wait, so the sampler spends a fortieth of its time on it at most; the lag
alone is a probe of one index entry and stays fresh. A count that passes its deadline at a server that answers is tried
again later, and says nothing about the database: the sample before it stands, with its age.
"""

from __future__ import annotations

import asyncio
import logging

from relay.core.errors import StorageError, StorageTimeout
from relay.core.storage import READING_SHARE, Backlog
from relay.engine.context import EngineContext

logger = logging.getLogger(__name__)

_CHEAP_SECONDS = 0.05  # one that took longer is not read on demand
_PATIENCE_SECONDS = 0.8
_REMIND_SECONDS = 10.0
_UPKEEP_SECONDS = 60.0  # retention is counted in days, a horizon that matters in minutes


class BacklogSampler:
    """One loop, ``run``; ``refresh`` is for readers of the last sample."""

    def __init__(self, context: EngineContext) -> None:
        self._storage = context.storage
        self._health = context.health
        self._telemetry = context.telemetry
        self._options = context.options
        self._clock = context.clock
        self._sampled_at = float("-inf")
        self._took = 0.0
        self._said_slow_at = float("-inf")
        self._sampling = asyncio.Lock()
        self._next: asyncio.Task[None] | None = None
        """The full sample that has not begun yet; the loop and any number of readers wait for the same one."""
        self._longest_due = 0.0
        self.latest: Backlog | None = None
        """The last full sample."""

    @property
    def sample_age(self) -> float:
        """Seconds since ``latest`` was read."""
        return self._clock() - self._sampled_at

    def take_longest_due(self) -> float:
        """The longest lag of the samples since this was called before."""
        longest, self._longest_due = self._longest_due, 0.0
        return longest

    async def refresh(self) -> None:
        """Read the backlog again, unless that is expensive. Raises nothing, waits a second at most.

        For a person who reads /stats, and would be puzzled by numbers from before. Readers that come together share
        one statement, which begins after the last of them came.
        """
        if self._took > _CHEAP_SECONDS or self._health.storage_error:
            return
        # Not cancelled with a reader who leaves: that would cut off the statement, and the connection that reaps.
        done, _ = await asyncio.wait({self._next_sample()}, timeout=_PATIENCE_SECONDS)
        if not done:
            self._say_slow()

    def _say_slow(self) -> None:
        """Once in a while: reading the numbers every second must not fill the log."""
        now = self._clock()
        if now - self._said_slow_at >= _REMIND_SECONDS:
            self._said_slow_at = now
            logger.info("the backlog is slow to read; showing the last sample", extra={"action": "stats_slow"})

    async def run(self) -> None:
        """Sample without end, at the options' interval where that is cheap."""
        next_full = next_upkeep = float("-inf")
        interval = self._options.sample_interval
        while True:
            started = self._clock()
            full = started >= next_full
            try:
                if full:
                    await asyncio.shield(self._next_sample())
                else:
                    age = await self._storage.oldest_due_age()
                    self._telemetry.oldest_due_age(age)
                    self._longest_due = max(self._longest_due, age)
            except StorageError as error:
                self._failed(error, self._clock() - started)
            took = self._clock() - started
            if full:
                next_full = started + max(interval, took / READING_SHARE)
            if started >= next_upkeep:
                next_upkeep = started + max(_UPKEEP_SECONDS, await self._sample_upkeep() / READING_SHARE)
            await asyncio.sleep(interval if full else max(interval, took / READING_SHARE))

    def _failed(self, error: StorageError, seconds: float) -> None:
        self._telemetry.storage_op("stats", ok=False, seconds=seconds)
        if isinstance(error, StorageTimeout) and error.server_answers:
            self._took = seconds
            self._say_slow()
        else:
            self._health.storage_failed("stats", error)

    async def _sample_upkeep(self) -> float:
        """Read how far prune and vacuum are behind; returns the seconds it took.

        It may be slow where a transaction holds the xmin horizon, or run into its deadline. That says nothing about the
        work, so it is not the relay's state.
        """
        started = self._clock()
        try:
            self._telemetry.upkeep(await self._storage.upkeep())
        except StorageError as error:
            logger.debug("how far prune and vacuum are behind could not be read: %s", error)
        return self._clock() - started

    def _next_sample(self) -> asyncio.Task[None]:
        """A sample that begins after this call."""
        if self._next is None:
            self._next = asyncio.ensure_future(self._sample_in_turn())
            self._next.add_done_callback(_take_error)
        return self._next

    async def _sample_in_turn(self) -> None:
        async with self._sampling:  # one statement at a time
            # From here on it is under way: what is inserted now may be missed, so a later reader needs a later sample.
            self._next = None
            await self._sample()

    async def _sample(self) -> None:
        started = self._clock()
        backlog = await self._storage.backlog()
        self.latest, self._sampled_at = backlog, self._clock()
        self._took = self._sampled_at - started
        self._telemetry.backlog(backlog)
        self._longest_due = max(self._longest_due, backlog.oldest_due_age)
        self._telemetry.storage_op("stats", ok=True, seconds=self._took)


def _take_error(sample: asyncio.Task[None]) -> None:
    """Take a reader's failed sample, so that asyncio does not report it as lost: ``run`` reports its own."""
    if not sample.cancelled() and sample.exception() is not None:
        logger.debug("the backlog could not be read: %s", sample.exception())
