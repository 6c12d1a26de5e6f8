"""What only webhooks do: statuses, signatures on the wire, addresses, connections."""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import socket
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from standardwebhooks.webhooks import Webhook

from relay.brokers.http.publisher import HttpPublisher
from relay.core.errors import BrokerUnreachable
from relay.core.origins import LiveUrl, SecretOrigin, remember
from relay.core.outcome import Acknowledged, ConnectionCut, Permanent, TimedOut, Transient, Unreachable
from relay.localservers.process import free_port
from tests.brokers.harness.base import Collector, make_event
from tests.brokers.http.publishing import opened, outcomes
from tests.support.options import http_options
from tests.support.servers.tcp_proxy import Mode, TcpProxy
from tests.support.servers.webhooks import WebhookServer
from tests.support.waiting import eventually, patience

pytestmark = pytest.mark.http

SECRET, NEXT_SECRET = ("whsec_" + base64.b64encode(os.urandom(32)).decode() for _ in range(2))


def new_type() -> str:
    return f"test.{uuid.uuid4().hex}"


@pytest.fixture(scope="module")
def server() -> Iterator[WebhookServer]:
    """A receiver without TLS."""
    with WebhookServer() as receiver:
        yield receiver


@pytest.fixture
async def publisher(server: WebhookServer) -> AsyncIterator[HttpPublisher]:
    async with opened(server.url, secrets=SECRET) as instance:
        yield instance


@contextmanager
def suspended(server: WebhookServer) -> Iterator[None]:
    """The receiver stands still: connections are taken by the kernel, and nothing answers."""
    os.kill(server.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, server.pid, os.WSTOPPED)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


