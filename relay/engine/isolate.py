"""Isolate: offer suspects group by group, over connections that carry nothing else. ``suspects`` says why and how."""

from __future__ import annotations

import asyncio

from relay.engine.batch import SLOW
from relay.engine.context import EngineContext
from relay.engine.gate import Gate
from relay.engine.publish import Offers
from relay.engine.suspects import LANES, Turn
from relay.engine.waiting import wait_event

_LOOK = 0.05  # seconds between two looks at a turn whose end no outcome says: its lease was lost, or it was released
_IDLE = 10.0  # seconds without suspects until their connections are closed


class Isolation:
    """One loop, ``run``; the only one that offers suspects."""

    def __init__(self, context: EngineContext, gate: Gate, offers: Offers) -> None:
        self._suspects = context.suspects
        self._options = context.options
        self._clock = context.clock
        self._gate = gate
        self._offers = offers
        self._turns: dict[int, Turn] = {}
        """The turns that have not ended, by lane."""
        self._connected: set[int] = set()

    async def run(self) -> None:
        """Offer the next group once the one before is answered or slow, without end."""
        while True:
            if not await wait_event(self._suspects.arrived, _IDLE):
                await self._disconnect()
                await self._suspects.arrived.wait()
            await self._gate.wait_open()
            lane = self._free_lane()
            if lane is None:
                await self._wait_for_change()
            elif (turn := self._suspects.take_turn()) is not None:
                await self._offer(lane, turn)

    def _free_lane(self) -> int | None:
        for lane, turn in list(self._turns.items()):
            if turn.ended:
                self._suspects.end_turn(self._turns.pop(lane))
        return next((lane for lane in range(LANES) if lane not in self._turns), None)

    async def _offer(self, lane: int, turn: Turn) -> None:
        """Offer a group, and return when it is answered or slow."""
        self._turns[lane] = turn
        self._connected.add(lane)
        slow_at = self._clock() + SLOW
        await self._offers.isolate(lane, turn)
        while not turn.ended and self._clock() < slow_at:
            await self._wait_for_change()
        if turn.unreachable:
            # The broker answers probes and takes no connection more: no event is to blame, and haste would not help.
            await asyncio.sleep(self._options.connect_retry_interval)

    async def _wait_for_change(self) -> None:
        self._suspects.changed.clear()
        await wait_event(self._suspects.changed, _LOOK)

    async def _disconnect(self) -> None:
        self._free_lane()
        for lane in self._connected - self._turns.keys():
            self._connected.discard(lane)
            await self._offers.disconnect_isolated(lane)
