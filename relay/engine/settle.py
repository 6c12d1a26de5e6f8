"""The settler: writes verdicts back, those of all batches that have some in one go.

While one write is under way the next verdicts gather, so its size follows the load by itself. Verdicts outlive a
lost connection: they wait, and are written before anything else when the database is back. A row that the database
refuses to change (a user's trigger or constraint) is found by halving, and in the end left to its lease, so that it
cannot hold up the others.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator

from relay.core.errors import SchemaError, StorageBusy, StorageError, StorageUnavailable
from relay.core.ports import OutboxStorage, Settled, Settlement
from relay.core.telemetry import Telemetry
from relay.engine.health import Condition
from relay.engine.inflight import Batch, InFlight
from relay.engine.waiting import Patience

logger = logging.getLogger(__name__)

_MOST_REFUSALS = 5  # tries to settle one event before it is left to its lease

Work = list[tuple[Batch, Settlement]]


class Settler:
    """One loop, ``run``; the only one that calls ``settle``."""

    def __init__(
        self,
        storage: OutboxStorage,
        inflight: InFlight,
        condition: Condition,
        telemetry: Telemetry,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._storage = storage
        self._inflight = inflight
        self._condition = condition
        self._telemetry = telemetry
        self._clock = clock

    async def run(self) -> None:
        """Write verdicts as they come, for ever."""
        patience = Patience(longest=1.0)
        while True:
            await self._inflight.settleable.wait()
            work = self._inflight.take_settleable()
            try:
                await self._write_all(work)
                patience.reset()
            except StorageError as error:
                if not isinstance(error, StorageBusy):
                    self._condition.storage_failed("settle", error)
                await patience.pause()
                self._inflight.settleable.set()

    async def _write_all(self, work: Work) -> None:
        try:
            self._leave_expired(work)
            present = [(batch, settlement) for batch, settlement in work if len(settlement)]
            if present:
                await self._write(present)
            self._condition.settle_owed = False
        finally:
            for batch, _ in work:
                self._inflight.written(batch)

    def _leave_expired(self, work: Work) -> None:
        """An expired lease is left to the reaper, never released: somebody else may be about to hold the event."""
        now = self._clock()
        for batch, settlement in work:
            if settlement.released and now >= batch.expires_at:
                left, settlement.released = settlement.released, []
                self._inflight.forfeit(batch, left)

    async def _write(self, work: Work) -> None:
        started = self._clock()
        settlements = [settlement for _, settlement in work]
        try:
            results = await self._storage.settle(settlements)
        except StorageError as error:
            self._report(settlements, ok=False, seconds=self._clock() - started)
            if _blames_a_row(error):
                await self._write_apart(work)
                return
            self._put_back(work, ambiguous=isinstance(error, StorageUnavailable))
            raise
        self._condition.storage_worked("settle")
        self._report(settlements, ok=True, seconds=self._clock() - started)
        for (batch, settlement), settled in zip(work, results, strict=True):
            self._finish(batch, settlement, settled)

    async def _write_apart(self, work: Work) -> None:
        """Write in ever smaller parts, until only the rows that the database refuses are left."""
        waiting = list(work)
        refused: Work = []
        last_error: StorageError | None = None
        while waiting:
            batch, settlement = waiting.pop()
            try:
                [settled] = await self._storage.settle([settlement])
            except StorageError as error:
                if not _blames_a_row(error):
                    unavailable = isinstance(error, StorageUnavailable)
                    self._put_back([*waiting, (batch, settlement)], ambiguous=unavailable)
                    self._put_back(refused, ambiguous=False)
                    raise
                if len(settlement) > 1:
                    waiting.extend((batch, half) for half in _halves(settlement))
                elif not self._left_to_lease(batch, settlement, error):
                    refused.append((batch, settlement))
                    last_error = error
            else:
                self._finish(batch, settlement, settled)
        if last_error is not None:
            self._put_back(refused, ambiguous=False)
            raise StorageBusy(str(last_error), last_error.sqlstate)

    def _left_to_lease(self, batch: Batch, settlement: Settlement, error: StorageError) -> bool:
        """Count a refusal of a single row; after the last one forget it, and let its lease expire."""
        [event_id] = settlement.event_ids()
        refusals = batch.refusals[event_id] = batch.refusals.get(event_id, 0) + 1
        if refusals < _MOST_REFUSALS:
            return False
        logger.error(
            "the database refuses to settle event %s: %s; its lease will expire",
            event_id,
            error,
            extra={"action": "settle_refused", "event_id": event_id},
        )
        self._inflight.settled(batch, settlement)
        return True

    @staticmethod
    def _put_back(work: Work, *, ambiguous: bool) -> None:
        for batch, settlement in work:
            batch.put_back(settlement)
            batch.ambiguous |= ambiguous

    def _finish(self, batch: Batch, settlement: Settlement, settled: Settled) -> None:
        """Account for verdicts that are written; those that found no row of ours came too late."""
        lost = len(settlement) - settled.total
        if lost and batch.ambiguous:
            # The earlier try, whose reply was lost, was carried out: these rows are as we wanted them.
            settled = Settled(
                len(settlement.delivered), len(settlement.retried), len(settlement.buried), len(settlement.released)
            )
        elif lost:
            self._telemetry.leases_lost(lost)
        batch.ambiguous = False
        self._telemetry.settled(settled.delivered, settled.retried + settled.buried)
        if settled.released:
            self._telemetry.released(settled.released)
        self._inflight.settled(batch, settlement)

    def _report(self, settlements: list[Settlement], *, ok: bool, seconds: float) -> None:
        if any(settlement.delivered for settlement in settlements):
            self._telemetry.storage_op("mark_delivered", ok=ok, seconds=seconds)
        if any(settlement.retried or settlement.buried for settlement in settlements):
            self._telemetry.storage_op("mark_failed", ok=ok, seconds=seconds)
        if any(settlement.released for settlement in settlements):
            self._telemetry.storage_op("release", ok=ok, seconds=seconds)


def _blames_a_row(error: StorageError) -> bool:
    """Whether a statement failed for what it was to write, rather than for the state of the database."""
    return not isinstance(error, StorageUnavailable | StorageBusy | SchemaError)


def _halves(settlement: Settlement) -> Iterator[Settlement]:
    """Two settlements of the same fence that together are ``settlement``, which has two verdicts at least."""
    first_half = set(settlement.event_ids()[: len(settlement) // 2])
    for wanted in (True, False):
        yield Settlement(
            settlement.fence,
            [event_id for event_id in settlement.delivered if (event_id in first_half) is wanted],
            [entry for entry in settlement.retried if (entry[0] in first_half) is wanted],
            [entry for entry in settlement.buried if (entry[0] in first_half) is wanted],
            [event_id for event_id in settlement.released if (event_id in first_half) is wanted],
        )
