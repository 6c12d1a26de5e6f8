"""A session on which many messages wait for an answer each: what the sessions of NATS and RabbitMQ have in common.

Each message has a number on its connection, and the broker answers by that number. ``_pending`` alone says what is
unanswered: the code that removes an entry resolves its event, so an event is resolved at most once, and a late answer
has no entry. What a broker lets wait elsewhere is in ``_take_unanswered``.

Events are offered in slices. A slice is one write to the socket, and between two slices other work of the event loop
gets its turn. Whether an event may be offered is decided before it is noted in ``_pending``; from then on until the
write nothing waits, so that an event is in ``_pending`` exactly if its bytes are with the socket. A connection that is
cut cuts off what is in ``_pending``, part of a slice or not, and nothing else.

A session ends once and is not used again. It aborts its connection, since an orderly close would first send what is
still buffered.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Protocol

from relay.brokers.entries import Entry, resolve
from relay.brokers.sending import SendProgress
from relay.core.event import OutboxEvent
from relay.core.outcome import ConnectionCut, Outcome, OutcomeSink, Unreachable

SLICE_BYTES: Final = 1 << 18
"""Bytes written at once, and one message beyond."""
MOST_UNSENT: Final = 1 << 21
"""Bytes that wait for the socket."""
_SLICE: Final = 100  # messages offered before other work of the event loop gets its turn (1 to 2 ms)
_ROOM_POLL: Final = 0.005  # seconds between two looks for room
_SWEEP: Final = 0.05  # seconds between two looks for missing answers, at least
_LATE: Final = 0.2  # seconds that a look may be late because other work of the event loop was in its way


class Wire(Protocol):
    """The connection below a session."""

    sending: SendProgress

    @property
    def unsent(self) -> int:
        """Bytes that wait for the socket."""

    def cut(self) -> None:
        """Abort it: nothing that is buffered is sent."""


class PipelineLimits(Protocol):
    """What a broker's options say about its sessions."""

    @property
    def max_pending(self) -> int:
        """Maximum number of unanswered messages."""

    @property
    def publish_timeout(self) -> float:
        """Seconds from the write of a message to its answer."""


class PipelinedSession(ABC):
    """See the module's text."""

    def __init__(self, limits: PipelineLimits, wire: Wire) -> None:
        self.ended_as: Unreachable | ConnectionCut | None = None
        """None until the end; then the outcome of every event that was still unanswered."""
        self._limits = limits
        self._wire = wire
        self._pending: dict[int, tuple[Entry, float, int]] = {}
        """Entry, deadline, and with which byte of the connection the event ends, by number."""
        self._number = 0
        """Of the message that was noted last."""
        self._blocked = False
        """Whether the server has said that it takes nothing: then offers wait, and no timeout runs."""
        self._answered: list[tuple[Entry, Outcome]] = []
        self._room = asyncio.Event()
        self._enough = 0
        """How many events an offer waits to have room for."""
        self._loop = asyncio.get_running_loop()
        self._sweeper: asyncio.TimerHandle | None = None
        self._sweep_due = 0.0
        """On the event loop's clock, in seconds."""

    @abstractmethod
    async def _send(self, entries: Sequence[Entry]) -> int:
        """Note and write as many as one write takes; returns how many it came to. Resolves what cannot be sent."""

    @abstractmethod
    def _silence(self, event: OutboxEvent) -> Outcome:
        """The outcome of an event whose answer is overdue."""

    def _notice_loss(self) -> None:  # noqa: B027  # most connections say that they are lost
        """End when the connection is lost without a sign. Called before each look for room, and by the sweep."""

    def _take_unanswered(self) -> list[Entry]:
        """Hand over what has no outcome and is not in ``_pending``; called once, at the end."""
        return []

    async def offer(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> Sequence[OutboxEvent]:
        """Publish every event, in order; waits while too many are unanswered or the server is blocked.

        Returns those that it did not come to before the connection was cut.
        """
        at = 0
        while at < len(events):
            await self._wait_for_room(len(events) - at)
            if isinstance(self.ended_as, ConnectionCut):
                return events[at:]
            if self.ended_as is not None:
                sink([(lost, self.ended_as) for lost in events[at:]])
                return ()
            part = events[at : at + min(_SLICE, self._limits.max_pending - len(self._pending))]
            at += await self._send([(event, sink) for event in part])
            if at < len(events):
                await asyncio.sleep(0)
        return ()

    async def _wait_for_room(self, wanted: int) -> None:
        """Wait until many of the ``wanted`` events can go, or the session ends.

        Room comes from answers, from the socket as it takes what was published, and from a server that is not blocked
        any more. Waiting for room for many saves a turn, and a write, for each of them.
        """
        self._notice_loss()
        while self.ended_as is None and not self._has_room(enough := min(wanted, self._limits.max_pending // 4 or 1)):
            self._room.clear()
            self._enough = enough  # of several offers that wait, the last one decides; the others look again
            with suppress(TimeoutError):  # the socket takes bytes without a sign: look again
                await asyncio.wait_for(self._room.wait(), _ROOM_POLL)
            self._notice_loss()

    def _has_room(self, events: int) -> bool:
        if self._blocked:
            return False
        return self._limits.max_pending - len(self._pending) >= events and self._wire.unsent < MOST_UNSENT

    def _note(self, entry: Entry, deadline: float, end: int) -> int:
        """Note an event as unanswered, whose message ends with this byte of the connection; returns its number."""
        self._number = number = self._number + 1
        self._pending[number] = (entry, deadline, end)
        if self._sweeper is None:
            self._sweep_at(deadline)
        return number

    def _answer(self, number: int, outcome: Outcome) -> None:
        """Note an outcome; the sinks get all outcomes of one event-loop turn together."""
        if (waiting := self._pending.pop(number, None)) is not None:
            if not self._answered:
                self._loop.call_soon(self._report)
            self._answered.append((waiting[0], outcome))

    def _report(self) -> None:
        answered, self._answered = self._answered, []
        resolve(answered)
        if self._has_room(self._enough):
            self._room.set()

    def _sweep(self) -> None:
        """Time out overdue answers; ``_pending`` is ordered by what is written first.

        The timeout begins again for an event whose bytes were on their way over a slow link when any left last, and
        stands still while the server is blocked. A process that was stopped reads first what has arrived meanwhile.
        """
        self._notice_loss()
        sending, timeout = self._wire.sending, self._limits.publish_timeout
        now, due, self._sweeper = self._loop.time(), self._sweep_due, None
        sending.look(now)
        overdue = []
        for number, (entry, noted, end) in self._pending.items():
            deadline = noted
            since = now if self._blocked else sending.seen_leaving(end)
            if noted <= now < since + timeout:
                deadline = since + timeout
                self._pending[number] = (entry, deadline, end)
            if deadline > now or now - due > _LATE:
                self._sweep_at(max(deadline, now + _SWEEP))
                break
            overdue.append((number, entry[0]))
        for number, event in overdue:
            self._answer(number, self._silence(event))

    def _sweep_at(self, due: float) -> None:
        self._sweep_due = due
        self._sweeper = self._loop.call_at(due, self._sweep)

    def _end(self, outcome: Unreachable | ConnectionCut) -> None:
        """Cut the connection; on return everything is resolved, what was unanswered as ``outcome``."""
        if self.ended_as is not None:
            return
        self.ended_as = outcome
        self._wire.cut()
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._report()
        lost, self._pending = [*self._take_unanswered(), *(entry for entry, _, _ in self._pending.values())], {}
        resolve((entry, outcome) for entry in lost)
        self._room.set()
