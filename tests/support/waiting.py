"""Waiting in tests: the only place that may sleep in real time, between two looks at whether it has happened.

A test that sleeps for any other reason calls ``pace``; code on virtual time calls ``virtual_sleep``. A test
(tests/test_sleeps.py) finds every other sleep.

Every deadline of a test passes through ``patience`` (``relay.conformance.waiting``), pytest's own timeout included.
"""

from __future__ import annotations

import asyncio
import time

from relay.conformance.waiting import DEADLINE, PATIENCE, eventually, patience, wait_until, wait_until_async

__all__ = ["DEADLINE", "PATIENCE", "eventually", "pace", "pace_async", "patience", "wait_until", "wait_until_async"]


def pace(seconds: float) -> None:
    """Take time as a load, a slow link or a measured window does. Never to wait for something to happen."""
    time.sleep(seconds)


async def pace_async(seconds: float) -> None:
    """As ``pace``; the event loop goes on meanwhile."""
    await asyncio.sleep(seconds)
