"""The pump: claim and offer, overlapping. ``claim -> offer -> (outcomes) -> settle`` is the way of every event.

Two loops with a queue of one between them: while one batch is being handed to the publisher, the next is being
claimed and the ones before are being acknowledged and settled. A full claim is followed by the next at once; a
partial one shortly after; empty ones ever later, up to the poll interval, or at once when somebody says that there is
something (``wake``).

A lone event on its last attempt travels alone: what is in flight is finished first, and nothing is claimed until it
is settled. An event that kills its relays would else take neighbours with it to DEAD.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable

from relay.core.errors import StorageBusy, StorageError
from relay.core.event import Claim
from relay.core.ports import OutboxStorage
from relay.core.telemetry import Telemetry
from relay.engine.gate import Gate
from relay.engine.health import Condition
from relay.engine.inflight import Batch, InFlight
from relay.engine.options import EngineOptions
from relay.engine.publish import Courier
from relay.engine.waiting import Patience, wait_event

_FIRST_POLL = 0.005  # seconds between claims while events trickle in
_SMALLEST_SHARE = 8  # wait for an eighth of a batch's room rather than claim event by event


class Pump:
    """Moves rows from the table to the publisher. Two loops: ``claim_loop`` and ``offer_loop``."""

    def __init__(
        self,
        storage: OutboxStorage,
        gate: Gate,
        courier: Courier,
        inflight: InFlight,
        condition: Condition,
        telemetry: Telemetry,
        options: EngineOptions,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._storage = storage
        self._gate = gate
        self._courier = courier
        self._inflight = inflight
        self._condition = condition
        self._telemetry = telemetry
        self._options = options
        self._clock = clock
        self._claimed: asyncio.Queue[Batch] = asyncio.Queue(maxsize=1)
        self._stopping = asyncio.Event()
        self._roused = asyncio.Event()
        """Ends the rest between two claims: a wake-up, or the end."""
        self._poll = _FIRST_POLL
        self.claiming = False
        """A claim is under way: its reply may bring events."""
        self.last_claim_at = float("-inf")
        """When a claim last succeeded, by the clock; minus infinity before the first."""

    def stop(self) -> None:
        """Claim no more. A claim under way is still waited for by its loop, and its events offered or released."""
        self._stopping.set()
        self._roused.set()

    def wake(self) -> None:
        """There may be something to claim."""
        self._poll = _FIRST_POLL
        self._roused.set()

    async def claim_loop(self) -> None:
        """Claim while there is something to claim, room for it, and a broker to offer it to."""
        patience = Patience()
        while not self._stopping.is_set():
            if not await self._may_claim():
                continue
            try:
                claimed = await self._claim()
            except StorageError as error:
                if not isinstance(error, StorageBusy):
                    self._condition.storage_failed("claim", error)
                await patience.pause()
                continue
            patience.reset()
            await self._rest(claimed)
        # From here on the loop is over, but a supervisor takes an ended loop for a dead one.
        await asyncio.Event().wait()

    async def offer_loop(self) -> None:
        """Offer each claimed batch, or give it back when the gate closed meanwhile."""
        while True:
            batch = await self._claimed.get()
            while batch.last_chance and len(self._inflight.batches) > 1:
                self._inflight.changed.clear()
                await wait_event(self._inflight.changed, 0.05)
            if self._gate.is_open:
                await self._courier.offer(batch)
            else:
                self._inflight.give_back(batch)

    async def follow_loop(self) -> None:
        """In order per key: offer the next event of each key whose last one was acknowledged.

        While the gate is closed they stay where they are: whoever closed it gives them back.
        """
        while True:
            await self._inflight.following.wait()
            for batch, events in self._inflight.take_followers().items():
                if self._gate.is_open:
                    await self._courier.follow(batch, events)

    async def _may_claim(self) -> bool:
        """Wait for the gate and for room; False when the wait ended without both."""
        if not self._gate.is_open:
            opened = asyncio.ensure_future(self._gate.wait_open())
            stopped = asyncio.ensure_future(self._stopping.wait())
            await asyncio.wait({opened, stopped}, return_when=asyncio.FIRST_COMPLETED)
            opened.cancel()
            stopped.cancel()
            return False
        if self._inflight.careful or not self._has_room():
            self._inflight.changed.clear()
            await wait_event(self._inflight.changed, self._options.poll_interval)
            return False
        return True

    def _has_room(self) -> bool:
        events, payload_bytes = self._inflight.room()
        enough = max(1, self._options.batch_size // _SMALLEST_SHARE)
        return events >= min(enough, self._options.max_in_flight) and payload_bytes >= self._options.batch_bytes // 2

    async def _claim(self) -> int:
        """One claim; returns how full it was, as events, or -1 for a claim that filled all it asked for."""
        events, payload_bytes = self._inflight.room()
        limit = min(events, self._options.batch_size)
        sent_at = self._clock()
        self.claiming = True
        ok = False
        try:
            claim = await self._storage.claim(limit, payload_bytes)
            ok = True
            self._condition.storage_worked("claim")
            self.last_claim_at = self._clock()
            await self._accept(claim, sent_at)
        finally:
            self.claiming = False
            if not ok:
                self._telemetry.storage_op("claim", ok=False, seconds=self._clock() - sent_at)
        return -1 if len(claim.events) == limit else len(claim.events)

    async def _accept(self, claim: Claim, sent_at: float) -> None:
        self._telemetry.storage_op("claim", ok=True, seconds=self._clock() - sent_at)
        self._telemetry.claimed(len(claim.events))
        if claim.fence is not None and claim.events:
            lone = len(claim.events) == 1
            failed = claim.events[0].attempts
            last_chance = lone and failed > 0 and self._options.retry.exhausted(failed + 1)
            batch = Batch(
                claim.fence,
                claim.events,
                sent_at,
                self._options.lease_timeout,
                last_chance=last_chance,
                in_order=self._options.in_order,
            )
            self._inflight.add(batch)
            await self._claimed.put(batch)

    async def _rest(self, claimed: int) -> None:
        """The pause that follows a claim: none, short, or growing to the poll interval."""
        if claimed < 0:
            self._poll = _FIRST_POLL
            return
        if claimed:
            self._poll = _FIRST_POLL
        delay = min(self._poll, self._options.poll_interval) * (0.9 + 0.1 * random.random())
        self._poll = min(self._poll * 2, self._options.poll_interval)
        if await wait_event(self._roused, delay):
            self._roused.clear()
