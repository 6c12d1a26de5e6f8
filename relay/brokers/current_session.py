"""The session in use: opened on demand, replaced after it has ended. Used by NATS, Redis, RabbitMQ, SQS and SNS.

What publishers with one session have in common stands in ``SessionPublisher``: all of these but Redis.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Generic, Protocol, Self, TypeVar

from relay.core.errors import BrokerUnreachable
from relay.core.event import OutboxEvent
from relay.core.outcome import Outcome, OutcomeSink, Unreachable
from relay.core.ports import SingleDestination


class Session(Protocol):
    """A connection to a broker that ends once and is not used again."""

    @property
    def ended_as(self) -> Outcome | None:
        """The outcome of every event that was unanswered when the session ended; None while it is in use."""

    async def offer(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> Sequence[OutboxEvent]:
        """Send the events, in order; returns those that were not sent because the connection was cut."""


_MOST_CUT_UNSENT = 2  # sessions in a row

S = TypeVar("S", bound=Session)
O = TypeVar("O")  # noqa: E741 - of options


class CurrentSession(Generic[S]):
    """Holds at most one session and at most one attempt to connect."""

    def __init__(self, connect: Callable[[], Coroutine[Any, Any, S]]) -> None:
        """``connect`` returns a new session or raises BrokerUnreachable; it must leave nothing open when cancelled."""
        self._connect = connect
        self._attempt: asyncio.Task[S] | None = None
        self._session: S | None = None
        self._abandon_reason = ""

    async def publish(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> None:
        """Send the events; what a session could not send before it was cut goes over the next one.

        Without a connection the rest is unreachable. So it is when two sessions in a row were cut before they sent
        anything: the first may have waited for room among earlier events, the second carried none.
        """
        rest, cut_unsent = events, 0
        while rest:
            try:
                session = await self.get()
                left = await session.offer(rest, sink)
                cut_unsent = cut_unsent + 1 if len(left) == len(rest) else 0
                if cut_unsent == _MOST_CUT_UNSENT:
                    raise BrokerUnreachable("the broker cuts each connection before anything is sent")
            except BrokerUnreachable as error:
                lost = Unreachable(str(error))
                sink([(event, lost) for event in rest])
                return
            rest = left

    @property
    def in_use(self) -> S | None:
        """The session that events are sent over; None without one."""
        return None if self._session is None or self._session.ended_as is not None else self._session

    async def get(self) -> S:
        """Return the session in use, or connect. Concurrent callers share one attempt. Raises BrokerUnreachable."""
        if (session := self.in_use) is not None:
            return session
        if self._attempt is None or self._attempt.done():
            self._attempt = asyncio.create_task(self._connect())
        attempt = self._attempt
        # Publish and probe wait for the same attempt. ``wait`` leaves the attempt running when one of the two callers
        # is cancelled (a probe's timeout); awaiting the task itself would cancel it for the other one too.
        await asyncio.wait({attempt})
        if attempt.cancelled():
            raise BrokerUnreachable(self._abandon_reason)
        self._session = attempt.result()
        return self._session

    async def give_up(self, reason: str) -> S | None:
        """Cancel a running attempt; return the session for the caller to end, or None without one."""
        self._abandon_reason = reason
        if self._attempt is not None and not self._attempt.done():
            self._attempt.cancel()
            await asyncio.wait({self._attempt})
        # The attempt may have succeeded before the cancellation reached it; its session must be ended too.
        if self._attempt is not None and not self._attempt.cancelled() and self._attempt.exception() is None:
            self._session = self._attempt.result()
        return self._session


class SessionPublisher(SingleDestination, ABC, Generic[O, S]):
    """The part of a ``Publisher`` that sends over one session at a time."""

    keeps_runs = False

    def __init__(self, options: O) -> None:
        self._options = options
        self._current = CurrentSession(self._connect)

    async def publish(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> None:
        """Offer every event, what is left after a cut over a new connection; without one all are unreachable."""
        await self._current.publish(events, sink)

    @abstractmethod
    async def abandon(self, reason: str) -> None: ...

    async def close(self) -> None:
        await self.abandon("the publisher was closed")

    def twin(self) -> Self:
        return type(self)(self._options)

    @abstractmethod
    async def _connect(self) -> S: ...
