"""The streams of live pages, without a network: who is told what, how often the outbox is read, and how streams end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import ExitStack
from typing import Any

import pytest

from relay.console.live import LivePages
from relay.console.problems import RequestProblem
from relay.console.readings import Readings, SharedReading
from relay.core.errors import StorageUnavailable
from relay.postgres.sql import TableName
from tests.support.waiting import eventually

REFRESH = b"event: refresh\ndata: now\n\n"
COMMENT = b":\n\n"


class Outbox:
    """What is read, and how often."""

    def __init__(self) -> None:
        self.value = 0
        self.readings = 0
        self.error: Exception | None = None

    def read(self) -> int:
        self.readings += 1
        if self.error is not None:
            raise self.error
        return self.value


@pytest.fixture
def outbox() -> Outbox:
    return Outbox()


def pages(outbox: Outbox, *, most: int = 100, quiet: float = 3600.0) -> LivePages:
    readings = Readings("", TableName())
    readings.overview = SharedReading[Any](outbox.read, fresh=0.0)
    return LivePages(readings, tick=0.01, quiet=quiet, most=most)


async def told(messages: AsyncIterator[bytes], kind: bytes) -> bytes:
    """The next message that is no comment."""
    async with asyncio.timeout(30):
        async for message in messages:
            if message != COMMENT:
                assert message.startswith(b"event: " + kind)
                return message
    raise AssertionError("the stream has ended")


async def test_viewers_are_told_of_a_change_and_share_the_readings(outbox: Outbox) -> None:
    live = pages(outbox)
    with live.viewer("overview") as first, live.viewer("overview") as second:
        await asyncio.gather(told(first, b"refresh"), told(second, b"refresh"))
        before = outbox.readings
        await eventually(lambda: outbox.readings >= before + 3, what="three more readings")
        outbox.value = 1
        assert list(await asyncio.gather(told(first, b"refresh"), told(second, b"refresh"))) == [REFRESH] * 2
        assert live.viewers == 2
    assert live.viewers == 0


async def test_nothing_is_read_without_a_viewer(outbox: Outbox) -> None:
    live = pages(outbox)
    feed = live._pages["overview"]
    assert outbox.readings == 0
    for _ in range(2):
        with live.viewer("overview") as messages:
            await told(messages, b"refresh")
        assert feed._task is not None
        await asyncio.wait_for(feed._task, 30)
    assert outbox.readings <= 4
    with live.viewer("types"):
        assert outbox.readings <= 4


async def test_a_page_is_refreshed_now_and_then_for_its_ages(outbox: Outbox) -> None:
    live = pages(outbox, quiet=0.02)
    with live.viewer("overview") as messages:
        for _ in range(3):
            await told(messages, b"refresh")


async def test_viewers_are_told_why_the_outbox_cannot_be_read(outbox: Outbox) -> None:
    live = pages(outbox)
    outbox.error = StorageUnavailable("the database does not answer")
    with live.viewer("overview") as messages:
        failed = await told(messages, b"failed")
        assert json.loads(failed.partition(b"data: ")[2]) == {"detail": "the database does not answer"}
        outbox.error = None
        await told(messages, b"refresh")


async def test_the_streams_are_bounded_and_free_again(outbox: Outbox) -> None:
    live = pages(outbox, most=2)
    with ExitStack() as stack:
        stack.enter_context(live.viewer("overview"))
        stack.enter_context(live.viewer("types"))
        with pytest.raises(RequestProblem, match="2 browsers follow the outbox") as refused, live.viewer("relays"):
            pass
        assert refused.value.status == 503
    with live.viewer("relays"):
        assert live.viewers == 1


async def test_every_stream_ends_at_the_shutdown(outbox: Outbox) -> None:
    live = pages(outbox)
    with live.viewer("overview") as messages, live.viewer("overview") as other:
        await told(messages, b"refresh")
        live.close()
        async with asyncio.timeout(30):
            assert [message async for message in messages if message != COMMENT] == []
            assert [message async for message in other if message not in (COMMENT, REFRESH)] == []
    with pytest.raises(RequestProblem, match="shutting down"), live.viewer("overview"):
        pass
