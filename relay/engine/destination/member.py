"""One of several destinations: its publisher, its state, and what was offered to it.

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
from functools import partial
from typing import Any

from relay.core.errors import PublisherError
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
from relay.engine.destination.destination import Destination, Times

logger = logging.getLogger(__name__)


class Member(Destination):
    """A destination by its name. Everything runs in the event loop's thread."""

    def __init__(self, name: str, publisher: Publisher, times: Times, any_answers: Callable[[], bool]) -> None:
        """``any_answers`` says whether some destination answers, this one or another."""
        super().__init__(publisher, times, lambda: asyncio.get_running_loop().time(), asyncio.Event(), reason="")
        self.name = name
        self.title = f"destination {name}"
        """Its name in reasons and in /readyz."""
        self._any_answers = any_answers
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
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Make the client, and begin to watch. Raises ConfigError."""
        await self.publisher.open()
        self._start(self.run())

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
            self._attention.set()
        if passed:
            sink(passed)

    def _learn(self, outcome: Outcome) -> Outcome:
        """What an outcome says of this destination, and what becomes of it for the engine."""
        if isinstance(outcome, Unreachable):
            if not (self._abandoned or self._failing):
                self.shut(outcome.reason)
            return self._no_answer()
        if isinstance(outcome, Away):
            self.block(outcome.reason)
            return Away(f"{self.title}: {outcome.reason}", self.title)
        if self.blocked and not isinstance(outcome, Withheld):
            self.block("")
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

    # What a destination says and decides.

    @property
    def acknowledged(self) -> int:
        """By this destination."""
        return self._acknowledged

    @property
    def undecided(self) -> bool:
        """Of what was offered to this destination."""
        return bool(self._undecided)

    def decide_undecided(self) -> None:
        """A cut is passed on."""
        self._resolve_undecided(
            lambda outcome: Transient(outcome.code, outcome.reason) if isinstance(outcome, TimedOut) else outcome
        )

    def say_away(self, *, again: bool) -> None:
        """Once."""
        if not again:
            self._say(logging.ERROR, "away", "destination %s cannot be reached: %s", self.name, self.reason)

    def say_back(self) -> None:
        """Likewise."""
        self._say(logging.INFO, "back", "destination %s answers", self.name)

    def say_blocked(self, *, over: bool) -> None:
        """Likewise."""
        if over:
            self._say(logging.INFO, "back", "destination %s takes events", self.name)
        else:
            message = "destination %s answers probes and takes no events: %s"
            self._say(logging.ERROR, "blocked", message, self.name, self.blocked)

    def _say(self, level: int, what: str, message: str, *values: str) -> None:
        logger.log(level, message, *values, extra={"action": f"destination_{what}", "destination": self.name})

    def _resolve_undecided(self, outcome_of: Callable[[TimedOut | ConnectionCut], Outcome]) -> None:
        undecided, self._undecided = self._undecided, []
        by_sink: dict[OutcomeSink, list[Resolution]] = {}
        for event, outcome, sink in undecided:
            by_sink.setdefault(sink, []).append((event, outcome_of(outcome)))
        for sink, resolutions in by_sink.items():
            sink(resolutions)

    # Letting go.

    async def forget(self, reason: str) -> None:
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
            await self.forget(reason)
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
