"""Two ways to wait: for an event with a limit, and ever longer after repeated failures."""

from __future__ import annotations

import asyncio
import random


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
