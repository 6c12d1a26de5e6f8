"""One of several destinations: its publisher, its state, and what was offered to it.

While it is away its events are ``Away``: they use no attempt, and the engine's gate stays open for the others. A
timeout or a cut connection is held while this destination is probed, since an answer of another one says nothing about
it: no answer makes it ``Away``; an answer makes a timeout ``Transient``, and a cut is passed on to the engine.

One that answers probes may take nothing all the same. Its publisher reports ``Away`` for events, or says that the
broker is blocked. Then what was offered is taken back as ``Away``, with the connection: what waits there would keep the
places of other destinations for as long as the broker likes. One event is tried per retry interval, until one is
answered.

What is offered is handed over by a task of its own, in order, so that a client which is full, or waits for its
connection, holds up no other destination. How much may wait here is bounded by what the engine has in flight.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple

from relay.core.destination import DestinationState, Waiting
from relay.core.event import OutboxEvent
from relay.core.outcome import (
    Acknowledged,
    Away,
    ConnectionCut,
    Outcome,
    OutcomeSink,
    Resolution,
    TimedOut,
    Transient,
    Unreachable,
    Withheld,
)
from relay.core.places import Flow, flow_at
from relay.core.ports import Publisher
from relay.core.proofs import HeldLeases, Proofs
from relay.engine.batch import LATE
from relay.engine.destination.copies import CopyLeases
from relay.engine.destination.destination import Destination, Times
from relay.engine.destination.late import Lateness
from relay.engine.destination.pace import HandOver, TokenBucket, WaitingOffers
from relay.engine.destination.watched import SLOW_AFTER

logger = logging.getLogger(__name__)

_LOOK = 0.5  # seconds between two looks at what was offered
_NO_ROOM = 0.05  # seconds between two looks for places, where there are none for what waits for its rate


class _Offered(NamedTuple):
    """A copy that was handed over."""

    event: OutboxEvent
    sink: OutcomeSink
    at: float
    leases: CopyLeases | None


class Member(Destination):
    """A destination by its name. Everything runs in the event loop's thread."""

    def __init__(
        self,
        name: str,
        publisher: Publisher,
        times: Times,
        any_answers: Callable[[], bool],
        pace: TokenBucket | None = None,
        flow_of: Callable[[OutboxEvent], Flow] | None = None,
    ) -> None:
        """``any_answers`` says whether some destination answers, this one or another; ``pace`` is its rate.

        For ``flow_of`` see ``FlowTeller``.
        """
        super().__init__(name, publisher, times, lambda: asyncio.get_running_loop().time(), asyncio.Event())
        self._any_answers = any_answers
        self._room: Callable[[bool], int] = lambda _: sys.maxsize
        self._acknowledged = 0
        self._waiting = WaitingOffers(pace)
        self._open: dict[int, _Offered] = {}
        """Handed over and not resolved, by the event's identity; oldest first."""
        self._lateness = Lateness(None if flow_of is None else lambda event: flow_at(flow_of(event), name))
        self._undecided: list[tuple[OutboxEvent, TimedOut | ConnectionCut, OutcomeSink]] = []
        self._echo: Outcome | None = None
        """What becomes of all that is forgotten, while that says nothing of whether it answers."""
        self._tried_at = float("-inf")
        """When what the blocked broker had was taken back, or an event was tried after that."""
        self._looking: asyncio.TimerHandle | None = None
        self._publishing: asyncio.Task[None] | None = None
        self._handing_over: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        """Handing over and forgetting exclude each other."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Make the client, and begin to watch. Raises ConfigError."""
        await self.publisher.open()
        self._start(self._run_on())

    async def _run_on(self) -> None:
        """``run``, whatever ends it: without it this destination is not probed, and nothing of it is let go."""
        while True:
            try:
                await self.run()
            except Exception:
                logger.exception("destination %s failed", self.name, extra={"action": "publisher_error"})
                await asyncio.sleep(self.times.retry_interval)

    # What is offered.

    def offer(self, events: list[OutboxEvent], sink: OutcomeSink, holding: HeldLeases | None = None) -> None:
        """Take events to hand over, or resolve them at once while it is away, or blocked but for one that is tried.

        ``holding`` is for a publisher that leaves proofs.
        """
        left: list[OutboxEvent] = []
        if not self.blocked:
            self._hear_blocked()
        if self.reason:
            events, left = [], events
        elif self.blocked and self._tried_at != float("-inf"):
            now = self._clock()
            tried = int(now - self._tried_at >= self.times.retry_interval)
            self._tried_at = now if tried else self._tried_at
            events, left = events[:tried], events[tried:]
        if left:
            sink([(event, self._no_answer()) for event in left])
        if not events:
            return
        self._lateness.offer(events)
        self._waiting.add(HandOver(events, sink, holding))
        if self._handing_over is None:
            self._handing_over = self._start(self._hand_over())
        if self._looking is None:
            self._look_later()

    async def _hand_over(self) -> None:
        """Hand over what waits, one offer after the other, as its rate lets it; ends when nothing waits."""
        try:
            while self._waiting:
                if seconds := self._pause():
                    await asyncio.sleep(seconds)
                    continue
                async with self._turn:
                    if not self._waiting:  # forgotten while this waited for its turn
                        continue
                    events, sink, holding = self._waiting.next(self._places())
                    if not events:  # the connections of suspects have taken the turn
                        continue
                    leases = None if holding is None else CopyLeases(holding, lambda event: id(event) in self._open)
                    now = self._clock()
                    self._open.update((id(event), _Offered(event, sink, now, leases)) for event in events)
                    error = await self._publish(events, sink, leases)
                if error is not None:
                    await self._failed(error, sink)
        finally:
            self._handing_over = None

    def _pause(self) -> float:
        """Seconds until it is worth asking again whether something may be handed over; 0 where it may be."""
        return self._waiting.pause or (0.0 if self._places() else _NO_ROOM)

    def _places(self) -> int:
        """For how many events. What waits for a rate takes its places only when it is handed over."""
        paced = self._waiting.pace is not None
        return self._room(self._clock() - self._oldest_at >= LATE) if paced else sys.maxsize

    async def _publish(
        self, events: list[OutboxEvent], sink: OutcomeSink, leases: CopyLeases | None
    ) -> BaseException | None:
        """A task of its own, so that it can be cancelled while the client waits for room. Returns what it raised."""
        resolve = partial(self._resolve, sink)
        if leases is not None and isinstance(self.publisher, Proofs):
            publishing = asyncio.ensure_future(self.publisher.publish_held(events, resolve, leases))
        else:
            publishing = asyncio.ensure_future(self.publisher.publish(events, resolve))
        self._publishing = publishing
        try:
            await asyncio.wait({publishing})
        finally:
            self._publishing = None
            publishing.cancel()
        return None if publishing.cancelled() else publishing.exception()

    async def _failed(self, error: BaseException, sink: OutcomeSink) -> None:
        """The publisher raised, which it should not: what it had not taken has failed an attempt, as in the engine."""
        logger.error("destination %s failed on a batch", self.name, exc_info=error, extra={"action": "publisher_error"})
        failed = Transient(type(error).__name__, str(error))
        with self._saying(Withheld("another event made the publisher fail")):
            left = await self._let_go("the publisher failed")
        if left:
            sink([(event, failed) for event, _ in left])

    def _resolve(self, sink: OutcomeSink, resolutions: Sequence[Resolution]) -> None:
        passed: list[Resolution] = []
        now = self._clock()
        if self._parts:
            self._parts.answered(resolutions)
        for event, outcome in resolutions:
            if (offered := self._open.pop(id(event), None)) is None:
                continue
            self._lateness.answer(offered.at, now, acknowledged=type(outcome) is Acknowledged)
            if isinstance(outcome, TimedOut | ConnectionCut):
                self._undecided.append((event, outcome, sink))
            else:
                passed.append((event, self._learn(event, outcome)))
        if self._undecided and self._echo is None:
            self._attention.set()
        if passed:
            sink(passed)

    def _learn(self, event: OutboxEvent, outcome: Outcome) -> Outcome:
        """What an outcome says of this destination, and what becomes of it for the engine."""
        if isinstance(outcome, Unreachable):
            if self._echo is None:
                self.shut(outcome.reason)
            return self._no_answer()
        if isinstance(outcome, Away):
            if (away := self._parts.take(event, outcome)) is not None:
                return away
            reason = f"{self.title}: {outcome.reason}"
            if not outcome.reported_as:  # without a name: it is said by type
                return Away(reason)
            self.block(outcome.reason)
            return Away(reason, self.title)
        if self.blocked and not isinstance(outcome, Withheld):
            self._tried_at = float("-inf")
            self.block("")
        self._acknowledged += type(outcome) is Acknowledged
        return outcome

    def _no_answer(self) -> Outcome:
        """What becomes of an event that is released. Unreachable while no destination answers: then the engine stops
        claiming.
        """
        if self._echo is not None:
            return self._echo
        reason = f"{self.title}: {self.reason or self.blocked}"
        return Away(reason, self.title) if self._any_answers() else Unreachable(reason)

    @contextmanager
    def _saying(self, echo: Outcome | None) -> Iterator[None]:
        """While this lasts, ``echo`` is the outcome of all that the client is made to forget."""
        before, self._echo = self._echo, echo
        try:
            yield
        finally:
            self._echo = before

    # Whether it takes what it is offered.

    def _look_later(self) -> None:
        self._looking = asyncio.get_running_loop().call_later(_LOOK, self._look_at_open)

    def _hear_blocked(self) -> str:
        """Why the broker takes nothing, where the publisher says so."""
        if reason := "" if self.reason else self.publisher.blocked:
            self._tried_at = self._clock()
            self.block(reason)
        return reason

    def _look_at_open(self) -> None:
        """Look whether what was offered is taken, as long as there is some."""
        now, self._looking = self._clock(), None
        if (self._waiting or self._open) and (reason := self._hear_blocked()):
            # ``run`` takes back what the broker does not take: it would keep the places of those that do.
            self._forget_for = reason
            self._attention.set()
        waits = ((one.event, now - one.at) for one in self._open.values())
        self.note_wait(self._parts.note_waits(takewhile(lambda wait: wait[1] >= SLOW_AFTER, waits)))
        if self._waiting or self._open or self._parts or DestinationState.SLOW in self._why:
            self._look_later()

    @property
    def _oldest_at(self) -> float:
        """Since when the oldest event waits for its answer; now, where none does."""
        return next((one.at for one in self._open.values()), self._clock())

    def late_flows(self, after: float) -> Collection[Flow]:
        """See ``WatchedDestination``."""
        return self._lateness.flows(after, self._oldest_at, self._clock())

    @property
    def waiting(self) -> Waiting | None:
        """See ``WatchedDestination``."""
        return self._waiting.of_rate(self._lateness.known)

    def share_room(self, room: Callable[[bool], int]) -> None:
        """See ``WatchedDestination``."""
        self._room = room

    # What a destination says and decides.

    @property
    def acknowledged(self) -> int:
        """By this destination."""
        return self._acknowledged

    @property
    def undecided(self) -> Collection[OutboxEvent]:
        """Of what was offered to this destination."""
        return [event for event, *_ in self._undecided]

    def decide_undecided(self) -> None:
        """A cut is passed on."""

        def decided(event: OutboxEvent, outcome: TimedOut | ConnectionCut) -> Outcome:
            answered = Transient(outcome.code, outcome.reason) if isinstance(outcome, TimedOut) else outcome
            return self._parts.outcome_of(event) or answered

        self._resolve_undecided(decided)

    def _resolve_undecided(self, outcome_of: Callable[[OutboxEvent, TimedOut | ConnectionCut], Outcome]) -> None:
        undecided, self._undecided = self._undecided, []
        by_sink: dict[OutcomeSink, list[Resolution]] = {}
        for event, outcome, sink in undecided:
            by_sink.setdefault(sink, []).append((event, outcome_of(event, outcome)))
        for sink, resolutions in by_sink.items():
            sink(resolutions)

    # Letting go.

    def take_back(self, reason: str) -> None:
        """What is not on its way is ``Withheld``."""
        for events, sink, _ in self._waiting.take_all():
            sink([(event, Withheld(reason)) for event in events])
        self.publisher.take_back(reason)

    async def forget(self, reason: str) -> None:
        """On return the client holds nothing, and everything offered is resolved, but for what is being committed."""
        # Of one that is blocked, not away, the client's word that nothing is reachable means what was just said of it.
        echo = self._no_answer() if self._echo is None and not self.reason else self._echo
        with self._saying(echo):
            for event, sink in await self._let_go(reason):
                sink([(event, self._no_answer())])

    async def _let_go(self, reason: str) -> list[tuple[OutboxEvent, OutcomeSink]]:
        """Likewise, but for what the client had not taken yet of the offer under way: that is returned."""
        for events, sink, _ in self._waiting.take_all():
            sink([(event, self._no_answer()) for event in events])
        if self._publishing is not None:
            self._publishing.cancel()
        async with self._turn:
            try:
                await self.publisher.abandon(reason)
            except Exception:  # a package of another project raises what it likes
                message = "destination %s could not abandon its messages"
                logger.exception(message, self.name, extra={"action": "abandon_failed"})
            held, self._open = self._open, {}
            for place, one in held.items():
                if one.leases is not None and one.leases.has_begun(one.event):
                    self._open[place] = one
        self._resolve_undecided(lambda *_: self._no_answer())
        return [(one.event, one.sink) for place, one in held.items() if place not in self._open]

    async def abandon(self, reason: str) -> None:
        """The engine makes it forget everything; whether it answers is not said by that."""
        with self._saying(Unreachable(reason)):
            await self.forget(reason)

    async def close(self) -> None:
        """Abandon what is left and close the client; never raises."""
        await self.abandon("the publisher was closed")
        for task in list(self._tasks):
            task.cancel()
        if self._looking is not None:
            self._looking.cancel()
        await self.publisher.close()

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
