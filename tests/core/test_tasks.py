"""Waiting for one task: until it is done, for a time, and beside cancellations of both sides."""

from __future__ import annotations

import asyncio

import pytest

from relay.core.tasks import ended


async def test_a_task_that_ends_is_noticed_and_what_it_raised_stays_in_it() -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("mine")

    task = asyncio.ensure_future(fail())
    assert await ended(task, 60.0)
    assert isinstance(task.exception(), ValueError)
    assert await ended(task, 0.0)


async def test_a_task_that_goes_on_is_left_alone() -> None:
    task = asyncio.ensure_future(asyncio.Event().wait())
    assert not await ended(task, 0.001)
    assert not task.done()
    task.cancel()
    assert await ended(task)


async def test_the_waiter_is_cancelled_alone() -> None:
    task = asyncio.ensure_future(asyncio.Event().wait())
    waiter = asyncio.ensure_future(ended(task))
    await asyncio.sleep(0)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    assert not task.done()
    task.cancel()
    await asyncio.wait({task})
