"""Waiting in tests: the only place that may sleep, and only between two looks at whether it has happened."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from relay.localservers.waiting import wait_until

__all__ = ["eventually", "wait_until", "wait_until_async"]

T = TypeVar("T")


async def wait_until_async(predicate: Callable[[], Awaitable[T | None]], deadline: float = 10.0, what: str = "") -> T:
    """As ``wait_until``, for a predicate that is awaited; the event loop goes on between two looks.

    A synchronous predicate is wrapped by ``eventually``.
    """
    end = time.monotonic() + deadline
    while not (found := await predicate()):
        if time.monotonic() >= end:
            raise TimeoutError(f"waited {deadline:g} s for {what or predicate}; the last answer was {found!r}")
        await asyncio.sleep(0.01)
    return found


async def eventually(predicate: Callable[[], T], deadline: float = 10.0, what: str = "") -> T:
    """Wait in a running event loop until a plain function returns something true."""

    async def ask() -> T:
        return predicate()

    return await wait_until_async(ask, deadline, what or repr(predicate))
