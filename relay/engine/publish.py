"""Publish: hand a whole batch to the publisher, and take it back when the broker is given up. Step 2.

Outcomes come back through ``Decider.resolve`` as the broker answers, so no event waits for the acknowledgement of
another one.

Offering and abandoning exclude each other. When the broker is given up, the order is: stop the offer that is under
way, make the client forget what it holds, and only then release what has no outcome. Nothing is released that the
client could still send, and nothing is offered whose lease has run out by the relay's clock.

There are lanes, each with a publisher and so with connections of its own: the main one, and those for suspects. A
connection that is cut in one of them carries no event of another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from functools import partial

from relay.core.errors import ConfigError
from relay.core.event import EventId, OutboxEvent
from relay.core.limits import RefusedEvent
from relay.core.outcome import (
    ConnectionCut,
    Outcome,
    OutcomeSink,
    Resolution,
    TimedOut,
    Transient,
    Unreachable,
    Withheld,
)
from relay.core.ports import Publisher
from relay.core.proofs import Begun, Proofs
from relay.core.tasks import ended
from relay.engine.batch import Batch
from relay.engine.context import EngineContext
from relay.engine.decide import Decider
from relay.engine.suspects import CONNECTION_CUT, LANES, Turn

logger = logging.getLogger(__name__)

_WRITING = 0.002  # seconds between two looks whether a settle or renewal of a batch has ended
Sink = Callable[[Batch, Sequence[Resolution]], None]


class _BatchLeases:
    """``relay.core.proofs.HeldLeases`` for one batch."""

    def __init__(self, batch: Batch, context: EngineContext) -> None:
        self._batch = batch
        self._inflight = context.inflight
        self._lease = context.options.lease_timeout
        self._clock = context.clock

    async def begin(
        self,
        events: Sequence[OutboxEvent],
        since: float,
        seconds: float,
        is_held: Callable[[OutboxEvent], bool] = lambda _: True,
    ) -> list[Begun]:
        """See ``HeldLeases``. Not while a renewal may change the fence; leases of before ``since`` are renewed first.

        A refused transaction ends its producer's epoch. Given back for that, its events would be claimed and refused
        together again, without end.
        """
        events = list(events)
        if older := self._batch.older(events, since):
            self._batch.renew(older)
            self._inflight.renewable.set()
            give_up_at = self._clock() + self._lease / 6
            while self._batch.older(events, since) and self._clock() < give_up_at:  # noqa: ASYNC110 - as below
                await asyncio.sleep(_WRITING)
        while self._batch.writing:  # noqa: ASYNC110 - rare, and over within milliseconds
            await asyncio.sleep(_WRITING)
        return self._batch.begin(filter(is_held, events), since, self._clock() + seconds)

    def end(self, event_ids: Iterable[EventId]) -> None:
        """See ``HeldLeases``."""
        self._batch.end(event_ids)


class _Lane:
    """Serialises ``publish`` and ``abandon`` of one publisher: at most one of them runs at a time."""

    def __init__(self, publisher: Publisher, context: EngineContext, *, opened: bool) -> None:
        self.publisher = publisher
        self._proofs = publisher if isinstance(publisher, Proofs) else None
        self._context = context
        self.opened = opened
        """Whether the publisher is open. Before, there is nothing to forget or close."""
        self.turn = asyncio.Lock()
        self.forgetting = False
        """The publisher is made to forget its events: what it says of the broker's reachability is an echo."""
        self.unanswered: set[EventId] = set()
        """Suspects that may be on its connections; not used for the main lane."""
        self._offer: asyncio.Task[None] | None = None
        """The ``publish`` that is under way; its owner holds the turn."""

    async def open(self) -> None:
        """Open the publisher before its first use. Raises ConfigError."""
        if not self.opened:
            await self.publisher.open()
            self.opened = True

    async def publish(self, batch: Batch, events: list[OutboxEvent], sink: Sink) -> BaseException | None:
        """Hand events to the publisher; returns what it raised, if it did. The caller has the turn.

        It is a task of its own so that ``forget``, called by another task, can cancel it without cancelling the loop
        that offers. An offer that has ended before it is cancelled keeps its result.
        """
        self._offer = asyncio.ensure_future(self._publish(batch, events, partial(sink, batch)))
        try:
            await ended(self._offer)
        finally:
            offer, self._offer = self._offer, None
            unfinished = offer.cancel()
        return None if unfinished or offer.cancelled() else offer.exception()

    async def _publish(self, batch: Batch, events: list[OutboxEvent], sink: OutcomeSink) -> None:
        if self._proofs is None:
            await self.publisher.publish(events, sink)
        else:
            await self._proofs.publish_held(events, sink, _BatchLeases(batch, self._context))

    def call_off(self) -> None:
        """Cancel the offer under way.

        It may wait for room in the client, for as long as the broker is away: it would never give up its turn. What it
        had not handed over stays in ``offered`` of its batch.
        """
        if self._offer is not None:
            self._offer.cancel()

    async def forget(self, reason: str) -> None:
        """Make the client forget what is unanswered. The caller has the turn."""
        self.forgetting = True
        try:
            await self.publisher.abandon(reason)
        finally:
            self.forgetting = False
            self.unanswered.clear()


