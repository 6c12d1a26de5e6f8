"""Stores that are read in an event loop and thread of their own, beside the loop that serves requests.

Decoding and encoding many rows takes long: a count with 100,000 rows takes seconds of Python, and would hold every
other request meanwhile. Python switches between the two threads every few milliseconds.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, Generic, Protocol, TypeVar

from relay.console.problems import RequestProblem

T = TypeVar("T")

MOST_REQUESTS: Final = 8
"""Requests that read one store at once; further ones are refused with 429."""
_CLOSED_WITHIN: Final = 2.0  # seconds


class Closable(Protocol):
    """A store."""

    async def close(self) -> None:
        """Close its connections."""


S = TypeVar("S", bound=Closable)


class StoreThread(Generic[S]):
    """One store for all requests, opened when it is needed first. Any loop's tasks may read it."""

    def __init__(self, name: str, opened: Callable[[], Awaitable[S]]) -> None:
        """``opened`` is awaited in the store's loop; ``name`` is for messages."""
        self._name = name
        self._opened = opened
        self._side = _SideLoop(name)
        self._opening = asyncio.Lock()  # binds to the loop that uses it first, which is the side loop
        self._store: S | None = None
        self._running = 0

    async def read(self, work: Callable[[S], Awaitable[T]]) -> T:
        """Await ``work`` with the open store, in the store's loop: encode large answers within it.

        Raises RequestProblem while ``MOST_REQUESTS`` read it, and what opening and ``work`` raise.
        """
        if self._running >= MOST_REQUESTS:
            message = f"{MOST_REQUESTS} requests read the {self._name}; try again in a second"
            raise RequestProblem(429, "busy", message, {"Retry-After": "1"})
        self._running += 1
        try:
            return await self._side.run(self._with_store(work))
        finally:
            self._running -= 1

    async def close(self) -> None:
        """Close the store, if it is open; never raises."""
        await self._side.close(self._close_store())

    async def _with_store(self, work: Callable[[S], Awaitable[T]]) -> T:
        async with self._opening:  # two requests at once must not open two stores
            if self._store is None:
                self._store = await self._opened()
        return await work(self._store)

    async def _close_store(self) -> None:
        if self._store is not None:
            await self._store.close()


class _SideLoop:
    """Runs coroutines of any other loop's tasks. The first one starts the thread."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread()  # until there is a loop, one that never started

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Await ``work`` in the other loop; raises what it raises. Cancelling this cancels it."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._started()))

    async def close(self, last: Coroutine[Any, Any, None]) -> None:
        """Await ``last`` for two seconds at most, and end the thread; without a thread nothing runs. Never raises."""
        loop, self._loop = self._loop, None
        if loop is None:
            last.close()
            return
        with suppress(Exception):  # the process ends: no error of a database matters any more
            ending = asyncio.run_coroutine_threadsafe(last, loop)
            await asyncio.wait_for(asyncio.wrap_future(ending), _CLOSED_WITHIN)
        loop.call_soon_threadsafe(loop.stop)
        await asyncio.to_thread(self._thread.join, _CLOSED_WITHIN)

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(self._loop,), name=self._name, daemon=True)
                self._thread.start()
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()
