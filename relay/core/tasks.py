"""One task: wait for it, or run it beside other work. Nothing here fails."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any


async def ended(task: asyncio.Future[Any], seconds: float | None = None) -> bool:
    """Wait until ``task`` is done, at most ``seconds``; says whether it is. Neither cancels it nor raises what it did.

    What ``asyncio.wait`` does for a set of tasks, in less time for one.
    """
    if task.done():
        return True
    loop = asyncio.get_running_loop()
    change = loop.create_future()

    def wake(_: object = None) -> None:
        if not change.done():
            change.set_result(None)

    timer = None if seconds is None else loop.call_later(seconds, wake)
    task.add_done_callback(wake)
    try:
        await change
    finally:
        if timer is not None:
            timer.cancel()
        task.remove_done_callback(wake)
    return task.done()


@contextlib.asynccontextmanager
async def beside(work: Coroutine[Any, Any, None], name: str) -> AsyncIterator[None]:
    """Run ``work`` as a task of that name while the body runs, and cancel it then."""
    task = asyncio.create_task(work, name=name)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