class Offers:
    """Hands events over, in the main lane and those for suspects, and takes them back from all.

    Its callers are five tasks: the offer loop and the follow loop hand over, the isolation hands suspects over, the
    gate and the renewer (and the stop, once those two are cancelled) abandon.
    """

    def __init__(self, context: EngineContext, decider: Decider) -> None:
        self._inflight = context.inflight
        self._suspects = context.suspects
        self._clock = context.clock
        self._decider = decider
        self._main = _Lane(context.publisher, context, opened=True)
        self._isolated = [_Lane(context.publisher.twin(), context, opened=False) for _ in range(LANES)]

    async def offer(self, batch: Batch) -> None:
        """Hand a batch to the publisher and return once its client holds it, or the offer was called off.

        A batch whose lease has run out is left to the reaper.
        """
        await self._hand_over(self._main, batch, None, self._resolve)

    async def follow(self, batch: Batch, events: Sequence[OutboxEvent]) -> None:
        """Hand over what comes next in its key, unless it was released or has lost its lease meanwhile."""
        await self._hand_over(self._main, batch, events, self._resolve)

    async def isolate(self, number: int, turn: Turn) -> None:
        """Hand over suspects whose turn it is, with nothing else on the connections of this lane."""
        lane = self._isolated[number]
        if lane.unanswered:
            # A turn also ends when its events lose their lease or time out. They are on the connection still, and a cut
            # would be blamed on the events of the next turn.
            await self._disconnect(lane, "events of the previous turn have no answer")

        def resolve(batch: Batch, resolutions: Sequence[Resolution]) -> None:
            if not lane.forgetting:
                lane.unanswered -= {event.event_id for event, out in resolutions if not isinstance(out, TimedOut)}
                turn.unreachable |= any(isinstance(outcome, Unreachable) for _, outcome in resolutions)
                resolutions = [(event, _isolated(event, outcome, turn.size)) for event, outcome in resolutions]
            self._decider.resolve(batch, resolutions, echo=lane.forgetting)
            self._suspects.changed.set()

        try:
            await lane.open()
        except ConfigError as error:  # a certificate that was there at the start, say
            for batch, part in turn.parts.items():
                resolve(batch, [(event, Unreachable(str(error))) for event in part.values()])
            return
        for batch, part in turn.parts.items():
            lane.unanswered |= part.keys()
            await self._hand_over(lane, batch, list(part.values()), resolve)

    def _resolve(self, batch: Batch, resolutions: Sequence[Resolution]) -> None:
        self._decider.resolve(batch, resolutions, echo=self._main.forgetting)

    async def _hand_over(self, lane: _Lane, batch: Batch, events: Sequence[OutboxEvent] | None, sink: Sink) -> None:
        error: BaseException | None = None
        async with lane.turn:
            # While this task waited for its turn, abandon may have released events, a renewal may have lost them, and
            # their lease may have run out: what is offered is decided now, with the turn.
            candidates = list(batch.offered) if events is None else [event.event_id for event in events]
            expired = [event_id for event_id in batch.expired(candidates, self._clock()) if event_id in batch.offered]
            if expired:
                self._inflight.forfeit(batch, expired)
            held = [batch.offered[event_id] for event_id in candidates if event_id in batch.offered]
            if batch.waiting.with_gap:
                held = self._without_gaps(batch, held, sink)
            if refused := [event for event in held if isinstance(event, RefusedEvent)]:
                sink(batch, [(event, event.refusal) for event in refused])
                held = [event for event in held if not isinstance(event, RefusedEvent)]
            if held:
                held = batch.hand_over(held, self._clock())
                error = await lane.publish(batch, held, sink)
        if error is not None:
            await self._failed(lane, batch, held, error)

    @staticmethod
    def _without_gaps(batch: Batch, events: list[OutboxEvent], sink: Sink) -> list[OutboxEvent]:
        """Release the rest of a run of which an event is lost: what is behind that would overtake it."""
        keys = batch.waiting.with_gap
        rest = [event for event in events if event.partition_key in keys]
        if rest:
            sink(batch, [(event, Withheld("the lease of an earlier event of its key is lost")) for event in rest])
        return [event for event in events if event.partition_key not in keys]

    async def abandon(self, reason: str) -> None:
        """Make all clients forget everything without an outcome, and release it."""
        lanes = [self._main, *self._isolated]
        for lane in lanes:
            lane.call_off()
        async with AsyncExitStack() as turns:
            for lane in lanes:
                await turns.enter_async_context(lane.turn)
            await asyncio.gather(*(self._forget(lane, reason) for lane in lanes if lane.opened))
            # Batches that are claimed but not offered yet are released, too. The offer loop finds them empty.
            for batch in list(self._inflight.batches):
                self._inflight.release(batch)

    def take_back(self, reason: str) -> None:
        """Release what is not on its way; what is gets its answer."""
        self._main.publisher.take_back(reason)
        for batch in list(self._inflight.batches):
            batch.release_waiting()
            self._inflight.decided(batch)

    async def disconnect_isolated(self, number: int) -> None:
        """Close the connections of a lane that carries nothing."""
        await self._disconnect(self._isolated[number], "no suspects are left")

    async def _disconnect(self, lane: _Lane, reason: str) -> None:
        async with lane.turn:
            await self._forget(lane, reason)

    @staticmethod
    async def _forget(lane: _Lane, reason: str) -> None:
        try:
            await lane.forget(reason)
        except Exception:  # a package of another project raises what it likes
            logger.exception("the publisher could not abandon its messages", extra={"action": "abandon_failed"})

    async def close(self) -> None:
        """Close the connections for suspects; the caller closes the publisher that it gave."""
        await asyncio.gather(*(lane.publisher.close() for lane in self._isolated if lane.opened))

    async def _failed(self, lane: _Lane, batch: Batch, events: list[OutboxEvent], error: BaseException) -> None:
        """A publisher raised, which it should not: what it holds is unknown, so it is made to hold nothing.

        What it had not taken counts as failed, or an event that makes it raise would come back without end.
        """
        logger.error("the publisher failed on a batch", exc_info=error, extra={"action": "publisher_error"})
        async with lane.turn:
            await lane.forget("the publisher failed")
            reason = Transient(type(error).__name__, str(error))
            self._decider.resolve(batch, [(event, reason) for event in events])


def _isolated(event: OutboxEvent, outcome: Outcome, events: int) -> Outcome:
    """What an outcome means for a suspect that was offered with ``events - 1`` others."""
    match outcome:
        case ConnectionCut(reason) if events == 1:
            # Undecided, like a timeout: a failed attempt if the broker answers the probe, and none if it does not.
            size = f"{len(event.payload):,} bytes of payload to {event.event_type[:200]!r}"
            return TimedOut(
                CONNECTION_CUT, f"{size}: the connection was cut while only this event was in flight: {reason}"
            )
        case Unreachable(reason):
            return ConnectionCut(reason)  # not sent; undecided, so that the probe over the main lane decides about it
        case _:
            return outcome
