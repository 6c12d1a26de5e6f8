"""One connection at a time, made when somebody needs it and made anew after it ended; used by NATS and Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, Protocol, TypeVar

from relay.core.errors import BrokerUnreachable
from relay.core.outcome import Outcome


class Ending(Protocol):
    """A connection that ends once and says so."""

    @property
    def ended_as(self) -> Outcome | None:
        """None while it is in use."""


Wire = TypeVar("Wire", bound=Ending)


class OneConnection(Generic[Wire]):
    """The connection in use, if any, and the attempt to make one, if any."""

    def __init__(self, connect: Callable[[], Coroutine[Any, Any, Wire]]) -> None:
        """``connect`` makes a connection or raises BrokerUnreachable; it bears being cancelled."""
        self._connect = connect
        self._attempt: asyncio.Task[Wire] | None = None
        self._current: Wire | None = None
        self._given_up = ""

    async def get(self) -> Wire:
        """The connection in use, or a new one. Raises BrokerUnreachable. All who ask meanwhile share one attempt."""
        if self._current is not None and self._current.ended_as is None:
            return self._current
        if self._attempt is None or self._attempt.done():
            self._attempt = asyncio.create_task(self._connect())
        attempt = self._attempt
        await asyncio.wait({attempt})
        if attempt.cancelled():
            raise BrokerUnreachable(self._given_up)
        self._current = attempt.result()
        return self._current

    async def give_up(self, reason: str) -> Wire | None:
        """Stop an attempt that is under way; the connection for the caller to end, if there is one."""
        self._given_up = reason
        if self._attempt is not None and not self._attempt.done():
            self._attempt.cancel()
            await asyncio.wait({self._attempt})
        if self._attempt is not None and not self._attempt.cancelled() and self._attempt.exception() is None:
            self._current = self._attempt.result()
        return self._current
