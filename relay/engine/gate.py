"""The gate: open while the broker answers. Closed, nothing is claimed and no attempt is used.

    closed ──probe answered──▶ open ──an event came back unreachable,
      ▲                         │     or a timeout or health check whose probe found nobody──▶ closed
      └─────────────────────────┘

A timeout alone decides nothing (CONTRACT section 4): its events are held until a probe with a deadline of its own
has spoken. Closing makes the client forget what it holds and releases it; while closed, one probe goes out per
retry interval. A broker that is closed and found again over and over waits the interval in between, too.

A probe that failed leaves a client behind that may wait for an answer which never comes: each probe gets a new one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from relay.core.errors import BrokerUnreachable
from relay.core.ports import Publisher
from relay.engine.health import Condition
from relay.engine.inflight import InFlight
from relay.engine.options import EngineOptions
from relay.engine.publish import Courier
from relay.engine.waiting import wait_event

_PROBE_GRACE = 1.0  # seconds a probe may take beyond the interval, for a login that needs many round trips


class Gate:
    """Watches one broker. ``run`` is its loop; the others only look at ``is_open`` or wait for it."""

    def __init__(
        self,
        publisher: Publisher,
        courier: Courier,
        inflight: InFlight,
        condition: Condition,
        options: EngineOptions,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._publisher = publisher
        self._courier = courier
        self._inflight = inflight
        self._condition = condition
        self._options = options
        self._clock = clock
        self._opened = asyncio.Event()
        self._closed_at = float("-inf")
        self._next_knock = float("-inf")

    @property
    def is_open(self) -> bool:
        """Whether events may be claimed and offered."""
        return self._opened.is_set()

    async def wait_open(self) -> None:
        """Return as soon as the broker answers."""
        await self._opened.wait()

    def shut(self) -> None:
        """Close for good, once ``run`` is cancelled: what is claimed from here on is given back unoffered."""
        self._opened.clear()

    async def run(self) -> None:
        """Probe until the broker answers, watch it while it does, for ever."""
        while True:
            await (self._watch() if self.is_open else self._knock())

    async def _knock(self) -> None:
        interval = self._options.connect_retry_interval
        await asyncio.sleep(max(0.0, self._next_knock - self._clock()))
        self._next_knock = self._clock() + interval
        refusal = await self._probe(min(self._options.probe_timeout, interval + _PROBE_GRACE))
        if refusal is None:
            self._inflight.unreachable_reason = ""
            self._inflight.attention.clear()
            self._condition.broker_worked()
            self._opened.set()
        else:
            self._condition.broker_failed(refusal)
            await self._courier.abandon(refusal)

    async def _watch(self) -> None:
        if await wait_event(self._inflight.attention, self._options.health_check_interval):
            self._inflight.attention.clear()
            await self._attend()
            return
        before = self._inflight.acknowledged
        refusal = await self._probe(self._options.probe_timeout)
        # Acknowledgements that came while the probe waited outweigh a probe that was merely starved.
        if refusal is not None and self._inflight.acknowledged == before:
            await self.close(refusal)

    async def _attend(self) -> None:
        reason = self._inflight.unreachable_reason
        if reason:
            await self.close(reason)
            return
        if not self._inflight.undecided:
            return
        refusal = await self._probe(self._options.probe_timeout)
        if refusal is None:
            self._inflight.decide_undecided(None)
        else:
            await self.close(refusal)

    async def close(self, reason: str) -> None:
        """Stop claiming and offering, and give back what the broker has not acknowledged."""
        now = self._clock()
        if now - self._closed_at < self._options.connect_retry_interval:
            self._next_knock = max(self._next_knock, now + self._options.connect_retry_interval)
        self._closed_at = now
        self._opened.clear()
        self._condition.broker_failed(reason)
        self._inflight.decide_undecided(reason)
        await self._courier.abandon(reason)
        self._inflight.unreachable_reason = ""
        self._inflight.attention.clear()

    async def _probe(self, timeout: float) -> str | None:
        """None if the broker answered, else the reason why it did not."""
        try:
            async with asyncio.timeout(timeout + 1.0):  # a probe that ignores its own deadline is no answer either
                await self._publisher.probe(timeout)
        except BrokerUnreachable as error:
            return str(error) or "no answer"
        except TimeoutError:
            return f"no answer within {timeout:g} s"
        return None
