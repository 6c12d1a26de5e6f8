"""An event loop whose time passes only when nothing is left to do: minutes of timeouts in a moment, each run alike."""

from __future__ import annotations

import asyncio
import os
import random
import selectors
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class _Skip(selectors.DefaultSelector):  # select's own takes no descriptor above 1,023
    """Never waits, and asks for nothing: there are no sockets. What the loop would have waited is added to its time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("everything waits, and nothing is left that could wake it")
        if timeout > 0.0:
            self.now += timeout
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """For code that waits by the loop alone: no sockets, no threads, no other clock."""

    def __init__(self) -> None:
        # Pauses are jittered: with another seed each run would be another history.
        random.seed(int(os.environ.get("OPENOUTBOX_TEST_SEED", "0")))
        self._skip = _Skip()
        super().__init__(self._skip)

    def time(self) -> float:
        """Seconds since the loop was made, by its own reckoning."""
        return self._skip.now

    def pass_time(self, seconds: float) -> None:
        """Let everything run for that long."""
        self.run_until_complete(virtual_sleep(seconds))

    def call(self, work: Callable[[], T]) -> T:
        """Call what expects to be called by something that runs in the loop."""

        async def within() -> T:
            return work()

        return self.run_until_complete(within())

    def end(self) -> None:
        """Cancel what is left and close."""
        tasks: set[asyncio.Task[Any]] = asyncio.all_tasks(self)
        for task in tasks:
            task.cancel()
        if tasks:
            self.run_until_complete(asyncio.wait(tasks))
        self.close()


async def virtual_sleep(seconds: float) -> None:
    """Let virtual time pass. Raises TypeError in an event loop whose time is real."""
    if not isinstance(asyncio.get_running_loop(), VirtualTimeLoop):
        raise TypeError("this event loop's time is real: wait by tests.support.waiting")
    await asyncio.sleep(seconds)
