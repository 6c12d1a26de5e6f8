"""Waiting in tests: the only place that may sleep in real time, between two looks at whether it has happened.

A test that sleeps for any other reason calls ``pace``; code on virtual time calls ``virtual_sleep``. A test
(tests/test_sleeps.py) finds every other sleep.

Every deadline of a test passes through ``patience``. Set ``TEST_PATIENCE=3`` on a slow machine: each deadline is then
three times as long, pytest's own timeout included. Waiting ends as soon as the condition holds, so long deadlines cost
nothing while tests pass.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from relay.localservers.waiting import wait_until as _wait_until

__all__ = ["DEADLINE", "PATIENCE", "eventually", "pace", "pace_async", "patience", "wait_until", "wait_until_async"]

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
    end = time.monotonic() + patience(deadline)
    while not (found := await predicate()):
        if time.monotonic() >= end:
            raise TimeoutError(
                f"waited {patience(deadline):g} s for {what or predicate}; the last answer was {found!r}"
            )
        await asyncio.sleep(0.01)
    return found


async def eventually(predicate: Callable[[], T], deadline: float = DEADLINE, what: str = "") -> T:
    """Wait in a running event loop until a plain function returns something true."""

    async def ask() -> T:
        return predicate()

    return await wait_until_async(ask, deadline, what or repr(predicate))


def pace(seconds: float) -> None:
    """Take time as a load, a slow link or a measured window does. Never to wait for something to happen."""
    time.sleep(seconds)


async def pace_async(seconds: float) -> None:
    """As ``pace``; the event loop goes on meanwhile."""
    await asyncio.sleep(seconds)
