"""TLS and mutual TLS to a receiver, each with good and bad certificates."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from relay.brokers.http.publisher import HttpPublisher
from relay.core.errors import BrokerRefused, BrokerUnreachable
from relay.core.outcome import Acknowledged
from tests.brokers.harness.base import Collector, make_event
from tests.support.options import http_options
from tests.support.servers.identities import Identities
from tests.support.servers.webhooks import WebhookServer
from tests.support.waiting import patience

pytestmark = pytest.mark.http


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Identities:
    return Identities(tmp_path_factory.mktemp("ours"))


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Identities:
    return Identities(tmp_path_factory.mktemp("strangers"))


@pytest.fixture(scope="module")
def server(ours: Identities) -> Iterator[WebhookServer]:
    """A receiver that demands a client's certificate."""
    with WebhookServer(ours, demands_certificate=True) as receiver:
        yield receiver


def publisher(server: WebhookServer, authority: Path, folder: Identities | None) -> HttpPublisher:
    files: dict[str, Any] = {"tls_ca": str(authority)}
    if folder is not None:
        pair = folder.issue("client", "relay.test")
        files |= {"tls_cert": str(pair.certificate), "tls_key": str(pair.key)}
    return HttpPublisher(http_options(server.url, **files))


async def test_both_sides_know_each_other(server: WebhookServer, ours: Identities) -> None:
    instance, sink = publisher(server, ours.ca_file, ours), Collector()
    await instance.open()
    await instance.probe(patience())
    events = [make_event("letters", b"x" * 200_000) for _ in range(20)]
    await instance.publish(events, sink)
    assert set(await sink.outcomes(events)) == {Acknowledged()}
    await instance.close()


@pytest.mark.parametrize("wrong", ["server", "client", "none"])
async def test_a_stranger_is_refused(
    server: WebhookServer, ours: Identities, strangers: Identities, wrong: str
) -> None:
    client = {"server": ours, "client": strangers, "none": None}[wrong]
    instance = publisher(server, strangers.ca_file if wrong == "server" else ours.ca_file, client)
    await instance.open()
    words = "TLS: certificate verify failed: " if wrong == "server" else "right after the TLS handshake: it may refuse"
    with pytest.raises(BrokerRefused if wrong == "server" else BrokerUnreachable, match=words):
        await instance.probe(patience())
    await instance.close()


async def test_a_name_that_the_certificate_does_not_have_is_refused(ours: Identities) -> None:
    pair, context = ours.issue("other", "other.test"), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.certificate, pair.key)
    other = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=context)
    url = f"https://localhost:{other.sockets[0].getsockname()[1]}/"
    instance = HttpPublisher(http_options(url, tls_ca=str(ours.ca_file)))
    await instance.open()
    with pytest.raises(BrokerRefused, match="TLS: certificate verify failed: Hostname mismatch"):
        await instance.probe(patience())
    await instance.close()
    other.close()


async def test_a_certificate_that_is_replaced_is_used_for_the_next_connection(
    server: WebhookServer, ours: Identities, strangers: Identities, tmp_path: Path
) -> None:
    """As mounted certificates are: the relay does not restart."""
    mounted = tmp_path / "ca.pem"
    mounted.write_bytes(strangers.ca_file.read_bytes())
    instance = publisher(server, mounted, ours)
    await instance.open()
    with pytest.raises(BrokerUnreachable):
        await instance.probe(patience())
    mounted.write_bytes(ours.ca_file.read_bytes() + b"\n")
    await instance.probe(patience())
    await instance.close()
