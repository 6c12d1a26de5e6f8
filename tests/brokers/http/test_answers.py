"""Answers that are not by the book, from servers that are: which event an answer belongs to, and what it means."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, RequestReceived
from hyperframe.frame import RstStreamFrame, WindowUpdateFrame

from relay.brokers.http.publisher import HttpPublisher
from relay.core.event import OutboxEvent
from relay.core.formats import cloudevents
from relay.core.formats.message import FormattedMessage
from relay.core.outcome import Acknowledged, Outcome, Permanent, Transient
from tests.brokers.harness.base import Collector, make_event
from tests.support.options import http_options
from tests.support.servers.identities import Identities

pytestmark = pytest.mark.http

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
BROKEN = b"HTTP/1.1 500 Broken\r\nContent-Length: 0\r\n\r\n"
Served = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None] | None]


@asynccontextmanager
async def served(serve: Served, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server at a port of its own."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()


async def outcomes(publisher: HttpPublisher, events: list[OutboxEvent]) -> list[Outcome]:
    sink = Collector()
    await publisher.publish(events, sink)
    return await sink.outcomes(events)


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


async def test_a_request_that_cannot_be_written_costs_its_connection() -> None:
    """The library for HTTP refuses a header: no connection is left behind that takes no more requests."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            await reader.read()
        writer.close()

    def refused(event: OutboxEvent) -> FormattedMessage:
        return FormattedMessage(event.payload, [("content-type", "a/b ")], [])

    async with served(serve) as port:
        publisher = HttpPublisher(http_options(f"http://127.0.0.1:{port}/", message_format=refused))
        await publisher.open()
        for outcome in await outcomes(publisher, [make_event("a", b"") for _ in range(5)]):
            assert isinstance(outcome, Transient)
        [host] = publisher._hosts.values()
        usable = [one for one in host._connections if not one.closed]
        await publisher.close()
        assert not usable


class Server2:
    """Answers over HTTP/2 by a function that returns the frames for an event of h2."""

    def __init__(self, answer: Callable[[H2Connection, object], bytes]) -> None:
        self._answer = answer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        connection.initiate_connection()
        with suppress(OSError):
            while data := await reader.read(65_536):
                events = connection.receive_data(data)
                raw = b"".join(self._answer(connection, event) for event in events)
                writer.write(connection.data_to_send() + raw)
        writer.close()


async def outcome2(answer: Callable[[H2Connection, object], bytes], event: OutboxEvent, tmp_path: Path) -> Outcome:
    identities = Identities(tmp_path)
    pair, context = identities.issue("answers"), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.certificate, pair.key)
    context.set_alpn_protocols(["h2"])
    async with served(Server2(answer).serve, context) as port:
        options = http_options(f"https://127.0.0.1:{port}/", protocol="2", tls_ca=str(identities.ca_file))
        publisher = HttpPublisher(options)
        await publisher.open()
        [outcome] = await outcomes(publisher, [event])
        await publisher.close()
    return outcome


async def test_a_header_of_an_answer_that_is_not_utf8_costs_nothing(tmp_path: Path) -> None:
    def answer(connection: H2Connection, event: object) -> bytes:
        if isinstance(event, RequestReceived):
            headers = [(b":status", b"200"), (b"server", b"caf\xe9")]
            connection.send_headers(event.stream_id, headers, end_stream=True)
        return b""

    assert await outcome2(answer, make_event("a", b""), tmp_path) == Acknowledged()


async def test_a_refusal_in_the_middle_of_a_body_is_heard_beside_a_larger_window(tmp_path: Path) -> None:
    """As servers refuse a body that is too large: answer and reset in one piece, and a window update before them."""
    done: list[int] = []

    def answer(connection: H2Connection, event: object) -> bytes:
        if isinstance(event, DataReceived) and not done:
            done.append(1)
            number = event.stream_id
            connection.send_headers(number, [(b":status", b"413")], end_stream=True)
            head = connection.data_to_send()
            windows = b"".join(WindowUpdateFrame(of, window_increment=65_535).serialize() for of in (0, number))
            reset = RstStreamFrame(number, error_code=ErrorCodes.NO_ERROR).serialize()
            return windows + head + reset
        return b""

    outcome = await outcome2(answer, make_event("a", bytes(300_000)), tmp_path)
    assert isinstance(outcome, Permanent)
    assert outcome.code == "HTTP_413"
