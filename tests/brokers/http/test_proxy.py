"""Webhooks through a proxy: what it is asked for, and whose fault it is when it gives no tunnel."""

from __future__ import annotations

import base64
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from relay.app.publishers import build_publisher
from relay.brokers.http import connecting
from relay.brokers.http.proxy import read_proxy
from relay.brokers.http.publisher import HttpPublisher
from relay.core.destination import DestinationState
from relay.core.errors import BrokerRefused, BrokerUnreachable, ConfigError
from relay.core.outcome import ACKNOWLEDGED, Away, Unreachable
from relay.core.racing import Address
from relay.engine.destination.destination import Times
from relay.engine.destination.drops import Drops
from relay.engine.destination.several import SeveralPublishers
from relay.routing.rules import Routes
from relay.settings.settings import Settings
from tests.brokers.harness.base import Collector, make_event
from tests.brokers.http.publishing import opened, outcomes
from tests.support.options import http_options
from tests.support.servers.connect_proxy import ConnectProxy
from tests.support.servers.identities import Identities
from tests.support.servers.webhooks import WebhookServer
from tests.support.waiting import patience, wait_until_async

LOGIN = f"Basic {base64.b64encode(b'relay:s3cret/word').decode()}"
SECRETS = ("s3cret", "word", LOGIN.removeprefix("Basic "))


@pytest.fixture(scope="module")
def identities(tmp_path_factory: pytest.TempPathFactory) -> Identities:
    return Identities(tmp_path_factory.mktemp("ours"))


@pytest.fixture(scope="module")
def receiver() -> Iterator[WebhookServer]:
    with WebhookServer() as server:
        yield server


@pytest.fixture(scope="module")
def encrypted(identities: Identities) -> Iterator[WebhookServer]:
    with WebhookServer(identities) as server:
        yield server


@pytest.fixture
async def proxy() -> AsyncIterator[ConnectProxy]:
    async with ConnectProxy() as instance:
        yield instance


@pytest.mark.http
async def test_requests_go_through_a_tunnel(receiver: WebhookServer, proxy: ConnectProxy) -> None:
    async with opened(receiver.url, egress_proxy=proxy.url, connections_per_host=2) as publisher:
        await publisher.probe(patience())
        events = [make_event("tunnel", b"x" * 100_000) for _ in range(20)]
        assert await outcomes(publisher, events) == [ACKNOWLEDGED] * 20
    assert len(receiver.received("tunnel")) == 20
    port = urlsplit(receiver.url).port
    assert set(proxy.asked) == {f"CONNECT 127.0.0.1:{port} HTTP/1.1"}
    assert len(proxy.asked) <= 3


@pytest.mark.http
async def test_tls_is_with_the_receiver(encrypted: WebhookServer, identities: Identities) -> None:
    """The proxy sees neither the request nor its login."""
    async with ConnectProxy(LOGIN) as proxy:
        url = proxy.url.replace("://", "://relay:s3cret%2Fword@")
        async with opened(encrypted.url, egress_proxy=url, tls_ca=str(identities.ca_file)) as publisher:
            assert await outcomes(publisher, [make_event("tls")]) == [ACKNOWLEDGED]
        async with opened(encrypted.url, egress_proxy=url) as stranger:
            with pytest.raises(BrokerRefused, match="certificate verify failed"):
                await stranger.probe(patience())