async def test_secrets_that_change_in_their_file_sign_from_the_next_connection_on(
    server: WebhookServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What cannot be used is said once, however often a connection asks for it."""
    file = tmp_path / "secrets"
    file.write_text(SECRET)
    remember(SECRET, SecretOrigin("HTTP_SECRETS_FILE", file.read_text))
    async with opened(server.url, secrets=SECRET, live_secrets=LiveUrl(SECRET)) as publisher:
        for content, signs in ((NEXT_SECRET, NEXT_SECRET), ("whsec_short", NEXT_SECRET), (SECRET, SECRET)):
            file.write_text(content)
            await publisher.probe(patience())
            await publisher.probe(patience())
            event = make_event(new_type(), b"{}")
            assert await outcomes(publisher, [event]) == [Acknowledged()]
            [post] = server.received(event.event_type)
            assert Webhook(signs).verify(post.body, dict(post.headers)) == {}
    [line] = [one for one in caplog.records if getattr(one, "action", "") == "secret_unread"]
    assert line.getMessage().startswith("HTTP_SECRETS_FILE cannot be read again: ")
    assert "whsec_short" not in line.getMessage()


async def test_a_request_is_what_the_standards_library_verifies(
    publisher: HttpPublisher, server: WebhookServer
) -> None:
    event = make_event(new_type(), b'{"a": 1}', key="k", headers='{"tenant": "t"}')
    before = int(time.time())
    assert await outcomes(publisher, [event]) == [Acknowledged()]
    [post] = server.received(event.event_type)
    assert Webhook(SECRET).verify(post.body, dict(post.headers)) == {"a": 1}
    assert post.header("webhook-id") == event.event_id
    assert before <= int(post.header("webhook-timestamp") or 0) <= time.time()
    assert (post.target, post.header("content-type")) == ("/hook", "application/json")
    assert (post.header("x-partition-key"), post.header("x-user-tenant")) == ("k", "t")
    assert (post.header("host"), post.header("authorization")) == (f"127.0.0.1:{server.port}", None)


async def test_a_request_is_signed_by_the_clock_that_the_options_name(server: WebhookServer) -> None:
    now = time.time() - 100.0
    own = HttpPublisher(http_options(f"http://127.0.0.1:{server.port}/hook", secrets=SECRET, now=lambda: now))
    await own.open()
    event = make_event(new_type(), b"{}")
    assert await outcomes(own, [event]) == [Acknowledged()]
    await own.close()
    [post] = server.received(event.event_type)
    assert post.header("webhook-timestamp") == str(int(now))
    assert Webhook(SECRET).verify(post.body, dict(post.headers)) == {}


async def test_url_login_and_query_reach_the_receiver(server: WebhookServer) -> None:
    url = f"http://user:p%40ss@127.0.0.1:{server.port}/a/b?x=1&y=%20"
    async with opened(url, content_type="application/cloudevents+json") as publisher:
        event = make_event(new_type())
        assert await outcomes(publisher, [event]) == [Acknowledged()]
    [post] = server.received(event.event_type)
    assert post.target == "/a/b?x=1&y=%20"
    assert post.header("authorization") == "Basic " + base64.b64encode(b"user:p@ss").decode()
    assert post.header("content-type") == "application/cloudevents+json"
    assert post.header("webhook-signature") is None


async def test_each_status_has_its_outcome_and_stops_no_other_event(publisher: HttpPublisher) -> None:
    kinds = ["status.410", "status.403", "status.429.7", "status.503.120", "status.302", new_type()]
    bad, forbidden, busy, down, moved, good = await outcomes(publisher, [make_event(kind) for kind in kinds])
    assert isinstance(bad, Permanent)
    assert isinstance(forbidden, Transient)
    assert [one.not_before for one in (busy, down, moved) if isinstance(one, Transient)] == [7.0, 120.0, None]
    assert good == Acknowledged()


async def test_events_of_a_key_arrive_in_order_over_many_connections(
    publisher: HttpPublisher, server: WebhookServer
) -> None:
    kind = new_type()
    events = [make_event(kind, str(n).encode(), key=f"key {n % 3}") for n in range(90)]
    assert set(await outcomes(publisher, events)) == {Acknowledged()}
    posts = server.received(kind)
    for key in ("key 0", "key 1", "key 2"):
        numbers = [int(post.body) for post in posts if post.header("x-partition-key") == key]
        assert numbers == sorted(numbers)
        assert len(numbers) == 30


async def test_an_event_that_comes_as_the_last_worker_ends_is_sent(server: WebhookServer) -> None:
    """It is offered in the turn in which the only worker has found nothing more to do."""
    async with opened(server.url, connections_per_host=1) as publisher:
        host, first, second, later = publisher._host, make_event(new_type()), make_event(new_type()), Collector()

        def offer_second(_: object) -> None:
            host.add((second, later))
            host.pump()

        await publisher.publish([first], offer_second)
        assert await later.outcomes([second]) == [Acknowledged()]


async def test_connections_are_bounded_and_used_again(server: WebhookServer) -> None:
    with TcpProxy(server.port) as proxy:
        async with opened(f"http://127.0.0.1:{proxy.port}/", connections_per_host=3) as publisher:
            for _ in range(3):
                events = [make_event(new_type()) for _ in range(30)]
                assert set(await outcomes(publisher, events)) == {Acknowledged()}
        assert proxy.accepted == 3


async def test_a_connection_that_the_server_has_closed_costs_no_attempt(own_webhooks: WebhookServer) -> None:
    async with opened(own_webhooks.url) as publisher:
        assert await outcomes(publisher, [make_event("a")]) == [Acknowledged()]
        own_webhooks.stop()
        own_webhooks.start()
        assert await outcomes(publisher, [make_event("a")]) == [Acknowledged()]


async def test_no_answer_is_undecided_and_a_cut_says_so(publisher: HttpPublisher, server: WebhookServer) -> None:
    async with opened(server.url, timeout=0.3) as hasty:
        [silent, good] = await outcomes(hasty, [make_event("hang"), make_event(new_type())])
    assert isinstance(silent, TimedOut)
    assert silent.code == "NO_ANSWER"
    assert good == Acknowledged()
    [cut] = await outcomes(publisher, [make_event("cut")])
    assert isinstance(cut, ConnectionCut)


async def test_one_that_is_down_is_unreachable_for_the_whole_publisher() -> None:
    async with opened(f"http://user:hidden@127.0.0.1:{free_port()}/secret") as publisher:
        with pytest.raises(BrokerUnreachable, match=r"^http://127\.0\.0\.1:\d+: Connection refused$") as error:
            await publisher.probe(patience())
        [outcome] = await outcomes(publisher, [make_event("a")])
    assert outcome == Unreachable(str(error.value))


def blocked(publisher: HttpPublisher) -> str:
    return publisher.blocked


async def test_one_that_takes_connections_and_answers_nothing_says_so_but_of_the_first_event_after_that(
    own_webhooks: WebhookServer,
) -> None:
    async with opened(own_webhooks.url, timeout=0.3) as publisher:
        with suspended(own_webhooks):
            await outcomes(publisher, [make_event("a") for _ in range(4)])
            assert not blocked(publisher)
            await outcomes(publisher, [make_event("a")])
            assert "no answer" in blocked(publisher)
            sink, tried = Collector(), [make_event("a")]
            await publisher.publish(tried, sink)
            assert not blocked(publisher), "its answer is waited for"
            await sink.outcomes(tried)
            assert blocked(publisher)
        assert await outcomes(publisher, [make_event("a")]) == [Acknowledged()]
        assert not blocked(publisher)


async def test_a_name_that_leads_to_a_private_address_gets_no_request(server: WebhookServer) -> None:
    before = server.requests()
    async with opened(f"http://localhost:{server.port}/", allow_private=False) as publisher:
        [outcome] = await outcomes(publisher, [make_event("a")])
        with pytest.raises(BrokerUnreachable, match="HTTP_ALLOW_PRIVATE=true"):
            await publisher.probe(patience())
    assert isinstance(outcome, Unreachable)
    assert "loopback" in outcome.reason
    assert server.requests() == before


async def test_a_name_that_is_rebound_is_refused_at_the_next_connection(
    server: WebhookServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a connection goes to is the address that was checked: there is no second look-up in between."""
    loop, answers = asyncio.get_running_loop(), ["203.0.114.1", "127.0.0.1"]
    resolve, connect, asked, tried = loop.getaddrinfo, loop.sock_connect, [], []

    async def getaddrinfo(host: str, *args: object, **options: object) -> object:
        asked.append(host)
        if host == "rebound.example":
            host = answers.pop(0)
        return await resolve(host, *args, **options)  # type: ignore[arg-type]

    async def sock_connect(sock: socket.socket, address: tuple[str, int]) -> None:
        tried.append(address[0])
        if address[0] == "203.0.114.1":  # what answers there, if anything does, is the network's business
            raise OSError("no route")
        await connect(sock, address)

    monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo, raising=False)
    monkeypatch.setattr(loop, "sock_connect", sock_connect, raising=False)
    before = server.requests()
    url = f"http://rebound.example:{server.port}/"
    async with opened(url, allow_private=False, connection_timeout=0.3) as publisher:
        [first] = await outcomes(publisher, [make_event("a")])
        [second] = await outcomes(publisher, [make_event("a")])
    assert isinstance(first, Unreachable)
    assert tried == ["203.0.114.1"]
    assert isinstance(second, Unreachable)
    assert "127.0.0.1 (loopback)" in second.reason
    assert asked.count("rebound.example") == 2
    assert server.requests() == before


