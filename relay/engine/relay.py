"""The relay: the loops of the engine, started, watched and stopped together.

Four modules tell the way of an event, in this order: ``claim`` takes it from the table, ``publish`` hands it to the
broker's client, ``decide`` turns its outcome into a verdict, ``settle`` writes the verdict. What is around them is
named in ``relay.engine``.

The loops are tasks of one event loop: only one of them runs at a time, and another one can come in between only at an
``await``. They meet in ``Batch``, ``InFlight``, ``RelayHealth`` and ``Offers``, where comments say how.

Order at the stop, each step with its share of ``shutdown_timeout``, so that the whole stays within it:

1. stop claiming; a claim under way is waited for;
2. let the broker answer for what it was offered (half of the time);
3. make the client forget the rest, and release it: no attempt is used;
4. settle everything that is known (until two thirds of the time);
5. stop the loops, close the publisher and the database's connections.

A fifth of the time is left to the caller, to close what it has around the relay.

A loop that dies takes the relay with it: a relay that only half works is worse than one that is restarted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine

from relay.core.clock import steady_seconds
from relay.core.errors import ConfigError, OutboxError, SchemaError, StorageError
from relay.core.optional_parts import OptionalParts, WakeUps
from relay.core.ports import Publisher
from relay.core.recorder import AttemptRecorder
from relay.core.storage import OutboxStorage
from relay.core.telemetry import Telemetry
from relay.core.tracing import Tracer
from relay.engine.backlog import BacklogSampler
from relay.engine.claim import Claimer
from relay.engine.context import EngineContext
from relay.engine.decide import Decider
from relay.engine.destination.destination import troubles
from relay.engine.engine_options import EngineOptions
from relay.engine.fleet import FleetWatch
from relay.engine.gate import Gate
from relay.engine.health import ping_storage
from relay.engine.isolate import Isolation
from relay.engine.lease import LeaseReaper, LeaseRenewer
from relay.engine.look_behind import look_behind
from relay.engine.pauses import PauseWatch
from relay.engine.publish import Offers
from relay.engine.series import SeriesWatch
from relay.engine.settle import Settler
from relay.engine.waiting import Patience, wait_event

logger = logging.getLogger(__name__)

_ANSWERS_UNTIL = 0.5  # shares of shutdown_timeout
_ABANDONED_WITHIN = 0.1
_SETTLED_UNTIL = 0.65
_LEFT_WITHIN = 0.02
_CLOSED_WITHIN = 0.13


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
        clock: Callable[[], float] = steady_seconds,
        tracer: Tracer | None = None,
        parts: OptionalParts = OptionalParts(),  # noqa: B008 - a tuple
    ) -> None:
        self._storage = storage
        self._wake_ups = parts.wake_ups
        self._publisher = publisher
        self._options = options
        self._clock = clock
        self._stop = asyncio.Event()
        self._loops: dict[str, asyncio.Task[None]] = {}
        context = EngineContext(storage, publisher, telemetry, options, clock, recorder, tracer)
        self.health = context.health
        self.inflight = context.inflight
        self.away = context.away
        self.refused_rows = context.refused_rows
        self.decider = Decider(context)
        self._offers = Offers(context, self.decider)
        self.destination = self._gate = Gate(context, self._offers, self.decider)
        self._claimer = Claimer(context, self._gate, self._offers)
        self._isolation = Isolation(context, self._gate, self._offers)
        self._settler = Settler(context)
        self._renewer = LeaseRenewer(context, self._offers)
        self._reaper = LeaseReaper(context)
        self.backlog = BacklogSampler(context)
        self.pauses = PauseWatch(context, parts.pauses, self._claimer.wake)
        settler = self._settler
        self._fleet = FleetWatch(
            context, parts.fleet, self.pauses, lambda: (settler.delivered, settler.failed), self.troubles
        )
        self._series = SeriesWatch(context, parts.series, self.backlog.take_longest_due)

    def stop(self) -> None:
        """Ask the relay to end; ``run`` returns within ``shutdown_timeout``. May be called more than once."""
        self._stop.set()

    def troubles(self) -> dict[str, str]:
        """The destinations that do not flow: what they are like, since when and why."""
        return troubles(self._gate.each)

    def degraded(self) -> dict[str, str]:
        """What is beside the way of an event and does not work, by name, and why; deliveries go on."""
        wake_ups = self._wake_ups.problem if self._wake_ups is not None else ""
        beside = {**self.pauses.degraded(), **self._fleet.degraded(), **self._series.degraded()}
        return {**beside, **({"wake-up": wake_ups} if wake_ups else {})}

    def ended_loops(self) -> list[str]:
        """The loops that were started and do not run any more; none while all is well."""
        return [name for name, task in self._loops.items() if task.done()]

    async def run(self) -> None:
        """Work until ``stop`` is called; then wind down.

        Raises LoopDied when a loop ended unexpectedly, SchemaError when the table can never be worked on, and
        ConfigError when the publisher can never work, or a living relay of the table delivers to another destination.
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
        """Wait for a database that is not there yet, then start the loops that need it.

        A task of its own, so that the relay can be stopped meanwhile. ``_watch`` expects only this task to end.
        """
        patience = Patience(first=0.2, longest=3.0)
        while True:
            try:
                await self._storage.open()
                break
            except StorageError as error:
                if isinstance(error, SchemaError) and error.sqlstate is None:
                    raise  # the table is there and not one that can be worked on: waiting would not help
                self.health.storage_failed("open", error)
                await patience.pause()
        self.health.storage_worked("open")
        await self._fleet.join()  # before the first claim
        await self._reaper.begin()
        self._start_loops()
        del self._loops["opening"]

    def _start_loops(self) -> None:
        """The four steps of an event's way, then what goes on beside it."""
        self._start("claim", self._claimer.claim_loop())  # 1. from the table into a batch that is in flight
        self._start("offer", self._claimer.offer_loop())  # 2. each batch to the broker's client, by Offers
        if self._options.in_order:
            self._start("follow", self._claimer.follow_loop())  # and what comes next in its key
        # 3. has no loop: the client calls Decider.resolve with each answer, which leaves a verdict in the batch
        self._start("settle", self._settler.run())  # 4. the verdicts into the table
        self._start("renew", self._renewer.run())
        self._start("isolate", self._isolation.run())
        self._start("reap", self._reaper.run())
        self._start("backlog", self.backlog.run())
        self._start("ping", ping_storage(self._storage, self.health, self._options.health_check_interval))
        self._start("look", look_behind(self._storage, self._claimer.wake))
        self._start("pauses", self.pauses.run())
        self._start("fleet", self._fleet.run())
        self._start("series", self._series.run())
        if self._wake_ups is not None:
            self._start("wake-up", self._listen(self._wake_ups))

    async def _listen(self, wake_ups: WakeUps) -> None:
        """Listen again after each failure: without wake-ups the relay is slower, and nothing else."""
        patience = Patience(first=0.5, longest=10.0)
        while True:
            try:
                await wake_ups.listen(self._claimer.wake)
            except StorageError as error:
                logger.warning("no wake-ups, polling only: %s", error, extra={"action": "wake_up_failed"})
            await patience.pause()

    async def _watch(self) -> None:
        """Return after ``stop``; raise when a loop ends."""
        stopped = asyncio.create_task(self._stop.wait(), name="relay-stop")
        try:
            while not self._stop.is_set():
                loops = dict(self._loops)  # a copy: the opening adds loops while this waits
                await asyncio.wait({stopped, *loops.values()}, return_when=asyncio.FIRST_COMPLETED)
                for name, task in loops.items():
                    if task.done() and (name != "opening" or task.exception() is not None):
                        self._raise_ended(name, task)
        finally:
            stopped.cancel()

    @staticmethod
    def _raise_ended(name: str, task: asyncio.Task[None]) -> None:
        cause = None if task.cancelled() else task.exception()
        if isinstance(cause, SchemaError | ConfigError):
            raise cause
        raise LoopDied(f"the {name} loop ended") from cause

    async def _wind_down(self) -> None:
        started = self._clock()
        logger.info("stopping", extra={"action": "stopping", "in_flight": self.inflight.events})
        self._claimer.stop()  # first: a claim that began later would never be waited for
        self._offers.take_back("the relay is stopping")
        timeout = self._options.shutdown_timeout
        await self._await_answers(started + timeout * _ANSWERS_UNTIL)
        await self._give_up_the_rest(timeout * _ABANDONED_WITHIN)
        await self._await_settled(started + timeout * _SETTLED_UNTIL)
        for task in self._loops.values():
            task.cancel()
        leaving = [asyncio.ensure_future(part.leave()) for part in (self._fleet, self._series)]
        await asyncio.wait(leaving, timeout=timeout * _LEFT_WITHIN)
        for one in leaving:
            one.cancel()
        rooms = (self._publisher, self._offers, self._storage)
        closing = [asyncio.ensure_future(room.close()) for room in rooms]
        await asyncio.wait([*self._loops.values(), *closing], timeout=timeout * _CLOSED_WITHIN)
        self.inflight.end_traces()
        if self.inflight.events:
            logger.error(
                "stopped with %d events unsettled; their leases will expire",
                self.inflight.events,
                extra={"action": "stopped_unsettled", "in_flight": self.inflight.events},
            )
        logger.info("stopped", extra={"action": "stopped", "seconds": round(self._clock() - started, 3)})

    async def _await_answers(self, deadline: float) -> None:
        # ``changed`` is shared with the claim and the offer loop, which may clear it first, so the wait is short.
        while (self._claimer.claiming or self.inflight.unanswered) and self._clock() < deadline:
            self.inflight.changed.clear()
            await wait_event(self.inflight.changed, 0.02)

    async def _give_up_the_rest(self, seconds: float) -> None:
        """Release what has no answer. What the client cannot be made to forget in time is left to its lease.

        Gate and renewer, which could abandon or open again meanwhile, are stopped first. The offer loop still runs:
        with the gate shut it releases what it gets. The settler runs too: it writes what is released here.
        """
        for name in ("gate", "renew"):
            if name in self._loops:
                self._loops[name].cancel()
        self._gate.stop()
        if not self.inflight.unanswered:
            return
        logger.warning(
            "releasing %d events without an answer", self.inflight.unanswered, extra={"action": "released_at_stop"}
        )
        try:
            async with asyncio.timeout(seconds):
                await self._offers.abandon("the relay is stopping")
        except TimeoutError:
            logger.error("the publisher did not let go of its messages", extra={"action": "abandon_failed"})

    async def _await_settled(self, deadline: float) -> None:
        """Until everything is settled, but for rows that the database refuses: waiting would not help those."""
        while self.inflight.events > self.inflight.refused and self._clock() < deadline:
            self.inflight.settleable.set()
            self.inflight.changed.clear()
            await wait_event(self.inflight.changed, 0.05)