@pytest.mark.parametrize(
    ("answer", "refused", "reason"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", True, "it refuses the relay's login (status 407)"),
        (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 3\r\n\r\nno!", True, "through to this receiver (status 403)"),
        (b"HTTP/1.0 502 Bad Gateway\r\n\r\n", False, "no tunnel to receiver.example:443 (status 502)"),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", False, "what answers is not an HTTP proxy"),
        (b"HTTP/1.1 200 OK\r\n", False, "it closed the connection before it answered CONNECT"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000, False, "its answer to CONNECT has no end"),
        (b"HTTP/1.1 200 OK\r\n\r\nHello", False, "it sends data before the receiver has had a request"),
    ],
)
async def test_without_a_tunnel_the_destination_is_away_or_refuses(
    proxy: ConnectProxy, answer: bytes, refused: bool, reason: str
) -> None:
    proxy.answer = answer
    url = proxy.url.replace("://", "://relay:s3cret%2Fword@")
    async with opened("https://receiver.example/hook", egress_proxy=url) as publisher:
        with pytest.raises(BrokerUnreachable) as caught:
            await publisher.probe(patience())
        [outcome] = await outcomes(publisher, [make_event("x")])
    assert isinstance(caught.value, BrokerRefused) == refused
    assert isinstance(outcome, Unreachable)
    for text in (str(caught.value), outcome.reason):
        assert text.endswith(reason)
        assert text.startswith(f"https://receiver.example: proxy 127.0.0.1:{proxy.port}: ")
        assert not any(secret in text for secret in SECRETS)


async def test_a_proxy_that_hangs_or_refuses_connections_is_no_events_fault(proxy: ConnectProxy) -> None:
    proxy.answer = None
    async with opened("https://r.example/", egress_proxy=proxy.url, connection_timeout=0.2) as publisher:
        [outcome] = await outcomes(publisher, [make_event("x")])
        assert outcome == Unreachable("https://r.example: no connection within 0.2 s")
    await wait_until_async(_none_open(proxy), what="the end of the connection")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        async with opened("https://r.example/", egress_proxy=url) as publisher:
            [outcome] = await outcomes(publisher, [make_event("x")])
    assert isinstance(outcome, Unreachable)
    assert "refused" in outcome.reason.lower()


def _none_open(proxy: ConnectProxy):  # type: ignore[no-untyped-def]  # noqa: ANN202
    async def ask() -> bool:
        return not proxy.open

    return ask


async def test_the_state_of_the_destination_says_so(proxy: ConnectProxy) -> None:
    """A login that is refused and a proxy that hangs, one after the other; events use no attempt."""
    proxy.answer = b"HTTP/1.1 407 no\r\n\r\n"
    options = http_options("https://r.example/", egress_proxy=proxy.url, connection_timeout=0.2)
    times = Times(retry_interval=0.05, probe_timeout=0.3)
    several = SeveralPublishers({"hook": HttpPublisher(options)}, Routes([], default="hook"), Drops(), times)
    await several.open()
    member, sink = several.members["hook"], Collector()
    events = [make_event("x")]
    await several.publish(events, sink)
    [outcome] = await sink.outcomes(events)
    assert isinstance(outcome, Unreachable | Away)

    async def is_refused() -> bool:
        return member.state is DestinationState.REFUSED

    async def is_away() -> bool:
        return member.state is DestinationState.AWAY

    await wait_until_async(is_refused, what="the state refused")
    proxy.answer = None
    await wait_until_async(is_away, what="the state away")
    await several.close()


async def test_a_checked_address_is_asked_for(proxy: ConnectProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy resolves nothing: a name that leads elsewhere a moment later gains nothing there, either."""
    local: Address = (int(socket.AF_INET), ("127.0.0.1", proxy.port))
    public: list[Address] = [(int(socket.AF_INET6), ("2001:db8::7", 443, 0, 0))]
    public.append((int(socket.AF_INET), ("1.2.3.4", 443)))

    async def resolve(host: str, port: int, *, allow_private: bool) -> list[Address]:
        assert not allow_private
        return [local] if host == "proxy.example" else public

    monkeypatch.setattr(connecting, "usable_addresses", resolve)
    proxy.answer = b"HTTP/1.1 502 no\r\n\r\n"
    options = {"egress_proxy": f"http://proxy.example:{proxy.port}", "allow_private": False}
    async with opened("https://receiver.example/hook", **options) as publisher:
        with pytest.raises(BrokerUnreachable, match=r"no tunnel to 1\.2\.3\.4:443"):
            await publisher.probe(patience())
    assert proxy.asked == ["CONNECT [2001:db8::7]:443 HTTP/1.1", "CONNECT 1.2.3.4:443 HTTP/1.1"]


@pytest.mark.http
async def test_an_address_that_the_proxy_does_not_reach_leaves_time_for_the_next_one(
    proxy: ConnectProxy, receiver: WebhookServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy without IPv6 took the whole time for the first address, and the receiver was away for good."""
    port = urlsplit(receiver.url).port or 0
    local: Address = (int(socket.AF_INET), ("127.0.0.1", proxy.port))
    public: list[Address] = [(int(socket.AF_INET6), ("2001:db8::7", port, 0, 0))]
    public.append((int(socket.AF_INET), ("1.2.3.4", port)))

    async def resolve(host: str, port: int, *, allow_private: bool) -> list[Address]:
        return [local] if host == "proxy.example" else public

    monkeypatch.setattr(connecting, "usable_addresses", resolve)
    proxy.silent_for = "2001:db8"
    options = {"egress_proxy": f"http://proxy.example:{proxy.port}", "connection_timeout": 2.0, "allow_private": False}
    async with opened(f"http://receiver.example:{port}/", **options) as publisher:
        assert await outcomes(publisher, [make_event("second")]) == [ACKNOWLEDGED]
    assert [one.split()[1] for one in proxy.asked] == [f"[2001:db8::7]:{port}", f"1.2.3.4:{port}"]


async def test_private_addresses_are_refused_on_both_ends(proxy: ConnectProxy) -> None:
    named = proxy.url.replace("127.0.0.1", "localhost")
    for url, host in ((f"https://localhost:{proxy.port}/", named), ("https://1.1.1.1/", named)):
        async with opened(url, egress_proxy=host, allow_private=False) as publisher:
            with pytest.raises(BrokerUnreachable, match="loopback"):
                await publisher.probe(patience())
    assert proxy.asked == []
    with pytest.raises(ConfigError, match=r"^HTTP_EGRESS_PROXY: 169\.254\.169\.254 is a link-local address"):
        read_proxy("http://169.254.169.254:80", allow_private=False)


@pytest.mark.parametrize(
    "url",
    [
        "https://u:s3cret@h:3128",
        "http://u:s3cret@h",
        "http://u:s3cret@h:3128/path",
        "socks5://u:s3cret@h:1080",
        "http://u:s3cret@h:port",
        "u:s3cret@h:3128",
    ],
)
def test_a_url_of_no_proxy_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(ConfigError, match=r"^HTTP_EGRESS_PROXY is not the URL of a proxy: write http") as caught:
        read_proxy(url, allow_private=True)
    assert "s3cret" not in str(caught.value)


def test_its_login_is_in_no_repr() -> None:
    options = http_options("https://r.example/", egress_proxy="http://relay:s3cret%2Fword@h:3128")
    proxy = read_proxy(options.egress_proxy, allow_private=True)
    assert proxy is not None
    assert proxy.authorization == LOGIN
    assert not any(secret in f"{options!r} {proxy!r} {proxy}" for secret in SECRETS)


async def test_a_login_in_a_file_is_read_again(tmp_path: Path) -> None:
    async with ConnectProxy(LOGIN) as proxy:
        file = tmp_path / "proxy"
        file.write_text(proxy.url.replace("://", "://relay:old@"))
        variables = {"PUBLISHER_URL": "http://r.example:1/", "HTTP_EGRESS_PROXY_FILE": str(file)}
        variables |= {"STORAGE_URL": "postgres://h/d", "HTTP_ALLOW_PRIVATE": "true"}
        publisher = build_publisher(Settings.from_env(variables))
        await publisher.open()
        with pytest.raises(BrokerRefused, match=r"status 407"):
            await publisher.probe(patience())
        file.write_text(proxy.url.replace("://", "://relay:s3cret%2Fword@"))
        with pytest.raises(BrokerUnreachable) as caught:  # the tunnel leads nowhere: nothing listens on port 1
            await publisher.probe(patience())
        assert not isinstance(caught.value, BrokerRefused)
        await publisher.close()
