"""HTTP/2 with real servers: many requests on one connection, bodies beyond its windows, and its end in good order."""

from __future__ import annotations

import asyncio
import ssl
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived
from h2.settings import SettingCodes, Settings
from hyperframe.frame import GoAwayFrame

from relay.brokers.http.publisher import HttpPublisher
from relay.core.event import OutboxEvent
from relay.core.outcome import Acknowledged, Outcome, TimedOut, Transient, Unreachable
from tests.brokers.harness.base import Collector, make_event
from tests.support.options import http_options
from tests.support.servers.identities import Identities
from tests.support.servers.webhooks import WebhookServer
from tests.support.waiting import eventually, pace_async, patience

pytestmark = pytest.mark.http


@pytest.fixture(scope="module")
def identities(tmp_path_factory: pytest.TempPathFactory) -> Identities:
    return Identities(tmp_path_factory.mktemp("http2"))


@pytest.fixture(scope="module")
def server(identities: Identities) -> Iterator[WebhookServer]:
    with WebhookServer(identities, protocol="2") as receiver:
        yield receiver


@pytest.fixture
async def publisher(server: WebhookServer, identities: Identities) -> AsyncIterator[HttpPublisher]:
    options = http_options(
        server.url, protocol="2", connections_per_host=2, timeout=2.0, tls_ca=str(identities.ca_file)
    )
    instance = HttpPublisher(options)
    await instance.open()
    await instance.probe(patience())
    yield instance
    await instance.close()


async def outcomes(publisher: HttpPublisher, events: list[OutboxEvent]) -> list[Outcome]:
    sink = Collector()
    await publisher.publish(events, sink)
    return await sink.outcomes(events)


async def test_events_share_connections(publisher: HttpPublisher, server: WebhookServer) -> None:
    kind = f"test.{uuid.uuid4().hex}"
    events = [make_event(kind, b"x" * (n * 37), key=f"k{n % 40}", headers='{"A": "ü"}') for n in range(350)]
    assert set(await outcomes(publisher, events)) == {Acknowledged()}
    posts = server.received(kind)
    assert {post.header("webhook-id") for post in posts} == {event.event_id for event in events}
    assert {len(post.body) for post in posts} == {len(event.payload) for event in events}
    assert {post.header("http-version") for post in posts} == {"2"}
    assert {post.header("x-user-a") for post in posts} == {"%C3%BC"}


async def test_a_body_larger_than_the_window_and_none_at_all(publisher: HttpPublisher, server: WebhookServer) -> None:
    kind = f"test.{uuid.uuid4().hex}"
    assert await outcomes(publisher, [make_event(kind, bytes(900_000)), make_event(kind, b"")]) == [Acknowledged()] * 2
    assert {len(post.body) for post in server.received(kind)} == {900_000, 0}


async def test_statuses_and_what_gets_no_answer(publisher: HttpPublisher) -> None:
    busy, silent, good = await outcomes(
        publisher, [make_event("status.503.7"), make_event("hang"), make_event(f"test.{uuid.uuid4().hex}")]
    )
    assert isinstance(busy, Transient)
    assert (busy.code, busy.not_before) == ("HTTP_503", 7.0)
    assert isinstance(silent, TimedOut)
    assert good == Acknowledged()


async def test_what_is_abandoned_is_unreachable_and_the_next_event_gets_through(publisher: HttpPublisher) -> None:
    events, sink = [make_event("hang") for _ in range(3)], Collector()
    await publisher.publish(events, sink)
    [host] = publisher._hosts.values()
    await eventually(lambda: host._connections and host._connections[0].room < 32)
    await publisher.abandon("enough")
    assert await sink.outcomes(events) == [Unreachable("enough")] * 3
    assert await outcomes(publisher, [make_event(f"test.{uuid.uuid4().hex}")]) == [Acknowledged()]


async def test_a_server_without_http2_is_spoken_to_in_http1(
    webhooks: WebhookServer, http_authority: Identities
) -> None:
    publisher = HttpPublisher(http_options(webhooks.url, protocol="2", tls_ca=str(http_authority.ca_file)))
    await publisher.open()
    kind = f"test.{uuid.uuid4().hex}"
    assert set(await outcomes(publisher, [make_event(kind) for _ in range(30)])) == {Acknowledged()}
    await publisher.close()
    assert len(webhooks.received(kind)) == 30


