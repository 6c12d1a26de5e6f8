"""The backlog: how many events wait, and for how long.

Counting may be slow where millions of rows wait, so the sampler spends a twentieth of its time on it at most; the lag
alone is a probe of one index entry and stays fresh.
"""

from __future__ import annotations

import asyncio
import logging

from relay.core.errors import StorageError
from relay.core.ports import Backlog
from relay.engine.context import EngineContext

logger = logging.getLogger(__name__)

_CHEAP_SECONDS = 0.05  # one that took longer is not read on demand
_PATIENCE_SECONDS = 0.8
_REMIND_SECONDS = 10.0
_SHARE = 20  # a sample that took t seconds is not repeated before t times this


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
        self.latest: Backlog | None = None
        """The last full sample."""

    @property
    def sample_age(self) -> float:
        """Seconds since ``latest`` was read."""
        return self._clock() - self._sampled_at

    async def refresh(self) -> None:
        """Read the backlog again, unless that is expensive. Raises nothing, waits a second at most.

        For a person who asks for /stats, and would be puzzled by numbers that are seconds old.
        """
        if self._took > _CHEAP_SECONDS or self._health.storage_error:
            return
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                # Shielded: a reader who leaves must not cut off the statement, and with it the connection that reaps.
                await asyncio.shield(asyncio.ensure_future(self._sample_quietly()))
        except TimeoutError:
            self._say_slow()

    def _say_slow(self) -> None:
        """Once in a while: reading the numbers every second must not fill the log."""
        now = self._clock()
        if now - self._said_slow_at >= _REMIND_SECONDS:
            self._said_slow_at = now
            logger.info("the backlog is slow to read; showing the last sample", extra={"action": "stats_slow"})

    async def run(self) -> None:
        """Sample without end, at the options' interval where that is cheap."""
        next_full = float("-inf")
        while True:
            started = self._clock()
            try:
                if started >= next_full:
                    await self._sample()
                    took = self._clock() - started
                    next_full = started + max(self._options.sample_interval, took * _SHARE)
                else:
                    self._telemetry.oldest_due_age(await self._storage.oldest_due_age())
            except StorageError as error:
                self._telemetry.storage_op("stats", ok=False, seconds=self._clock() - started)
                self._health.storage_failed("stats", error)
            took = self._clock() - started
            await asyncio.sleep(max(self._options.sample_interval, took * _SHARE))

    async def _sample(self) -> None:
        async with self._sampling:  # the loop and any number of readers: one statement at a time
            started = self._clock()
            backlog = await self._storage.backlog()
            self.latest, self._sampled_at = backlog, self._clock()
            self._took = self._sampled_at - started
        self._telemetry.backlog(backlog)
        self._telemetry.storage_op("stats", ok=True, seconds=self._took)

    async def _sample_quietly(self) -> None:
        try:
            await self._sample()
        except StorageError as error:
            logger.debug("the backlog could not be read: %s", error)  # ``run`` reports it to the health
