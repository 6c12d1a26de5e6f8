"""Isolate: offer suspects group by group, over connections that carry nothing else. ``suspects`` says why and how."""

from __future__ import annotations

import asyncio
import logging

from relay.core.errors import PublisherError
from relay.engine.context import EngineContext
from relay.engine.gate import Gate
from relay.engine.publish import Offers
from relay.engine.suspects import Group
from relay.engine.waiting import wait_event

logger = logging.getLogger(__name__)

_LOOK = 0.05  # seconds between two looks at a group whose end no outcome says: its lease was lost, or it was released
_IDLE = 10.0  # seconds without suspects until their connection is closed


class Isolation:
    """One loop, ``run``; the only one that offers suspects."""

    def __init__(self, context: EngineContext, gate: Gate, offers: Offers) -> None:
        self._suspects = context.suspects
        self._options = context.options
        self._gate = gate
        self._offers = offers
        self._connected = False

    async def run(self) -> None:
        """Offer the next group once every event of the one before has its verdict, without end."""
        while True:
            if not await wait_event(self._suspects.arrived, _IDLE):
                await self._disconnect()
                await self._suspects.arrived.wait()
            await self._gate.wait_open()
            group = self._suspects.take_turn()
            if group is not None:
                await self._offer(group)

    async def _offer(self, group: Group) -> None:
        """Offer a group, and return when none of it is with the publisher or undecided."""
        batch = group.batch
        # The gate may have closed and released them while the group waited: then nothing is left to offer.
        events = batch.take_turn(group.events)
        if not events:
            return
        self._connected = True
        unreachable = await self._offers.isolate(batch, events)
        ids = {event.event_id for event in events}
        while not ids.isdisjoint(batch.offered) or any(event.event_id in ids for event, _ in batch.undecided):
            self._suspects.changed.clear()
            await wait_event(self._suspects.changed, _LOOK)
        if unreachable():
            # The broker answers probes and takes no connection more: no event is to blame, and haste would not help.
            await asyncio.sleep(self._options.connect_retry_interval)

    async def _disconnect(self) -> None:
        if self._connected:
            self._connected = False
            try:
                await self._offers.disconnect_isolated("no suspects are left")
            except PublisherError:
                logger.exception("the connection for suspects was not closed", extra={"action": "abandon_failed"})
