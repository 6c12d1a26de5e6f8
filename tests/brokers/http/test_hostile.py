"""Receivers that answer without end, or with what costs much to read, hold up no other receiver and no timer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from relay.core.outcome import Acknowledged, TimedOut, Transient
from tests.brokers.harness.base import make_event
from tests.brokers.http.publishing import opened, outcomes
from tests.support.servers.webhooks import HostileServer, WebhookServer
from tests.support.waiting import pace_async, patience

pytestmark = pytest.mark.http

_EVENTS = 20
_LONGEST_TURN = 0.5  # seconds


@asynccontextmanager
async def served(answer: Callable[[asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[str]:
    """A receiver that answers one request so; its URL."""
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            await reader.readuntil(b"\r\n\r\n")
            await answer(writer)
        writer.close()
        ended.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    await asyncio.wait_for(ended.wait(), patience())
    server.close()


class Turns:
    """The longest time in which no other task of the event loop had a turn."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def watch(self) -> None:
        last = time.monotonic()
        while True:
            await pace_async(0.001)
            now = time.monotonic()
            self.longest, last = max(self.longest, now - last), now


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("interim", "BAD_ANSWER"),
        ("interim-then-ok", "BAD_ANSWER"),
        ("ten-interim", ""),
        ("extensions", "HTTP_500"),
        ("pieces", "HTTP_500"),
        ("body", "HTTP_500"),
        ("lines", "BAD_ANSWER"),
        ("line", "BAD_ANSWER"),
        ("blanks", "BAD_ANSWER"),
        ("garbage", "BAD_ANSWER"),
        ("accepted-line", ""),
        ("accepted-body", ""),
        ("accepted-pieces", ""),
    ],
)
async def test_an_answer_without_end_is_read_to_a_limit_while_others_go_on(
    hostile_webhooks: HostileServer, own_webhooks: WebhookServer, answer: str, code: str
) -> None:
    turns = Turns()
    watch = asyncio.create_task(turns.watch())
    async with (
        opened(hostile_webhooks.url_of(answer), timeout=patience(10)) as hostile,
        opened(own_webhooks.url) as other,
    ):
        bad, good = await asyncio.gather(
            outcomes(hostile, [make_event("a", b"") for _ in range(_EVENTS)]),
            outcomes(other, [make_event("good", b"") for _ in range(_EVENTS)]),
        )
    watch.cancel()
    assert good == [Acknowledged()] * _EVENTS
    codes = {"" if isinstance(one, Acknowledged) else getattr(one, "code", type(one).__name__) for one in bad}
    assert codes == {code}
    assert turns.longest < patience(_LONGEST_TURN)


async def test_a_receiver_that_keeps_sending_is_timed_out() -> None:
    """A little at a time, far below every limit."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 500 No\r\na: ")
        while True:
            writer.write(b"a")
            await writer.drain()
            await pace_async(0.01)

    async with served(answer) as url, opened(url, timeout=0.3) as publisher, asyncio.timeout(patience(10)):
        [outcome] = await outcomes(publisher, [make_event("a", b"")])
    assert isinstance(outcome, TimedOut)


@pytest.mark.parametrize("pieces", [1, 3, 50])
async def test_an_answer_in_pieces_is_the_same_answer(pieces: int) -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\nLink: a\n\n"
    whole = interim + b"HTTP/1.1 503 No\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nbusy"
    size = -(-len(whole) // pieces)

    async def answer(writer: asyncio.StreamWriter) -> None:
        for at in range(0, len(whole), size):
            writer.write(whole[at : at + size])
            await writer.drain()
            await pace_async(0.001)

    async with served(answer) as url, opened(url) as publisher:
        [outcome] = await outcomes(publisher, [make_event("a", b"")])
    assert isinstance(outcome, Transient)
    assert (outcome.code, "'busy'" in outcome.reason, outcome.not_before) == ("HTTP_503", True, 7.0)


async def test_a_success_behind_interim_answers_is_the_acknowledgement_whatever_follows() -> None:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 204 OK\r\n\x00 : \r\n\r\n")
        await writer.drain()

    async with served(answer) as url, opened(url) as publisher:
        [outcome] = await outcomes(publisher, [make_event("a", b"")])
    assert outcome == Acknowledged()