class EndingServer:
    """Answers the first three requests of a connection, and ends it in good order when it has seen a fourth.

    The frame is its own: h2 as a server takes no more frames once it has sent one.
    """

    def __init__(self) -> None:
        self.answered: list[str] = []
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        connection = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        connection.initiate_connection()
        seen: list[int] = []
        with suppress(OSError):
            while data := await reader.read(65_536):
                for event in connection.receive_data(data):
                    if isinstance(event, RequestReceived):
                        seen.append(event.stream_id)
                        self._take(connection, event, seen)
                writer.write(connection.data_to_send())
                if len(seen) > 3:
                    writer.write(GoAwayFrame(0, last_stream_id=seen[2]).serialize())
        writer.close()

    def _take(self, connection: H2Connection, event: RequestReceived, seen: list[int]) -> None:
        if len(seen) <= 3:
            self.answered.append({str(name): str(value) for name, value in event.headers}["webhook-id"])
            connection.send_headers(event.stream_id, [(":status", "204")], end_stream=True)


class NarrowServer:
    """Allows three requests at a time on a connection, and takes the time of several turns for each."""

    def __init__(self) -> None:
        self.connections = 0
        self.most = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        connection = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        connection.local_settings = Settings(client=False, initial_values={SettingCodes.MAX_CONCURRENT_STREAMS: 3})
        connection.initiate_connection()
        writer.write(connection.data_to_send())
        seen: list[int] = []
        with suppress(OSError):
            while data := await reader.read(65_536):
                seen += [one.stream_id for one in connection.receive_data(data) if isinstance(one, RequestReceived)]
                self.most = max(self.most, len(seen))
                await pace_async(0.02)
                for number in seen:
                    connection.send_headers(number, [(":status", "204")], end_stream=True)
                seen.clear()
                writer.write(connection.data_to_send())
        writer.close()


class SlowServer:
    """Takes a body of 250,000 bytes in steps of 50,000, and more time for all of them than one timeout."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        connection.initiate_connection()
        writer.write(connection.data_to_send())
        taken = 0
        with suppress(OSError):
            while data := await reader.read(65_536):
                for event in connection.receive_data(data):
                    if isinstance(event, DataReceived):
                        taken += event.flow_controlled_length
                        if event.stream_ended:
                            connection.send_headers(event.stream_id, [(":status", "204")], end_stream=True)
                        elif taken >= 50_000:
                            await pace_async(patience(0.25))
                            connection.acknowledge_received_data(taken, event.stream_id)
                            taken = 0
                writer.write(connection.data_to_send())
        writer.close()


Served = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def sent_to(serve: Served, identities: Identities, **changes: object) -> AsyncIterator[HttpPublisher]:
    """A publisher to a server over TLS at a port of its own."""
    pair, context = identities.issue("small"), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.certificate, pair.key)
    context.set_alpn_protocols(["h2"])
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    publisher = HttpPublisher(http_options(url, protocol="2", tls_ca=str(identities.ca_file), **changes))
    await publisher.open()
    try:
        yield publisher
    finally:
        await publisher.close()
        server.close()


async def test_what_a_server_has_not_looked_at_is_sent_again(identities: Identities) -> None:
    ending = EndingServer()
    events = [make_event("a", b"") for _ in range(5)]
    async with sent_to(ending.serve, identities) as publisher:
        assert await outcomes(publisher, events) == [Acknowledged()] * 5
    assert sorted(ending.answered) == sorted(event.event_id for event in events), "each was answered once"
    assert ending.connections == 2


async def test_a_server_that_allows_few_requests_gets_no_more_connections(identities: Identities) -> None:
    narrow = NarrowServer()
    async with sent_to(narrow.serve, identities, connections_per_host=2) as publisher:
        assert set(await outcomes(publisher, [make_event("a", b"") for _ in range(60)])) == {Acknowledged()}
    assert (narrow.connections, narrow.most) == (2, 3)


async def test_a_body_that_a_slow_server_takes_in_steps_has_the_timeout_for_each(identities: Identities) -> None:
    async with sent_to(SlowServer().serve, identities, timeout=patience(0.6)) as publisher:
        assert await outcomes(publisher, [make_event("a", bytes(250_000))]) == [Acknowledged()]
