"""The engine's tests in real time run on the daemon's event loop."""

from __future__ import annotations

import asyncio

import uvloop


async def test_the_loop_is_uvloop() -> None:
    assert isinstance(asyncio.get_running_loop(), uvloop.Loop)
