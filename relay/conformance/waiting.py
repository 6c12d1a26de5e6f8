"""Waiting in tests: polling with a deadline, which ends as soon as the condition holds.

Every deadline passes through ``patience``. Set ``TEST_PATIENCE=3`` on a slow machine: each is then three times as long.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from relay.localservers.waiting import pause_after
from relay.localservers.waiting import wait_until as _wait_until

T = TypeVar("T")

PATIENCE: Final = float(os.environ.get("TEST_PATIENCE") or 1)
"""The factor of all deadlines."""

DEADLINE: Final = 60.0
"""Seconds that a wait lasts at most where a test names no deadline, before the factor."""


def patience(seconds: float = DEADLINE) -> float:
    """A deadline in seconds, scaled by ``TEST_PATIENCE``."""
    return seconds * PATIENCE


def wait_until(predicate: Callable[[], T], deadline: float = DEADLINE, what: str = "") -> T:
    """Call ``predicate`` until it returns something true, and return that.

    ``deadline`` is in seconds, before the factor. Raises TimeoutError, which names ``what`` was waited for and the
    last answer. What the predicate raises goes through at once.
    """
    return _wait_until(predicate, patience(deadline), what)


async def wait_until_async(
    predicate: Callable[[], Awaitable[T | None]], deadline: float = DEADLINE, what: str = ""
) -> T:
    """As ``wait_until``, for a predicate that is awaited; the event loop goes on between two looks.

    A synchronous predicate is wrapped by ``eventually``.
    """
    began = time.monotonic()
    while not (found := await predicate()):
        waited = time.monotonic() - began
        if waited >= patience(deadline):
            raise TimeoutError(
                f"waited {patience(deadline):g} s for {what or predicate}; the last answer was {found!r}"
            )
        await asyncio.sleep(pause_after(waited))
    return found


async def eventually(predicate: Callable[[], T], deadline: float = DEADLINE, what: str = "") -> T:
    """Wait in a running event loop until a plain function returns something true."""

    async def ask() -> T:
        return predicate()

    return await wait_until_async(ask, deadline, what or repr(predicate))
