"""The session in use: opened on demand, replaced after it has ended. Used by NATS and Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Generic, Protocol, TypeVar

from relay.core.errors import BrokerUnreachable
from relay.core.event import OutboxEvent
from relay.core.outcome import Outcome, OutcomeSink, Unreachable


class Session(Protocol):
    """A connection to a broker that ends once and is not used again."""

    @property
    def ended_as(self) -> Outcome | None:
        """The outcome of every event that was unanswered when the session ended; None while it is in use."""

    async def offer(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> None:
        """Write every event, in order; after its end the session resolves them as ``ended_as``."""


S = TypeVar("S", bound=Session)


class CurrentSession(Generic[S]):
    """Holds at most one session and at most one attempt to connect."""

    def __init__(self, connect: Callable[[], Coroutine[Any, Any, S]]) -> None:
        """``connect`` returns a new session or raises BrokerUnreachable; it must leave nothing open when cancelled."""
        self._connect = connect
        self._attempt: asyncio.Task[S] | None = None
        self._session: S | None = None
        self._abandon_reason = ""

    async def publish(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> None:
        """Offer every event to the session; without a connection all of them are unreachable at once."""
        if not events:
            return
        try:
            session = await self.get()
        except BrokerUnreachable as error:
            lost = Unreachable(str(error))
            sink([(event, lost) for event in events])
        else:
            await session.offer(events, sink)

    async def get(self) -> S:
        """Return the session in use, or connect. Concurrent callers share one attempt. Raises BrokerUnreachable."""
        if self._session is not None and self._session.ended_as is None:
            return self._session
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
