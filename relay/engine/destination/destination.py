"""What decides that a destination does not answer: its probe, its pace, and its state, for one destination or many.

    state    begins when                           ends when                its events            log line
    flowing                                                                 are claimed
    slow     an event has waited 5 s for its       none has for 30 s        are claimed           destination_slow
             answer
    blocked  the broker says that it takes         an event is answered     wait, no attempt;     destination_blocked
             nothing, or an event came back for                             one is tried now
             that                                                           and then
    away     an event came back unreachable, or    a probe is answered      wait, no attempt      destination_away
             a probe got no answer
    refused  a probe's login or TLS handshake      a probe is answered      wait, no attempt      destination_refused
             was refused

Each state but flowing has an alert (docs/operate/alerts.md); ``destination_back`` is the log line of its end.
``relay.engine.gate`` is the destination of a whole relay: while it does not answer, nothing is claimed.
``relay.engine.destination.member`` is one of several: while it does not answer, its own events wait.
``relay.engine.destination.parts`` has the states of what can fail on its own within one.

A timeout alone decides nothing (docs/reference/messages.md#errors): its events are undecided until a probe with a
deadline of its own has ended. Acknowledgements that came during a probe outweigh one that was only starved. A
destination that goes away makes its client forget what it holds and releases it. While it is away, one probe goes out
per retry interval; ``probetime`` says how long it may take. One that goes away and is found again over and over waits
the interval in between, too. A failed probe leaves a client behind that may wait for an answer which never comes: so
forgetting follows each of them.

``run`` is the only task that forgets; any other code may call ``shut``, which wakes it.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from relay.core.destination import DestinationState, WatchedDestination
from relay.core.durations import in_words
from relay.core.errors import BrokerRefused, BrokerUnreachable
from relay.core.event import OutboxEvent
from relay.core.ports import Publisher
from relay.engine.destination.parts import PROBE_GRACE, SHARED, WatchedParts, forgotten_after
from relay.engine.destination.probetime import ProbeTime
from relay.engine.destination.watched import Watched
from relay.engine.waiting import wait_event


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """In seconds."""

    retry_interval: float
    """Between two probes of a destination that does not answer."""
    probe_timeout: float = 5.0
    connection_timeout: float = 0.0
    """See ``EngineOptions``."""
    health_check_interval: float = float("inf")
    """Between two probes of one that answers; infinite where another task calls ``check``."""


class Destination(Watched, ABC):
    """See the module's text. Everything runs in the event loop's thread."""

    def __init__(
        self,
        name: str,
        publisher: Publisher,
        times: Times,
        clock: Callable[[], float],
        attention: asyncio.Event,
        reason: str = "",
        parts: WatchedParts | None = None,
    ) -> None:
        """``attention`` is set when there is something to look at; ``reason`` is why it does not answer as yet."""
        super().__init__(name, clock)
        self.publisher = publisher
        self.times = times
        self._parts = WatchedParts(name, publisher, clock, times.retry_interval) if parts is None else parts
        self._why = {DestinationState.AWAY: reason} if reason else {}
        self._attention = attention
        self._opened = asyncio.Event()
        if not reason:
            self._opened.set()
        self._closed_at = self._unanswered_at = self._next_knock = float("-inf")
        self._blocked_at = 0.0
        """When an event came back for that last."""
        self._forget_for = ""
        """Why the client must forget what it holds, while ``run`` has not seen to it."""
        self._probing = asyncio.Lock()
        self._time = ProbeTime(times.probe_timeout, times.retry_interval, times.connection_timeout)

    # What differs between a whole relay and one of several.

    @property
    @abstractmethod
    def acknowledged(self) -> int:
        """Acknowledgements since the start: progress is a sign of life."""

    @property
    @abstractmethod
    def undecided(self) -> Collection[OutboxEvent]:
        """The events whose timeouts or cuts wait for a probe."""

    @abstractmethod
    def decide_undecided(self) -> None:
        """A probe was answered: timeouts are failed attempts, cuts are suspect, but for a part that does not answer."""

    @abstractmethod
    async def forget(self, reason: str) -> None:
        """Make the client forget what it holds, and release it, with what is undecided. No attempt is used."""

    def reported_unreachable(self) -> str:
        """Why an event came back unreachable; empty where none did, or ``shut`` was called for it."""
        return ""

    def look(self) -> None:
        """Look at one that answers, after a probe, and when events came back or are answered again."""

    # The same for both.

    @property
    def is_open(self) -> bool:
        """Whether events may be offered."""
        return self._opened.is_set()

    async def wait_open(self) -> None:
        """Return as soon as it answers."""
        await self._opened.wait()

    @property
    def reason(self) -> str:
        """Why it does not answer; empty while it does."""
        return self._why.get(DestinationState.AWAY, "")

    @property
    def blocked(self) -> str:
        """Why it takes nothing although it answers; empty while it does."""
        return self._why.get(DestinationState.BLOCKED, "")

    @property
    def parts(self) -> Mapping[str, WatchedDestination]:
        """Those that do not flow, by name; none while no part of it answers."""
        return {} if self.reason else self._parts.shown

    async def run(self) -> None:
        """Watch it while it answers, probe it until it does, without end."""
        self._began = self._clock()
        while True:
            if self._forget_for:
                reason, self._forget_for = self._forget_for, ""
                await self.forget(reason)
            elif self.is_open:
                await self._watch()
            else:
                await self._knock()

    async def _watch(self) -> None:
        if not await wait_event(self._attention, self.times.health_check_interval):
            with suppress(BrokerUnreachable):
                await self.check(self._time.flowing)
                self.look()
            return
        # Cleared before it is attended to: an outcome that comes during the probe calls for another look.
        self._attention.clear()
        if reason := self.reported_unreachable():
            self.shut(reason)
        elif self.undecided:
            with suppress(BrokerUnreachable):
                await self.check(self._time.flowing)
                await self._parts.probe(self.undecided, self._time.flowing)
                if self.is_open:  # else ``run`` makes the client forget, and that decides
                    self.decide_undecided()
        else:
            self.look()

    async def _knock(self) -> None:
        await asyncio.sleep(max(0.0, self._next_knock - self._clock()))
        self._next_knock = self._clock() + self.times.retry_interval
        with suppress(BrokerUnreachable):
            await self.check(self._time.away)

    async def check(self, timeout: float) -> None:
        """Probe it. Raises BrokerUnreachable without an answer; it is away from then on.

        All callers share a probe that got no answer, so that one that is away is asked once an interval.
        """
        interval = self.times.retry_interval
        async with self._probing:
            if self.reason and self._clock() - self._unanswered_at < SHARED * interval:
                raise BrokerUnreachable(self.reason)
            before, began = self.acknowledged, self._clock()
            try:
                async with asyncio.timeout(timeout + PROBE_GRACE):
                    await self.publisher.probe(timeout)
            except Exception as error:  # noqa: BLE001 - whatever a client raises: the knocking must go on
                if self.acknowledged == before:
                    self._time.note_silence(self._clock() - began)
                    reason = str(error) or f"no answer within {in_words(timeout)}"
                    self.shut(reason, refused=isinstance(error, BrokerRefused))
                    self._unanswered_at, self._next_knock = began, max(self._next_knock, began + interval)
                    raise BrokerUnreachable(reason) from None
            else:
                self._time.note_answer(self._clock() - began)
            if self.reason:
                self._forget_for = ""
                self.note({DestinationState.AWAY: "", DestinationState.REFUSED: ""}, "answers")
                self._opened.set()
                self._attention.set()  # what is undecided is looked at once more, since nothing is forgotten now
            if self.blocked and self._clock() - self._blocked_at > forgotten_after(self.times.retry_interval):
                self.block("")

    def shut(self, reason: str, *, refused: bool | None = None) -> None:
        """It does not answer: nothing is offered from here on, and ``run`` makes the client forget what it holds.

        ``refused``: whether it refuses the login or the TLS handshake, where a probe found out.
        """
        if self.is_open:
            now = self._clock()
            if now - self._closed_at < self.times.retry_interval:
                self._next_knock = max(self._next_knock, now + self.times.retry_interval)
            self._closed_at = now
            # Closed before ``run`` forgets: no other task offers from here on, so forgetting leaves nothing behind.
            self._opened.clear()
        reason = self._forget_for = reason or self.reason or "no answer"
        refused = DestinationState.REFUSED in self._why if refused is None else refused
        self.note({DestinationState.AWAY: reason, DestinationState.REFUSED: reason if refused else ""})
        self._attention.set()

    def block(self, reason: str) -> None:
        """It takes nothing although it answers, or, with an empty reason, takes events again."""
        self._blocked_at = self._clock()
        self.note({DestinationState.BLOCKED: reason}, "takes events")


def troubles(destinations: Iterable[WatchedDestination]) -> dict[str, str]:
    """Those that do not flow, and parts of them: what they are like, since when and why."""
    each = [one for whole in destinations for one in (whole, *whole.parts.values())]
    return {one.title: str(one.condition) for one in each if one.state is not DestinationState.FLOWING}
