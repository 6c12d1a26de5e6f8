"""The reaper: takes back expired leases, each as a failed attempt (CONTRACT section 2, invariant 4).

It looks more often than it must, and once it has found something it goes on without pause until nothing is left.
After an outage of the database it waits until this relay's own outcomes are written and its leases renewed.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable

from relay.core.errors import StorageBusy, StorageError
from relay.core.ports import OutboxStorage, Reaped
from relay.core.telemetry import Telemetry
from relay.engine.health import Condition
from relay.engine.options import EngineOptions

logger = logging.getLogger(__name__)

_LATEST = 10.0  # seconds after an expiry in which taking back must have begun


class Reaper:
    """One loop, ``run``; the only one that calls ``reap``."""

    def __init__(
        self,
        storage: OutboxStorage,
        condition: Condition,
        telemetry: Telemetry,
        options: EngineOptions,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._storage = storage
        self._condition = condition
        self._telemetry = telemetry
        self._limit = options.reap_batch_size
        self._clock = clock
        self._interval = 0.7 * min(_LATEST, options.lease_timeout / 4)

    async def run(self) -> None:
        """Reap, wait, for ever."""
        while True:
            interval = self._interval
            if self._condition.may_reap:
                await self._reap_all()
            else:
                interval = min(interval, 0.5)
            await asyncio.sleep(interval * (0.9 + 0.1 * random.random()))

    async def _reap_all(self) -> None:
        taken_back = Reaped(0, 0)
        try:
            while (reaped := await self._reap()) is not None:
                taken_back = Reaped(taken_back.retried + reaped.retried, taken_back.buried + reaped.buried)
                if reaped.retried + reaped.buried < self._limit:
                    return
        finally:
            if any(taken_back):
                logger.warning(
                    "took back %d expired leases, %d of them dead now",
                    taken_back.retried + taken_back.buried,
                    taken_back.buried,
                    extra={"action": "leases_reaped", "retried": taken_back.retried, "dead": taken_back.buried},
                )

    async def _reap(self) -> Reaped | None:
        """One statement; None when it failed."""
        started = self._clock()
        ok = False
        try:
            reaped = await self._storage.reap(self._limit)
            ok = True
        except StorageError as error:
            if not isinstance(error, StorageBusy):
                self._condition.storage_failed("reap", error)
            return None
        finally:
            self._telemetry.storage_op("reap", ok=ok, seconds=self._clock() - started)
        self._condition.storage_worked("reap")
        if any(reaped):
            self._telemetry.reaped(*reaped)
        return reaped
