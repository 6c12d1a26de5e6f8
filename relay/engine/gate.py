"""The gate: open while the broker answers. Closed, nothing is claimed and no attempt is used.

    closed ── a probe is answered ──▶ open
      ▲                                │
      └── an event came back unreachable, or the probe after a timeout or health check got no answer

A timeout alone decides nothing (docs/reference/messages.md#errors): its events are undecided until a probe with a
deadline of its own has ended. Closing makes the client forget what it holds and releases it; while closed, one probe
goes out per retry interval. A broker that is closed and found again over and over waits the interval in between, too.
``relay.engine.probetime`` says how long a probe may take.

A failed probe leaves a client behind that may wait for an answer which never comes: so abandoning follows each of them.

The gate is a task of its own beside the claim loop and the offer loop, and it is the only one that opens and closes.
The others look at ``is_open`` right before they claim or offer. It may close while their claim or offer is under way:
then ``close`` takes back what they offered, and the offer loop releases what they claimed.
"""

from __future__ import annotations

import asyncio

from relay.core.errors import BrokerUnreachable
from relay.engine.context import EngineContext
from relay.engine.decide import Decider
from relay.engine.probetime import ProbeTime
from relay.engine.publish import Offers
from relay.engine.waiting import wait_event


class Gate:
    """Watches one broker. ``run`` is its loop; the others only look at ``is_open`` or wait for it."""

    def __init__(self, context: EngineContext, offers: Offers, decider: Decider) -> None:
        self._publisher = context.publisher
        self._inflight = context.inflight
        self._health = context.health
        self._options = context.options
        self._clock = context.clock
        self._offers = offers
        self._decider = decider
        self._opened = asyncio.Event()
        self._closed_at = float("-inf")
        self._next_knock = float("-inf")
        options = context.options
        self._time = ProbeTime(options.probe_timeout, options.connect_retry_interval, options.connection_timeout)

    @property
    def is_open(self) -> bool:
        """Whether events may be claimed and offered."""
        return self._opened.is_set()

    async def wait_open(self) -> None:
        """Return as soon as the broker answers."""
        await self._opened.wait()

    def shut(self) -> None:
        """Close for good, once ``run`` is cancelled by the stop: what is claimed from here on is released unoffered."""
        self._opened.clear()

    async def run(self) -> None:
        """Probe until the broker answers, watch it while it does, without end."""
        while True:
            await (self._watch() if self.is_open else self._knock())

    async def _knock(self) -> None:
        interval = self._options.connect_retry_interval
        await asyncio.sleep(max(0.0, self._next_knock - self._clock()))
        self._next_knock = self._clock() + interval
        refusal = await self._probe(self._time.away)
        if refusal is None:
            self._decider.forget_unreachable()
            self._health.broker_worked()
            self._opened.set()
        else:
            self._health.broker_failed(refusal)
            await self._offers.abandon(refusal)

    async def _watch(self) -> None:
        if await wait_event(self._inflight.attention, self._options.health_check_interval):
            # Cleared before it is attended to: an outcome that comes during the probe calls for another look.
            self._inflight.attention.clear()
            await self._attend()
            return
        before = self._decider.acknowledged
        refusal = await self._probe(self._time.flowing)
        # The publisher's sink runs during the probe: acknowledgements that came outweigh a probe that was only starved.
        if refusal is not None and self._decider.acknowledged == before:
            await self.close(refusal)

    async def _attend(self) -> None:
        reason = self._decider.unreachable_reason
        if reason:
            await self.close(reason)
            return
        if not self._inflight.undecided:
            return
        refusal = await self._probe(self._time.flowing)
        if refusal is None:
            self._decider.decide_undecided(None)
        else:
            await self.close(refusal)

    async def close(self, reason: str) -> None:
        """Stop claiming and offering, and release what the broker has not acknowledged."""
        now = self._clock()
        if now - self._closed_at < self._options.connect_retry_interval:
            self._next_knock = max(self._next_knock, now + self._options.connect_retry_interval)
        self._closed_at = now
        # Closed before the first await: from here on no other task offers, so abandoning leaves nothing behind.
        self._opened.clear()
        self._health.broker_failed(reason)
        self._decider.decide_undecided(reason)
        await self._offers.abandon(reason)
        # Not before: outcomes that came while it abandoned are answered by the closing, too.
        self._decider.forget_unreachable()

    async def _probe(self, timeout: float) -> str | None:
        """None if the broker answered, else the reason why it did not."""
        started = self._clock()
        try:
            async with asyncio.timeout(timeout + 1.0):  # a probe that ignores its own deadline is no answer either
                await self._publisher.probe(timeout)
        except (BrokerUnreachable, TimeoutError) as error:
            self._time.note_silence(self._clock() - started)
            silence = f"no answer within {timeout:g} s" if isinstance(error, TimeoutError) else "no answer"
            return str(error) or silence
        self._time.note_answer(self._clock() - started)
        return None
