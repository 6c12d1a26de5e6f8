"""The renewer: prolongs the leases of what is still in flight, a third of the lease after the last time.

A batch whose lease ran out by our own clock while the database could not be asked is given up: the client must
forget it before somebody else gets it. Its rows are left to the reaper.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from relay.core.errors import StorageBusy, StorageError
from relay.core.ports import OutboxStorage
from relay.core.telemetry import Telemetry
from relay.engine.health import Condition
from relay.engine.inflight import Batch, InFlight
from relay.engine.options import EngineOptions
from relay.engine.publish import Courier

logger = logging.getLogger(__name__)


class Renewer:
    """One loop, ``run``; the only one that calls ``renew``."""

    def __init__(
        self,
        storage: OutboxStorage,
        inflight: InFlight,
        courier: Courier,
        condition: Condition,
        telemetry: Telemetry,
        options: EngineOptions,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._storage = storage
        self._inflight = inflight
        self._courier = courier
        self._condition = condition
        self._telemetry = telemetry
        self._lease = options.lease_timeout
        self._clock = clock
        self._tick = min(options.lease_timeout / 24, 1.0)

    async def run(self) -> None:
        """Renew what is due, for ever; at once, and everything, when the database is back from an outage."""
        while True:
            await asyncio.sleep(self._tick)
            if self._condition.renewal_owed and self._condition.settle_owed:
                self._inflight.settleable.set()  # outcomes come first; waking the settler is what pays that debt
            await self._round()

    async def _round(self) -> None:
        everything = self._condition.renewal_owed and not self._condition.settle_owed
        now = self._clock()
        complete = True
        for batch in list(self._inflight.batches):
            if batch.writing or batch.empty:
                complete = complete and not batch.writing
            elif everything or now >= batch.renew_at:
                complete = await self._renew(batch) and complete
        if everything and complete and not self._condition.storage_error:
            self._condition.renewal_owed = False

    async def _renew(self, batch: Batch) -> bool:
        """Renew one batch; says whether the database could be asked."""
        event_ids = batch.held_ids()
        sent_at = self._clock()
        batch.writing = True
        ok = False
        try:
            renewal = await self._storage.renew(batch.fence, event_ids)
            ok = True
        except StorageError as error:
            if not isinstance(error, StorageBusy):
                self._condition.storage_failed("renew", error)
        else:
            self._condition.storage_worked("renew")
            batch.leased(renewal.fence, sent_at, self._lease)
            lost = [event_id for event_id in event_ids if event_id not in renewal.held]
            if lost:
                logger.warning("lost the lease of %d events", len(lost), extra={"action": "lease_lost"})
                self._inflight.forfeit(batch, lost)
        finally:
            self._telemetry.storage_op("renew", ok=ok, seconds=self._clock() - sent_at)
            self._inflight.written(batch)
        if not ok and self._clock() >= batch.expires_at and batch.unresolved:
            await self._courier.abandon("the lease ran out while the database could not be reached")
        return ok
