"""TLS and mutual TLS to RabbitMQ, each with good and bad certificates."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.brokers.rabbitmq.publisher import RabbitPublisher
from relay.core.errors import BrokerRefused, BrokerUnreachable
from relay.core.outcome import Acknowledged
from tests.brokers.harness.base import Collector, make_event
from tests.support.options import rabbit_options
from tests.support.servers.identities import Identities
from tests.support.servers.rabbitmq import RabbitServer
from tests.support.waiting import patience

pytestmark = [pytest.mark.rabbitmq, pytest.mark.xdist_group("rabbitmq")]


@pytest.fixture
def ours(rabbitmq_authority: Identities) -> Identities:
    return rabbitmq_authority


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Identities:
    return Identities(tmp_path_factory.mktemp("strangers"))


@pytest.fixture
def server(breakable_rabbitmq: RabbitServer) -> RabbitServer:
    """A node that demands a client's certificate."""
    return breakable_rabbitmq


def url(server: RabbitServer, authority: Path, folder: Identities | None) -> str:
    files = f"tls_ca={authority}"
    if folder is not None:
        pair = folder.issue("client", "relay.test")
        files += f"&tls_cert={pair.certificate}&tls_key={pair.key}"
    return f"amqps://admin:admin@127.0.0.1:{server.tls_port}?{files}"


async def test_both_sides_know_each_other(server: RabbitServer, ours: Identities) -> None:
    publisher, sink = RabbitPublisher(rabbit_options(url(server, ours.ca_file, ours))), Collector()
    await publisher.open()
    await publisher.probe(patience())
    events = [make_event("letters", b"x" * 200_000) for _ in range(20)]
    await publisher.publish(events, sink)
    assert set(await sink.outcomes(events)) == {Acknowledged()}
    await publisher.close()


@pytest.mark.parametrize("wrong", ["server", "client", "none"])
async def test_a_stranger_is_refused(server: RabbitServer, ours: Identities, strangers: Identities, wrong: str) -> None:
    client = {"server": ours, "client": strangers, "none": None}[wrong]
    authority = strangers.ca_file if wrong == "server" else ours.ca_file
    publisher = RabbitPublisher(rabbit_options(url(server, authority, client)))
    await publisher.open()
    words = "(?i)certificate verify failed" if wrong == "server" else "(?i)unknown ca|certificate|connection"
    with pytest.raises(BrokerRefused if wrong == "server" else BrokerUnreachable, match=words):
        await publisher.probe(patience())
    await publisher.close()


async def test_a_certificate_that_is_replaced_is_used_for_the_next_connection(
    server: RabbitServer, ours: Identities, strangers: Identities, tmp_path: Path
) -> None:
    """As mounted certificates are: the relay does not restart."""
    mounted = tmp_path / "ca.pem"
    mounted.write_bytes(strangers.ca_file.read_bytes())
    publisher = RabbitPublisher(rabbit_options(url(server, mounted, ours)))
    await publisher.open()
    with pytest.raises(BrokerUnreachable):
        await publisher.probe(patience())
    mounted.write_bytes(ours.ca_file.read_bytes())
    await publisher.probe(patience())
    await publisher.close()