async def test_an_abandoned_request_reaches_the_receiver_no_more(own_webhooks: WebhookServer) -> None:
    """The body is larger than what the two sockets buffer, so the end of it has not left when it is abandoned."""
    async with opened(own_webhooks.url, connections_per_host=1) as publisher:
        events, sink = [make_event("large", bytes(30_000_000)) for _ in range(3)], Collector()
        with suspended(own_webhooks):
            await publisher.publish(events, sink)
            host = publisher._host
            await eventually(lambda: host._sessions and not host._sessions[0].idle)
            await publisher.abandon("the broker hangs")
            assert await sink.outcomes(events) == [Unreachable("the broker hangs")] * 3
        assert await outcomes(publisher, [make_event("after")]) == [Acknowledged()]
    assert own_webhooks.received("large") == []


async def test_a_slow_link_is_no_timeout(server: WebhookServer) -> None:
    with TcpProxy(server.port, bytes_per_second=1e6) as proxy:
        async with opened(f"http://127.0.0.1:{proxy.port}/", timeout=patience(0.4)) as publisher:
            large = [make_event(new_type(), bytes(800_000)) for _ in range(2)]
            assert await outcomes(publisher, large) == [Acknowledged()] * 2


async def test_a_server_that_is_not_http_is_transient() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n\r\n")
        with suppress(OSError):
            await reader.read()
        writer.close()

    other = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = other.sockets[0].getsockname()[1]
    async with opened(f"http://127.0.0.1:{port}/") as publisher:
        [outcome] = await outcomes(publisher, [make_event("a")])
    other.close()
    assert isinstance(outcome, Transient)
    assert outcome.code == "BAD_ANSWER"


async def test_an_outage_in_the_middle_takes_down_what_waits(server: WebhookServer) -> None:
    with TcpProxy(server.port) as proxy:
        async with opened(f"http://127.0.0.1:{proxy.port}/") as publisher:
            assert await outcomes(publisher, [make_event(new_type())]) == [Acknowledged()]
            proxy.set(Mode.REFUSE)
            found = await outcomes(publisher, [make_event(new_type(), key="k") for _ in range(50)])
            assert {type(outcome) for outcome in found} == {Unreachable}
            proxy.set(Mode.FLOW)
            assert await outcomes(publisher, [make_event(new_type(), key="k")]) == [Acknowledged()]
