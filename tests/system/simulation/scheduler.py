"""Virtual time for several processes at once: one clock, one queue, and an event loop of its own for each process.

A process can freeze (its callbacks wait until it wakes, while the clock goes on) and die (its callbacks never run).
Whatever is due at one moment runs in the order in which it became due, so a history depends on its seed alone.
"""

from __future__ import annotations

import asyncio
import heapq
from asyncio.events import _set_running_loop
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar

T = TypeVar("T")

_MOST_CALLBACKS = 200_000
"""Callbacks at one moment of virtual time: more means that a loop of the engine spins."""


class Spinning(AssertionError):
    """A process goes on without ever waiting for time to pass."""


class Scheduler:
    """The clock and what is due. ``run`` lets time pass."""

    def __init__(self) -> None:
        self.now = 0.0
        self._ready: deque[Handle] = deque()
        self.add_ready = self._ready.append
        """A process has something to do now."""
        self._timers: list[tuple[float, int, Handle | Callable[[], None]]] = []
        self._count = 0

    def at(self, when: float, work: Callable[[], None]) -> None:
        """Call ``work`` at that time, outside all processes."""
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, work))

    def after(self, seconds: float, work: Callable[[], None]) -> None:
        """Call ``work`` after that many seconds, outside all processes."""
        self.at(self.now + seconds, work)

    def add_timer(self, handle: Handle) -> None:
        """A process waits for a time."""
        self._count += 1
        heapq.heappush(self._timers, (handle.when(), self._count, handle))

    def run(self, until: float) -> None:
        """Let time pass until then."""
        timers = self._timers
        while True:
            if self._ready:
                self._run_ready()
            if not timers or timers[0][0] > until:
                break
            when, _, due = heapq.heappop(timers)
            self.now = max(self.now, when)
            if type(due) is Handle:
                if not due.is_cancelled:
                    self._ready.append(due)
            else:
                due()  # type: ignore[operator]
        self.now = max(self.now, until)

    def _run_ready(self) -> None:
        ready = self._ready
        running: Process | None = None
        left = _MOST_CALLBACKS
        try:
            while ready:
                handle = ready.popleft()
                if handle.is_cancelled:
                    continue
                process = handle.process
                if process.frozen or process.dead:
                    process.parked.append(handle)
                    continue
                if process is not running:
                    _set_running_loop(process)
                    running = process
                try:
                    if handle.context is None:
                        handle.callback(*handle.args)
                    else:
                        handle.context.run(handle.callback, *handle.args)
                except Exception as error:  # noqa: BLE001 - goes where asyncio reports those that no task awaits
                    process.call_exception_handler({"message": f"in {handle.callback}", "exception": error})
                left -= 1
                if not left:
                    raise Spinning(f"{process.name} goes on without waiting")
        finally:
            _set_running_loop(None)


class Handle:
    """A callback of a process that is due, or will be at ``at``; what asyncio needs of its own handles, and less."""

    __slots__ = ("args", "at", "callback", "context", "is_cancelled", "process")

    def __init__(
        self,
        process: Process,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context | None,
        at: float,
    ) -> None:
        self.process = process
        self.callback = callback
        self.args = args
        self.context = context
        self.at = at
        self.is_cancelled = False

    def cancel(self) -> None:
        """It will not run."""
        self.is_cancelled = True

    def cancelled(self) -> bool:
        """Whether it will not run."""
        return self.is_cancelled

    def when(self) -> float:
        """The time at which it is due."""
        return self.at


class Process(asyncio.AbstractEventLoop):
    """The event loop of one process: no sockets, no threads, and the clock of the scheduler."""

    def __init__(self, scheduler: Scheduler, name: str) -> None:
        self.name = name
        self.frozen = False
        self.dead = False
        self.parked: list[Handle] = []
        self.failures: list[str] = []
        """What asyncio gives to its exception handler: exceptions that no task fetched."""
        self.tasks: set[asyncio.Task[Any]] = set()
        self._scheduler = scheduler

    def freeze(self) -> None:
        """SIGSTOP, or a host that is suspended."""
        self.frozen = True

    def wake(self) -> None:
        """SIGCONT: everything that became due meanwhile runs now."""
        self.frozen = False
        parked, self.parked = self.parked, []
        for handle in parked:
            self._scheduler.add_ready(handle)

    def kill(self) -> None:
        """SIGKILL: nothing of it runs again."""
        self.dead = True

    def bury(self) -> None:
        """Let the tasks of a dead process end, so that nothing is left of them. The history is over then."""
        self.frozen = self.dead = False
        self.wake()
        for _ in range(10):
            left = [task for task in self.tasks if not task.done()]
            if not left:
                return
            for task in left:
                task.cancel()
            self._scheduler.run(self._scheduler.now)

    # What asyncio asks of a loop.

    def time(self) -> float:
        return self._scheduler.now

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> Handle:
        handle = Handle(self, callback, args, context, 0.0)
        self._scheduler.add_ready(handle)
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> Handle:
        return self.call_soon(callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> Handle:
        handle = Handle(self, callback, args, context, when)
        self._scheduler.add_timer(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> Handle:
        return self.call_at(self._scheduler.now + delay, callback, *args, context=context)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[T]:
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.dead:
            self.failures.append(f"{context.get('message')}: {context.get('exception')!r}")
