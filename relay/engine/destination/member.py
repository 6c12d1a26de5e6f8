"""One of several destinations: its publisher, its own gate, and what was offered to it.

    answers ── an event came back unreachable, or a probe got no answer ──▶ away
       ▲                                                                     │
       └────────────────────────── a probe is answered ──────────────────────┘

While it is away its events are ``Away``: they use no attempt, and the engine's gate stays open for the others. A
timeout or a cut connection is held while this destination is probed, since an answer of another one says nothing about
it: no answer makes it ``Away``; an answer makes a timeout ``Transient``, and a cut is passed on to the engine.

One that answers probes may take nothing all the same: its publisher then reports ``Away``, until an event is answered.

What is offered is handed over by a task of its own, in order, so that a client which is full, or waits for its
connection, holds up no other destination. How much may wait here is bounded by what the engine has in flight.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from relay.core.errors import BrokerUnreachable, PublisherError
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
from relay.core.ports import Publisher
from relay.core.telemetry import DestinationState
from relay.engine.probetime import ProbeTime

logger = logging.getLogger(__name__)

_SHARED = 0.9  # of the retry interval, after a probe without an answer
_PROBE_GRACE = 1.0  # seconds that a probe may take beyond its own deadline


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberOptions:
    """Times in seconds."""

    retry_interval: float
    """Between two probes of a destination that does not answer."""
    probe_timeout: float = 5.0
    connection_timeout: float = 0.0
    """See ``EngineOptions``."""

    @property
    def forget_blocked(self) -> float:
        """How long no event may come back before one that is blocked counts as flowing: longer than a hold (away)."""
        return 90.0 + 2 * self.retry_interval


class Member:
    """A destination by its name. Everything runs in the event loop's thread."""

    def __init__(
        self, name: str, publisher: Publisher, options: MemberOptions, any_answers: Callable[[], bool]
    ) -> None:
        """``any_answers`` says whether some destination answers, this one or another."""
        self.name = name
        self.title = f"destination {name}"
        """Its name in reasons and in /readyz."""
        self.publisher = publisher
        self.options = options
        self._back = {"action": "destination_back", "destination": name}
        self.reason = ""
        """Why it does not answer; empty while it does."""
        self.blocked = ""
        """Why it takes nothing although it answers; empty while it does."""
        self._blocked_at = 0.0
        """When an event came back for that last."""
        self._any_answers = any_answers
        self._time = ProbeTime(options.probe_timeout, options.retry_interval, options.connection_timeout)
        self._unanswered_at = float("-inf")
        """When the last probe got no answer."""
        self._acknowledged = 0
        self._waiting: deque[tuple[list[OutboxEvent], OutcomeSink]] = deque()
        self._open: dict[int, tuple[OutboxEvent, OutcomeSink]] = {}
        """Handed over and not resolved, by the event's identity."""
        self._undecided: list[tuple[OutboxEvent, TimedOut | ConnectionCut, OutcomeSink]] = []
        self._abandoned = ""
        """Why the engine makes it forget everything, while it does."""
        self._failing = False
        """It forgets everything because the client failed: what that says of the broker is an echo."""
        self._publishing: asyncio.Task[None] | None = None
        self._handing_over: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        """Handing over and forgetting exclude each other."""
        self._probing = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    # What is offered.

    def offer(self, events: list[OutboxEvent], sink: OutcomeSink) -> None:
        """Take events to hand over, or resolve them at once while it is away."""
        if self.reason:
            sink([(event, self._no_answer()) for event in events])
            return
        self._waiting.append((events, sink))
        if self._handing_over is None:
            self._handing_over = self._start(self._hand_over())

    async def _hand_over(self) -> None:
        """Hand over what waits, one offer after the other; ends when nothing waits."""
        try:
            while self._waiting:
                async with self._turn:
                    if not self._waiting:  # forgotten while this waited for its turn
                        continue
                    events, sink = self._waiting.popleft()
                    self._open.update((id(event), (event, sink)) for event in events)
                    error = await self._publish(events, sink)
                if error is not None:
                    await self._failed(error, sink)
        finally:
            self._handing_over = None

    async def _publish(self, events: list[OutboxEvent], sink: OutcomeSink) -> BaseException | None:
        """A task of its own, so that it can be cancelled while the client waits for room. Returns what it raised."""
        publishing = asyncio.ensure_future(self.publisher.publish(events, partial(self._resolve, sink)))
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
        self._failing = True
        try:
            left = [event for event, _ in await self._let_go("the publisher failed")]
        finally:
            self._failing = False
        if left:
            sink([(event, failed) for event in left])

    def _resolve(self, sink: OutcomeSink, resolutions: Sequence[Resolution]) -> None:
        passed: list[Resolution] = []
        for event, outcome in resolutions:
            if self._open.pop(id(event), None) is None:
                continue
            if isinstance(outcome, TimedOut | ConnectionCut):
                self._undecided.append((event, outcome, sink))
            else:
                passed.append((event, self._learn(outcome)))
        if self._undecided and not self._abandoned:
            self._start(self._decide())
        if passed:
            sink(passed)

    def _learn(self, outcome: Outcome) -> Outcome:
        """What an outcome says of this destination, and what becomes of it for the engine."""
        if isinstance(outcome, Unreachable):
            if not (self._abandoned or self._failing):
                self._go_away(outcome.reason)
            return self._no_answer()
        if isinstance(outcome, Away):
            self._block(outcome.reason)
            return Away(f"{self.title}: {outcome.reason}", self.title)
        if self.blocked and not isinstance(outcome, Withheld):
            self._block("")
        self._acknowledged += type(outcome) is Acknowledged
        return outcome

    def _no_answer(self) -> Outcome:
        """What becomes of an event that is released. Unreachable while no destination answers: then the engine stops
        claiming. Withheld after a failure of the client, which says nothing about the broker.
        """
        if self._abandoned:
            return Unreachable(self._abandoned)
        if not self.reason:
            return Withheld("another event made the publisher fail")
        reason = f"{self.title}: {self.reason}"
        return Away(reason, self.title) if self._any_answers() else Unreachable(reason)

    # Whether it answers.

    @property
    def state(self) -> DestinationState:
        """The value of ``openoutbox_destination_state``."""
        if self.reason:
            return DestinationState.AWAY
        return DestinationState.BLOCKED if self.blocked else DestinationState.FLOWING

    def _block(self, reason: str) -> None:
        """It takes nothing, or takes events again."""
        was_blocked, self.blocked = self.blocked, reason
        self._blocked_at = asyncio.get_running_loop().time()
        if reason and not was_blocked:
            message = "destination %s answers probes and takes no events: %s"
            logger.error(message, self.name, reason, extra={"action": "destination_blocked", "destination": self.name})
        elif was_blocked and not reason:
            logger.info("destination %s takes events", self.name, extra=self._back)

    async def check(self, timeout: float) -> None:
        """Probe it. Raises BrokerUnreachable without an answer; it is away from then on.

        The engine's knocking and its own share a probe, so that one that is away is asked once an interval.
        """
        clock = asyncio.get_running_loop().time
        async with self._probing:
            if self.reason and clock() - self._unanswered_at < _SHARED * self.options.retry_interval:
                raise BrokerUnreachable(self.reason)
            before, started = self._acknowledged, clock()
            try:
                async with asyncio.timeout(timeout + _PROBE_GRACE):
                    await self.publisher.probe(timeout)
            except Exception as error:  # noqa: BLE001 - whatever a client raises: its knocking must go on
                reason = str(error) or f"no answer within {timeout:g} s"
                if self._acknowledged != before:
                    return  # the probe was only starved
                self._unanswered_at = clock()
                self._time.note_silence(clock() - started)
                self._go_away(reason)
                raise BrokerUnreachable(reason) from None
            self._time.note_answer(clock() - started)
            if self.blocked and clock() - self._blocked_at > self.options.forget_blocked:
                self._block("")
            if self.reason:
                self.reason = ""
                logger.info("destination %s answers", self.name, extra=self._back)

    async def _decide(self) -> None:
        """Decide about timeouts and cuts by a probe of this destination."""
        if not self._undecided:
            return
        try:
            await self.check(self._time.flowing)
        except BrokerUnreachable:
            self._resolve_undecided(lambda _: self._no_answer())
        else:
            self._resolve_undecided(
                lambda outcome: Transient(outcome.code, outcome.reason) if isinstance(outcome, TimedOut) else outcome
            )

    def _resolve_undecided(self, outcome_of: Callable[[TimedOut | ConnectionCut], Outcome]) -> None:
        undecided, self._undecided = self._undecided, []
        by_sink: dict[OutcomeSink, list[Resolution]] = {}
        for event, outcome, sink in undecided:
            by_sink.setdefault(sink, []).append((event, outcome_of(outcome)))
        for sink, resolutions in by_sink.items():
            sink(resolutions)

    def _go_away(self, reason: str) -> None:
        if self.reason:
            self.reason = reason or self.reason
            return
        self.reason = reason or "no answer"
        logger.error(
            "destination %s cannot be reached: %s",
            self.name,
            self.reason,
            extra={"action": "destination_away", "destination": self.name},
        )
        self._start(self._knock())

    async def _knock(self) -> None:
        """Make the client forget what it holds, then probe until there is an answer. A failed probe leaves a client
        behind that may wait for an answer which never comes: so forgetting follows each of them.
        """
        while self.reason:
            await self._forget(self.reason)
            await asyncio.sleep(self.options.retry_interval)
            try:
                await self.check(self._time.away)
            except BrokerUnreachable:
                continue

    # Letting go.

    async def _forget(self, reason: str) -> None:
        """On return the client holds nothing, and everything offered is resolved."""
        for event, sink in await self._let_go(reason):
            sink([(event, self._no_answer())])

    async def _let_go(self, reason: str) -> list[tuple[OutboxEvent, OutcomeSink]]:
        """Likewise, but for what the client had not taken yet of the offer under way: that is returned."""
        waiting, self._waiting = self._waiting, deque()
        for events, sink in waiting:
            sink([(event, self._no_answer()) for event in events])
        if self._publishing is not None:
            self._publishing.cancel()
        async with self._turn:
            try:
                await self.publisher.abandon(reason)
            except PublisherError:
                message = "destination %s could not abandon its messages"
                logger.exception(message, self.name, extra={"action": "abandon_failed"})
            left, self._open = self._open, {}
        self._resolve_undecided(lambda _: self._no_answer())
        return list(left.values())

    async def abandon(self, reason: str) -> None:
        """The engine makes it forget everything; whether it answers is not said by that."""
        self._abandoned = reason
        try:
            await self._forget(reason)
        finally:
            self._abandoned = ""

    async def close(self) -> None:
        """Abandon what is left and close the client; never raises."""
        await self.abandon("the publisher was closed")
        for task in list(self._tasks):
            task.cancel()
        await self.publisher.close()

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
