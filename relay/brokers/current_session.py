"""The session in use: opened on demand, replaced after it has ended. Used by NATS and Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar

from relay.core.errors import BrokerUnreachable
from relay.core.outcome import Outcome


class Session(Protocol):
    """A connection to a broker that ends once and is not used again."""

    @property
    def ended_as(self) -> Outcome | None:
        """The outcome of every event that was unanswered when the session ended; None while it is in use."""


S = TypeVar("S", bound=Session)


class CurrentSession(Generic[S]):
    """Holds at most one session and at most one attempt to connect."""

    def __init__(self, connect: Callable[[], Coroutine[Any, Any, S]]) -> None:
        """``connect`` returns a new session or raises BrokerUnreachable; it must leave nothing open when cancelled."""
        self._connect = connect
        self._attempt: asyncio.Task[S] | None = None
        self._session: S | None = None
        self._abandon_reason = ""

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
