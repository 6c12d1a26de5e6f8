"""The gate: the destination of a whole relay, one broker or several. Closed, nothing is claimed, no attempt is used.

``relay.engine.destination.destination`` decides what opens and closes it. With several destinations it is open while
one of them answers.

The gate is a task of its own beside the claim loop and the offer loop, and it is the only one that opens and closes.
The others look at ``is_open`` right before they claim or offer. It may close while their claim or offer is under way:
then ``forget`` takes back what they offered, and the offer loop releases what they claimed.
"""

from __future__ import annotations

from relay.engine.context import EngineContext
from relay.engine.decide import Decider
from relay.engine.destination.destination import Destination, Times
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
            context.publisher, times, context.clock, context.inflight.attention, reason=context.health.broker_error
        )
        self._inflight = context.inflight
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
    def undecided(self) -> bool:
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

    def say_away(self, *, again: bool) -> None:  # noqa: ARG002 - health repeats it now and then
        """In the log, /readyz and the relay's state."""
        self._health.broker_failed(self.reason)

    def say_back(self) -> None:
        """Likewise."""
        self._decider.forget_unreachable()
        self._health.broker_worked()

    def say_blocked(self, *, over: bool) -> None:
        """See ``relay.engine.health``."""
