"""Answers that are not by the book, from servers that are: which event an answer belongs to, and what it means."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from relay.brokers.http.publisher import HttpPublisher
from relay.core.event import OutboxEvent
from relay.core.formats import cloudevents
from relay.core.formats.message import FormattedMessage
from relay.core.outcome import Acknowledged, Outcome, Permanent, Transient
from tests.brokers.harness.base import make_event
from tests.brokers.http.publishing import outcomes
from tests.support.options import http_options
from tests.support.waiting import eventually

pytestmark = pytest.mark.http

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
BROKEN = b"HTTP/1.1 500 Broken\r\nContent-Length: 0\r\n\r\n"
Served = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None] | None]


@asynccontextmanager
async def served(serve: Served) -> AsyncIterator[int]:
    """A server at a port of its own."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()


async def each_outcome(port: int, events: list[OutboxEvent], **changes: object) -> list[Outcome]:
    """Offer one after the other."""
    publisher = HttpPublisher(http_options(f"http://127.0.0.1:{port}/", connections_per_host=1, **changes))
    await publisher.open()
    try:
        return [(await outcomes(publisher, [event]))[0] for event in events]
    finally:
        await publisher.close()


@pytest.mark.parametrize("behind", [OK, b"a body of a 204", b"HTTP/1.1 2"])
async def test_what_comes_behind_an_answer_is_not_taken_for_that_of_the_next_event(behind: bytes) -> None:
    first = [OK + behind]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(first.pop() if first else BROKEN)
        writer.close()

    async with served(serve) as port:
        good, bad = await each_outcome(port, [make_event("a", b""), make_event("a", b"")])
    assert good == Acknowledged()
    assert getattr(bad, "code", None) == "HTTP_500"


@pytest.mark.parametrize(
    "behind",
    [
        b"Content-Length: 5\r\n\r\nab",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\nno size\r\n",
        b"Server : x\r\n\r\n",
        b"Content-Length:\r\n\r\n",
        b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"",
    ],
)
@pytest.mark.parametrize("hangs", [False, True], ids=["cut", "hangs"])
@pytest.mark.parametrize(("line", "accepted"), [(b"HTTP/1.1 200 OK\r\n", True), (b"HTTP/1.1 500 No\r\n", False)])
async def test_the_status_line_of_success_is_the_acknowledgement(
    behind: bytes, hangs: bool, line: bytes, accepted: bool
) -> None:
    closed = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(line[:9])
            await writer.drain()
            await asyncio.sleep(0)
            writer.write(line[9:] + behind)
            if hangs:
                await closed.wait()
        writer.close()

    async with served(serve) as port:
        [outcome] = await each_outcome(port, [make_event("a", b"")], timeout=0.2)
        closed.set()
    assert isinstance(outcome, Acknowledged) == accepted


async def test_a_receiver_that_repeats_the_request_shows_no_secret_of_it() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):
            head = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
            told = b"wrong: " + b" ".join(one for one in head if one.startswith((b"POST", b"Authorization")))
            writer.write(
                b"HTTP/1.1 500 No\r\nContent-Length: %d\r\n\r\n%s pa55 word, s3cr3t-path" % (len(told) + 23, told)
            )
        writer.close()

    async with served(serve) as port:
        url = f"http://user:pa55%20word@127.0.0.1:{port}/hooks/s3cr3t-path?token=t0p"
        publisher = HttpPublisher(http_options(url))
        await publisher.open()
        [outcome] = await outcomes(publisher, [make_event("a", b"")])
        await publisher.close()
    assert isinstance(outcome, Transient)
    assert "wrong: POST ***" in outcome.reason
    secret = base64.b64encode(b"user:pa55 word").decode()
    assert [part for part in ("s3cr3t", "t0p", "pa55", secret) if part in outcome.reason] == []


@pytest.mark.parametrize("media_type", ["application/json ", "text/plain; a=b  "])
async def test_a_content_type_of_an_application_that_ends_with_a_blank_loses_no_event(media_type: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(OK)
        writer.close()

    format_ = cloudevents.binary("/source", cloudevents.HTTP)
    async with served(serve) as port:
        event = make_event("a", b"", headers=f'{{"Content-Type": "{media_type}"}}')
        assert await each_outcome(port, [event], message_format=format_) == [Acknowledged()]


async def test_a_header_that_would_end_its_line_is_not_sent() -> None:
    """No format of ours makes one; of another's nothing reaches the receiver, and no connection is lost."""
    received: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            received.append(await reader.read())
        writer.close()

    def unsendable(event: OutboxEvent) -> FormattedMessage:
        return FormattedMessage(event.payload, [("content-type", "a/b\r\nX-Injected: yes")], [])

    async with served(serve) as port:
        publisher = HttpPublisher(http_options(f"http://127.0.0.1:{port}/", message_format=unsendable))
        await publisher.open()
        results = await outcomes(publisher, [make_event("a", b"") for _ in range(5)])
        usable = [one for one in publisher._host._sessions if one.idle]
        await publisher.close()
        await eventually(lambda: len(received) == len(usable))
    assert {getattr(outcome, "code", None) for outcome in results} == {"UnsendableHeader"}
    assert usable
    assert set(received) == {b""}


async def test_a_refusal_whose_body_is_cut_is_that_refusal() -> None:
    """A receiver may refuse a large request before it has read it, and close."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 100\r\n\r\ntoo la")
            await writer.drain()
        writer.close()

    async with served(serve) as port:
        [outcome] = await each_outcome(port, [make_event("a", b"")])
    assert isinstance(outcome, Permanent)
    assert (outcome.code, "'too la'" in outcome.reason) == ("HTTP_413", True)
