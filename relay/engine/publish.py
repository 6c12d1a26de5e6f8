"""The one who hands batches to the publisher, and takes them back.

Offering and abandoning exclude each other. When the broker is given up, the order is: stop the offer that is under
way, make the client forget what it holds, and only then release what has no outcome. Nothing is released that the
client could still send, and nothing is offered whose lease has run out by our own clock.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial

from relay.core.errors import PublisherError
from relay.core.event import OutboxEvent
from relay.core.outcome import Transient
from relay.core.ports import Publisher
from relay.engine.inflight import Batch, InFlight

logger = logging.getLogger(__name__)


class Courier:
    """Serialises ``publish`` and ``abandon`` of one publisher."""

    def __init__(self, publisher: Publisher, inflight: InFlight, clock: Callable[[], float] = time.monotonic) -> None:
        self._publisher = publisher
        self._inflight = inflight
        self._clock = clock
        self._turn = asyncio.Lock()
        self._offer: asyncio.Task[None] | None = None

    async def offer(self, batch: Batch) -> None:
        """Hand a batch to the publisher and return once its client holds it, or the offer was called off.

        A batch whose lease has run out is left to the reaper.
        """
        error: BaseException | None = None
        async with self._turn:
            if self._clock() >= batch.expires_at:
                self._inflight.forfeit(batch, list(batch.unresolved))
            if not batch.unresolved:
                return
            error = await self._publish(batch, list(batch.unresolved.values()))
        if error is not None:
            await self._failed(batch, error)

    async def follow(self, batch: Batch, events: Sequence[OutboxEvent]) -> None:
        """Hand over what comes next in its key, unless it was given back or has lost its lease meanwhile."""
        error: BaseException | None = None
        async with self._turn:
            held = [event for event in events if event.event_id in batch.unresolved]
            if self._clock() >= batch.expires_at:
                self._inflight.forfeit(batch, [event.event_id for event in held])
            elif held:
                error = await self._publish(batch, held)
        if error is not None:
            await self._failed(batch, error)

    async def _publish(self, batch: Batch, events: list[OutboxEvent]) -> BaseException | None:
        """Hand events to the publisher; what it raised, if it did. The turn is ours."""
        batch.offered_at = self._clock()
        self._offer = asyncio.ensure_future(self._publisher.publish(events, partial(self._inflight.resolve, batch)))
        try:
            await asyncio.wait({self._offer})
        finally:
            offer, self._offer = self._offer, None
            unfinished = offer.cancel()
        return None if unfinished or offer.cancelled() else offer.exception()

    async def abandon(self, reason: str) -> None:
        """Make the client forget everything without an outcome, and release it."""
        if self._offer is not None:
            self._offer.cancel()
        async with self._turn:
            self._inflight.abandoning = True
            try:
                await self._publisher.abandon(reason)
            except PublisherError:
                logger.exception("the publisher could not abandon its messages", extra={"action": "abandon_failed"})
            finally:
                self._inflight.abandoning = False
            for batch in list(self._inflight.batches):
                self._inflight.give_back(batch)

    async def _failed(self, batch: Batch, error: BaseException) -> None:
        """A publisher raised, which it should not: nobody knows what it holds, so it is made to hold nothing.

        What it had not taken counts as failed, or an event that makes it raise would come back for ever.
        """
        logger.error("the publisher failed on a batch", exc_info=error, extra={"action": "publisher_error"})
        async with self._turn:
            self._inflight.abandoning = True
            try:
                await self._publisher.abandon("the publisher failed")
            finally:
                self._inflight.abandoning = False
            reason = Transient(type(error).__name__, str(error))
            self._inflight.resolve(batch, [(event, reason) for event in batch.unresolved.values()])
