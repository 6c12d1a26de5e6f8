"""The fleet: this relay's row among the table's relays, written every five seconds, never in the way of delivery.

A relay joins before it claims; it is refused when a living relay of the table delivers elsewhere. Whatever else fails,
the right, the connection, the database, costs a log line. What differs between living relays is said, and how long the
longest lease is, the storage knows from there for its reaper.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from relay.core.errors import SchemaError, StorageError
from relay.core.heartbeats import HEARTBEAT, LIVING, heartbeat_reason
from relay.core.optional_parts import Fleet, Heartbeat
from relay.core.outside import shown
from relay.core.proofs import Proofs
from relay.core.telemetry import RelayState
from relay.engine.context import EngineContext
from relay.engine.pauses import PauseWatch
from relay.engine.waiting import Patience

logger = logging.getLogger(__name__)

_JOIN_WITHIN = 10.0  # seconds; then the relay starts, and joins with its first heartbeat
_REMIND_SECONDS = 60.0
_MINUTE = 60.0
_MOST_NAMED = 10  # destinations


class FleetWatch:
    """``join`` once, then one loop, ``run``; ``leave`` at the stop."""

    def __init__(
        self,
        context: EngineContext,
        fleet: Fleet | None,
        pauses: PauseWatch,
        settled: Callable[[], tuple[int, int]],
        troubles: Callable[[], Mapping[str, str]],
    ) -> None:
        """``settled`` returns how many deliveries and failures were written since the start, ``troubles`` the
        destinations that do not flow.
        """
        self._troubles = troubles
        self._refused_rows = context.refused_rows
        self._away = context.away
        self._fleet = fleet
        self._pauses = pauses
        self._settled = settled
        self._health = context.health
        self._inflight = context.inflight
        self._clock = context.clock
        self._samples = deque([(context.clock(), 0, 0)], maxlen=int(_MINUTE / HEARTBEAT) + 1)
        self._proofs = context.publisher if isinstance(context.publisher, Proofs) else None
        self._read_at = float("-inf")
        self._problem = ""
        self._differences: Sequence[str] = ()
        self._reminded_at = float("-inf")

    async def join(self) -> None:
        """Join. Raises ConfigError when a living relay of the table delivers to another destination."""
        if self._fleet is None:
            return
        patience = Patience(first=0.2, longest=2.0)
        deadline = self._clock() + _JOIN_WITHIN
        while True:
            try:
                await self._fleet.join()
            except StorageError as error:
                if isinstance(error, SchemaError) or self._clock() > deadline:
                    self._failed(self._fleet, error)
                    return
                await patience.pause()
            else:
                self._compare_proofs(self._fleet)
                return

    async def run(self) -> None:
        """Write heartbeats without end."""
        while True:
            if self._fleet is not None:
                await self._beat(self._fleet)
            await asyncio.sleep(HEARTBEAT)

    async def leave(self) -> None:
        """Delete the row; never raises. Without it the relay counts as living for a while."""
        if self._fleet is not None:
            try:
                await self._fleet.leave()
            except StorageError as error:
                logger.debug("%s", error)

    async def _beat(self, fleet: Fleet) -> None:
        try:
            differences = await fleet.beat(self._heartbeat())
        except StorageError as error:
            self._failed(fleet, error)
            return
        self._compare_proofs(fleet)
        if differences != self._differences:
            self._differences = differences
            for difference in differences:
                message = "the relays of this table differ: %s; relay-cli fleet lists them"
                logger.warning(message, difference, extra={"action": "fleet_differs"})

    def degraded(self) -> Mapping[str, str]:
        """Why the list cannot be written, for /readyz; empty when it can."""
        return {"fleet": self._problem} if self._problem else {}

    def _compare_proofs(self, fleet: Fleet) -> None:
        self._read_at, self._problem = self._clock(), ""
        if self._proofs is not None:
            self._proofs.beside(fleet.without_proofs)

    def _heartbeat(self) -> Heartbeat:
        now, (delivered, failed) = self._clock(), self._settled()
        since, delivered_before, failed_before = self._samples[0]
        self._samples.append((now, delivered, failed))
        seconds = max(now - since, 1.0)
        health, everything = self._health, self._pauses.everything
        troubles = dict(islice(self._troubles().items(), _MOST_NAMED))
        beside = [*self._refused_rows.degraded().values(), *self._away.degraded(self._troubles()).values()]
        degraded = shown(heartbeat_reason(troubles, beside))
        state, reason = health.state.name.lower(), health.storage_error or degraded or health.broker_error
        if health.state is RelayState.ACTIVE and everything is not None:
            state, reason = "paused", str(everything)
        return Heartbeat(
            state,
            reason,
            (delivered - delivered_before) / seconds,
            (failed - failed_before) / seconds,
            self._inflight.events,
            len(self._pauses.in_force),
        )

    def _failed(self, fleet: Fleet, error: StorageError) -> None:
        self._problem = str(error) if isinstance(error, SchemaError) else ""
        now = self._clock()
        # Who was read last may be gone, and another relay may have come. Those without proofs still count.
        if self._proofs is not None and not fleet.without_proofs and now - self._read_at >= LIVING:
            self._proofs.beside(None)
        if now - self._reminded_at >= _REMIND_SECONDS:
            self._reminded_at = now
            message = "the list of relays cannot be written, deliveries go on: %s"
            logger.warning(message, error, extra={"action": "fleet_unwritten"})
