"""Ways to wait: for an event with a limit, ever longer after repeated failures, and between two claims."""

from __future__ import annotations

import asyncio
import random
from typing import Final

_LIVELY: Final = 0.05  # seconds after the last events for which more of them are expected
_SHORTEST_REST: Final = 0.001  # seconds
_LONGEST_LIVELY_REST: Final = 0.005  # seconds
_MOST_IN_VAIN: Final = 50  # claims
_IN_VAIN_A_SECOND: Final = 20.0
_REST_PER_EVENT: Final = 0.00025  # seconds; a claim costs the database about as much as 10 more events in the next one


async def wait_event(event: asyncio.Event, seconds: float) -> bool:
    """Wait until ``event`` is set, at most ``seconds``; says whether it is."""
    if event.is_set():
        return True
    try:
        async with asyncio.timeout(max(seconds, 0.0)):
            await event.wait()
    except TimeoutError:
        return False
    return True


class Patience:
    """Growing, jittered pauses between tries of something that keeps failing."""

    def __init__(self, first: float = 0.1, longest: float = 3.0) -> None:
        self._first = first
        self._longest = longest
        self._next = first

    def reset(self) -> None:
        """The thing worked: begin with a short pause next time."""
        self._next = self._first

    async def pause(self) -> None:
        """Wait, and wait longer the next time."""
        delay = self._next * (0.75 + 0.5 * random.random())
        self._next = min(self._next * 2, self._longest)
        await asyncio.sleep(delay)


class Polling:
    """How long to rest between two claims. Times are seconds on one steady clock.

    While the last 50 ms brought an event, 1 ms: an event waits hardly longer than the claim takes. A rest is as long as
    the last claim took, so that claims keep one of the database's processes busy for half of the time at most; and
    longer the more events that claim brought, since few large claims cost less than many small ones. 5 ms is enough
    for both. Afterwards each rest is twice as long as the one before, up to ``longest``.
    """

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._lively_until = float("-inf")
        self._next = _SHORTEST_REST

    def expect_events(self, now: float) -> None:
        """Rest briefly for a while: there were events, or there may be some."""
        self._lively_until = now + _LIVELY
        self._next = _SHORTEST_REST

    def rest(self, events: int, took: float, now: float) -> float:
        """How long to rest after a claim that ``took`` so long and brought ``events``."""
        if events:
            self.expect_events(now)
        if now < self._lively_until:
            rest = min(max(_SHORTEST_REST, took, events * _REST_PER_EVENT), _LONGEST_LIVELY_REST)
        else:
            rest = self._next
            self._next = min(2 * rest, self._longest)
        return min(rest, self._longest) * (0.9 + 0.1 * random.random())


class WakeUpBudget:
    """How many claims wake-ups may cause that bring no event: every session that may connect can send wake-ups.

    A claim that brings events refills it, and time does. Half of it is for brief rests after a wake-up, as after an
    event. With the other half a wake-up causes one claim, and with none of it left it causes none: polls go on.
    """

    def __init__(self) -> None:
        self._left = float(_MOST_IN_VAIN)
        self._at = float("-inf")
        self._heard = float("-inf")

    @property
    def is_plenty(self) -> bool:
        """Whether a wake-up may be followed by brief rests."""
        return self._left > _MOST_IN_VAIN / 2

    def hear(self, now: float) -> bool:
        """A wake-up has come: whether it may cause a claim."""
        self._left = min(self._left + (now - self._at) * _IN_VAIN_A_SECOND, float(_MOST_IN_VAIN))
        self._at = now
        if self._left < 1.0:
            return False
        self._heard = now
        return True

    def claimed(self, events: int, now: float) -> None:
        """A claim has brought ``events``."""
        if events:
            self._left = float(_MOST_IN_VAIN)
        elif now - self._heard < 2 * _LIVELY:
            self._left -= 1.0
