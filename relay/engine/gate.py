"""The gate: the destination of a whole relay, one broker or several. Closed, nothing is claimed, no attempt is used.

``relay.engine.destination.destination`` decides what opens and closes it. With several destinations it is open while
one of them answers.

The gate is a task of its own beside the claim loop and the offer loop, and it is the only one that opens and closes.
The others look at ``is_open`` right before they claim or offer. It may close while their claim or offer is under way:
then ``forget`` takes back what they offered, and the offer loop releases what they claimed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from relay.core.destination import DestinationState, WatchedDestination
from relay.core.event import OutboxEvent
from relay.engine.context import EngineContext
from relay.engine.decide import Decider
from relay.engine.destination.destination import Destination, Times
from relay.engine.destination.watched import SLOW_AFTER
from relay.engine.publish import Offers


class Gate(Destination):
    """Watches the brokers of one relay. ``run`` is its loop; the others only look at ``is_open`` or wait for it."""

    def __init__(self, context: EngineContext, offers: Offers, decider: Decider) -> None:
        options = context.options
        times = Times(
            retry_interval=options.connect_retry_interval,
            probe_timeout=options.probe_timeout,
            connection_timeout=options.connection_timeout,
            health_check_interval=options.health_check_interval,
        )
        super().__init__(
            context.publisher.name,
            context.publisher,
            times,
            context.clock,
            context.inflight.attention,
            context.health.broker_error,
            context.parts,
        )
        self.each: Sequence[WatchedDestination] = [*context.publisher.members.values()] or [self]
        """The destinations that events go to, with a state each: this one, or those of its publisher."""
        self._inflight = context.inflight
        self._away = context.away
        self._health = context.health
        self._offers = offers
        self._decider = decider

    def stop(self) -> None:
        """Close for good, once ``run`` is cancelled by the stop: what is claimed from here on is released unoffered."""
        self._opened.clear()

    @property
    def acknowledged(self) -> int:
        """The publisher's sink runs during a probe, too."""
        return self._decider.acknowledged

    @property
    def undecided(self) -> Collection[OutboxEvent]:
        """Of all batches."""
        return self._inflight.undecided

    def decide_undecided(self) -> None:
        """Of all batches."""
        self._decider.decide_undecided(None)

    def reported_unreachable(self) -> str:
        """What the publisher said of the broker."""
        return self._decider.unreachable_reason

    async def forget(self, reason: str) -> None:
        """Release what the broker has not acknowledged."""
        self._decider.decide_undecided(reason)
        await self._offers.abandon(reason)
        # Not before: outcomes that came while it abandoned are answered by the closing, too.
        self._decider.forget_unreachable()

    def look(self) -> None:
        """At a single broker."""
        if self.each == [self]:
            self.block(self.publisher.blocked or self._away.reason(self.title))
            longest = self._parts.note_waits(self._inflight.long_waits(self._clock(), SLOW_AFTER))
            self.note_wait(0.0 if self.blocked else longest)

    def say(self, state: DestinationState, reason: str, *, again: bool = False) -> None:
        """Whether it answers is in the relay's state, too."""
        if state >= DestinationState.AWAY:
            self._health.broker_failed(reason)
        elif not self.is_open:
            self._decider.forget_unreachable()
            self._health.broker_worked()
        else:
            super().say(state, reason, again=again)
