"""Publish: a batch is handed to the publisher whole, and taken back from it when that must be. Step 2.

Outcomes come back through ``Decider.resolve`` as the broker answers, so no event waits for the acknowledgement of
another one.

Offering and abandoning exclude each other. When the broker is given up, the order is: stop the offer that is under
way, make the client forget what it holds, and only then release what has no outcome. Nothing is released that the
client could still send, and nothing is offered whose lease has run out by the relay's clock.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

from relay.core.errors import PublisherError
from relay.core.event import OutboxEvent
from relay.core.outcome import Transient
from relay.engine.batch import Batch
from relay.engine.context import EngineContext
from relay.engine.decide import Decider

logger = logging.getLogger(__name__)


class Offers:
    """Serialises ``publish`` and ``abandon`` of one publisher: at most one of them runs at a time.

    Its callers are four tasks: the offer loop and the follow loop hand over, the gate and the renewer (and the stop,
    once those two are cancelled) abandon.
    """

    def __init__(self, context: EngineContext, decider: Decider) -> None:
        self._publisher = context.publisher
        self._inflight = context.inflight
        self._clock = context.clock
        self._decider = decider
        self._turn = asyncio.Lock()
        self._offer: asyncio.Task[None] | None = None
        """The ``publish`` that is under way; its owner holds the turn."""

    async def offer(self, batch: Batch) -> None:
        """Hand a batch to the publisher and return once its client holds it, or the offer was called off.

        A batch whose lease has run out is left to the reaper.
        """
        await self._hand_over(batch, None)

    async def follow(self, batch: Batch, events: Sequence[OutboxEvent]) -> None:
        """Hand over what comes next in its key, unless it was released or has lost its lease meanwhile."""
        await self._hand_over(batch, events)

    async def _hand_over(self, batch: Batch, events: Sequence[OutboxEvent] | None) -> None:
        error: BaseException | None = None
        async with self._turn:
            # While this task waited for its turn, abandon may have released events, a renewal may have lost them, and
            # their lease may have run out: what is offered is decided now, with the turn.
            candidates = list(batch.offered) if events is None else [event.event_id for event in events]
            expired = [event_id for event_id in batch.expired(candidates, self._clock()) if event_id in batch.offered]
            if expired:
                self._inflight.forfeit(batch, expired)
            held = [batch.offered[event_id] for event_id in candidates if event_id in batch.offered]
            if held:
                error = await self._publish(batch, held)
        if error is not None:
            await self._failed(batch, error)

    async def _publish(self, batch: Batch, events: list[OutboxEvent]) -> BaseException | None:
        """Hand events to the publisher; returns what it raised, if it did. The caller has the turn.

        It is a task of its own so that ``abandon``, called by another task, can cancel it without cancelling the loop
        that offers. It may also have ended meanwhile: then cancelling does nothing, and its result counts.
        """
        batch.handed_over(self._clock())
        self._offer = asyncio.ensure_future(self._publisher.publish(events, partial(self._decider.resolve, batch)))
        try:
            await asyncio.wait({self._offer})
        finally:
            offer, self._offer = self._offer, None
            unfinished = offer.cancel()
        return None if unfinished or offer.cancelled() else offer.exception()

    async def abandon(self, reason: str) -> None:
        """Make the client forget everything without an outcome, and release it."""
        if self._offer is not None:
            # The offer may wait for room in the client, for as long as the broker is away: it would never give up its
            # turn. Cancelled, it returns, and what it had not handed over stays in ``offered`` and is released below.
            self._offer.cancel()
        async with self._turn:
            with self._decider.abandoning():
                try:
                    await self._publisher.abandon(reason)
                except PublisherError:
                    logger.exception("the publisher could not abandon its messages", extra={"action": "abandon_failed"})
            # Batches that are claimed but not offered yet are released, too. The offer loop finds them empty.
            for batch in list(self._inflight.batches):
                self._inflight.release(batch)

    async def _failed(self, batch: Batch, error: BaseException) -> None:
        """A publisher raised, which it should not: what it holds is unknown, so it is made to hold nothing.

        What it had not taken counts as failed, or an event that makes it raise would come back without end.
        """
        logger.error("the publisher failed on a batch", exc_info=error, extra={"action": "publisher_error"})
        async with self._turn:
            with self._decider.abandoning():
                await self._publisher.abandon("the publisher failed")
            reason = Transient(type(error).__name__, str(error))
            self._decider.resolve(batch, [(event, reason) for event in list(batch.offered.values())])
