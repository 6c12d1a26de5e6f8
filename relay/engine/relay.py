"""The relay: all loops of the engine under one roof, started, watched and stopped together.

Order at the end, each step with its share of ``shutdown_timeout``, so that the whole stays within it:

1. stop claiming; a claim under way is waited for;
2. let the broker answer for what it was offered (half of the time);
3. make the client forget the rest, and release it: no attempt is used;
4. settle everything that is known (until two thirds of the time);
5. stop the loops, close the publisher and the database's connections.

A fifth of the time is left to those who run the relay, to close what they have around it.

A loop that dies takes the relay with it: a relay that only half works is worse than one that is restarted.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine

from relay.core.errors import OutboxError, SchemaError, StorageError
from relay.core.ports import AttemptRecorder, OutboxStorage, Publisher, WakeUps
from relay.core.telemetry import Telemetry
from relay.engine.backlog import Sampler
from relay.engine.claim import Pump
from relay.engine.gate import Gate
from relay.engine.health import Condition
from relay.engine.inflight import InFlight
from relay.engine.options import EngineOptions
from relay.engine.publish import Courier
from relay.engine.reaper import Reaper
from relay.engine.renewer import Renewer
from relay.engine.settle import Settler
from relay.engine.waiting import Patience, wait_event

logger = logging.getLogger(__name__)

_ANSWERS_UNTIL = 0.5  # shares of shutdown_timeout
_ABANDONED_WITHIN = 0.1
_SETTLED_UNTIL = 0.65
_CLOSED_WITHIN = 0.15


class LoopDied(OutboxError):
    """A loop of the engine ended, which none ever should; the cause is chained."""


class Relay:
    """One relay: one table, one broker. ``run`` once; ``stop`` from any callback of the same event loop."""

    def __init__(
        self,
        storage: OutboxStorage,
        publisher: Publisher,
        telemetry: Telemetry,
        options: EngineOptions,
        recorder: AttemptRecorder | None = None,
        clock: Callable[[], float] = time.monotonic,
        wake_ups: WakeUps | None = None,
    ) -> None:
        self._storage = storage
        self._wake_ups = wake_ups
        self._publisher = publisher
        self._options = options
        self._clock = clock
        self._stop = asyncio.Event()
        self._loops: dict[str, asyncio.Task[None]] = {}
        self.condition = Condition(telemetry, clock)
        self.inflight = InFlight(telemetry, options.retry, options.max_in_flight, options.batch_bytes, clock, recorder)
        self._courier = Courier(publisher, self.inflight, clock)
        self._gate = Gate(publisher, self._courier, self.inflight, self.condition, options, clock)
        self.pump = Pump(storage, self._gate, self._courier, self.inflight, self.condition, telemetry, options, clock)
        self._settler = Settler(storage, self.inflight, self.condition, telemetry, clock)
        self._renewer = Renewer(storage, self.inflight, self._courier, self.condition, telemetry, options, clock)
        self._reaper = Reaper(storage, self.condition, telemetry, options, clock)
        self.sampler = Sampler(storage, self.condition, telemetry, options, clock)

    def stop(self) -> None:
        """Ask the relay to end; ``run`` returns within ``shutdown_timeout``. May be called more than once."""
        self._stop.set()

    def ended_loops(self) -> list[str]:
        """The loops that were started and do not run any more; none while all is well."""
        return [name for name, task in self._loops.items() if task.done()]

    async def run(self) -> None:
        """Work until ``stop`` is called; then wind down.

        Raises LoopDied when a loop ended by itself, SchemaError when the table can never be worked on, and
        ConfigError when the publisher can never work.
        """
        await self._publisher.open()
        self._start("gate", self._gate.run())
        self._start("opening", self._open_storage())
        try:
            await self._watch()
        finally:
            await self._wind_down()

    def _start(self, name: str, loop: Coroutine[None, None, None]) -> None:
        self._loops[name] = asyncio.create_task(loop, name=f"relay-{name}")

    async def _open_storage(self) -> None:
        """Wait for a database that is not there yet, then start the loops that need it."""
        patience = Patience(first=0.2, longest=3.0)
        while True:
            try:
                await self._storage.open()
                break
            except StorageError as error:
                if isinstance(error, SchemaError) and error.sqlstate is None:
                    raise  # the table is there and not one that can be worked on: waiting would not help
                self.condition.storage_failed("open", error)
                await patience.pause()
        self.condition.storage_worked("open")
        self._start("settler", self._settler.run())
        self._start("renewer", self._renewer.run())
        self._start("offer", self.pump.offer_loop())
        self._start("claim", self.pump.claim_loop())
        if self._options.in_order:
            self._start("follow", self.pump.follow_loop())
        self._start("reaper", self._reaper.run())
        self._start("sampler", self.sampler.run())
        self._start("storage-watch", self.sampler.watch_storage())
        if self._wake_ups is not None:
            self._start("wake-up", self._listen(self._wake_ups))
        del self._loops["opening"]

    async def _listen(self, wake_ups: WakeUps) -> None:
        """Listen again after each failure: without wake-ups the relay is slower, and nothing else."""
        patience = Patience(first=0.5, longest=10.0)
        while True:
            try:
                await wake_ups.listen(self.pump.wake)
            except StorageError as error:
                logger.warning("no wake-ups, polling only: %s", error, extra={"action": "wake_up_failed"})
            await patience.pause()

    async def _watch(self) -> None:
        """Return when told to stop; raise when a loop ends."""
        stopped = asyncio.create_task(self._stop.wait(), name="relay-stop")
        try:
            while not self._stop.is_set():
                loops = dict(self._loops)
                await asyncio.wait({stopped, *loops.values()}, return_when=asyncio.FIRST_COMPLETED)
                for name, task in loops.items():
                    if task.done() and (name != "opening" or task.exception() is not None):
                        self._raise_ended(name, task)
        finally:
            stopped.cancel()

    @staticmethod
    def _raise_ended(name: str, task: asyncio.Task[None]) -> None:
        cause = None if task.cancelled() else task.exception()
        if isinstance(cause, SchemaError):
            raise cause
        raise LoopDied(f"the {name} loop ended") from cause

    async def _wind_down(self) -> None:
        started = self._clock()
        logger.info("stopping", extra={"action": "stopping", "in_flight": self.inflight.events})
        self.pump.stop()
        timeout = self._options.shutdown_timeout
        await self._await_answers(started + timeout * _ANSWERS_UNTIL)
        await self._give_up_the_rest(timeout * _ABANDONED_WITHIN)
        await self._await_settled(started + timeout * _SETTLED_UNTIL)
        for task in self._loops.values():
            task.cancel()
        closing = [asyncio.ensure_future(self._publisher.close()), asyncio.ensure_future(self._storage.close())]
        await asyncio.wait([*self._loops.values(), *closing], timeout=timeout * _CLOSED_WITHIN)
        if self.inflight.events:
            logger.error(
                "stopped with %d events unsettled; their leases will expire",
                self.inflight.events,
                extra={"action": "stopped_unsettled", "in_flight": self.inflight.events},
            )
        logger.info("stopped", extra={"action": "stopped", "seconds": round(self._clock() - started, 3)})

    async def _await_answers(self, deadline: float) -> None:
        while (self.pump.claiming or self.inflight.unanswered) and self._clock() < deadline:
            self.inflight.changed.clear()
            await wait_event(self.inflight.changed, 0.02)

    async def _give_up_the_rest(self, seconds: float) -> None:
        """Release what has no answer. What the client cannot be made to forget in time is left to its lease."""
        for name in ("gate", "renewer"):
            if name in self._loops:
                self._loops[name].cancel()
        self._gate.shut()
        if not self.inflight.unanswered:
            return
        logger.warning(
            "releasing %d events without an answer", self.inflight.unanswered, extra={"action": "released_at_stop"}
        )
        try:
            async with asyncio.timeout(seconds):
                await self._courier.abandon("the relay is stopping")
        except TimeoutError:
            logger.error("the publisher did not let go of its messages", extra={"action": "abandon_failed"})

    async def _await_settled(self, deadline: float) -> None:
        while self.inflight.events and self._clock() < deadline:
            self.inflight.settleable.set()
            self.inflight.changed.clear()
            await wait_event(self.inflight.changed, 0.05)
