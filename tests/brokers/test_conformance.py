"""Every publisher of this project in the suite of ``relay.conformance``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from relay.conformance.suite import *  # noqa: F403 -- the cases
from relay.core.outcome import Acknowledged
from relay.engine.destination.destination import Times
from relay.engine.destination.drops import Drops
from relay.engine.destination.pace import TokenBucket
from relay.engine.destination.several import SeveralPublishers
from relay.routing.rules import Routes
from tests.brokers.harness.aws import SnsHarness, SqsHarness
from tests.brokers.harness.base import Collector, Harness, make_event
from tests.brokers.harness.http import HttpHarness
from tests.brokers.harness.kafka import KafkaHarness, ProxiedKafka
from tests.brokers.harness.memory import MemoryHarness
from tests.brokers.harness.nats import NatsHarness
from tests.brokers.harness.plain import NullHarness, StdoutHarness
from tests.brokers.harness.rabbitmq import RabbitHarness
from tests.brokers.harness.redis import RedisClusterHarness, RedisHarness
from tests.brokers.harness.routed import RoutedHarness, SeveralHarness
from tests.support.fixtures.outbox import Outbox
from tests.support.servers.aws import CREDENTIALS, AwsServer
from tests.support.servers.identities import Identities
from tests.support.servers.kafka import KafkaServer
from tests.support.servers.nats import NatsServer
from tests.support.servers.tcp_proxy import TcpProxy
from tests.support.servers.valkey import ValkeyServer
from tests.support.servers.valkey_groups import ValkeyCluster
from tests.support.servers.webhooks import WebhookServer
from tests.support.waiting import patience

Make = Callable[[pytest.FixtureRequest], Harness]

HARNESSES: dict[str, Make] = {
    "memory": lambda _: MemoryHarness(),
    "routed": lambda _: RoutedHarness(),
    "several": lambda _: SeveralHarness(),
    "null": lambda _: NullHarness(),
    "stdout": lambda _: StdoutHarness(),
    "kafka": lambda request: KafkaHarness(*request.getfixturevalue("breakable_kafka")),
    "nats": lambda request: NatsHarness(request.getfixturevalue("breakable_nats")),
    "redis": lambda request: RedisHarness(request.getfixturevalue("breakable_redis")),
    "redis-cluster": lambda request: RedisClusterHarness(*request.getfixturevalue("breakable_redis_cluster")),
    "rabbitmq": lambda request: RabbitHarness(request.getfixturevalue("breakable_rabbitmq")),
    "http": lambda request: HttpHarness(*request.getfixturevalue("breakable_http")),
    "sqs": lambda request: SqsHarness(request.getfixturevalue("breakable_aws")),
    "sns": lambda request: SnsHarness(request.getfixturevalue("breakable_aws")),
}
SERVERS = {
    "kafka": [pytest.mark.kafka, pytest.mark.xdist_group("conformance kafka")],  # so that one process starts a Kafka
    "nats": [pytest.mark.nats],
    "redis": [pytest.mark.redis],
    "redis-cluster": [pytest.mark.redis],
    "rabbitmq": [pytest.mark.rabbitmq, pytest.mark.xdist_group("rabbitmq")],
    "http": [pytest.mark.http],
    "sqs": [pytest.mark.aws, pytest.mark.xdist_group("conformance aws")],
    "sns": [pytest.mark.aws, pytest.mark.xdist_group("conformance aws")],
}


@pytest.fixture(scope="module")
def breakable_kafka() -> Iterator[tuple[KafkaServer, TcpProxy]]:
    """A broker of this suite's own, to pause and restart."""
    with TcpProxy() as proxy, ProxiedKafka(proxy) as server:
        yield server, proxy


@pytest.fixture(scope="module")
def breakable_nats() -> Iterator[NatsServer]:
    """As above."""
    with NatsServer() as server:
        yield server


@pytest.fixture(scope="module")
def breakable_redis() -> Iterator[ValkeyServer]:
    """As above."""
    with ValkeyServer() as server:
        yield server


@pytest.fixture(scope="module")
def breakable_redis_cluster() -> Iterator[tuple[ValkeyCluster, list[TcpProxy]]]:
    """Two shards, each behind a proxy."""
    with TcpProxy() as first, TcpProxy() as second:
        proxies = [first, second]
        with ValkeyCluster(announced=[proxy.port for proxy in proxies]) as cluster:
            for proxy, node in zip(proxies, cluster.nodes, strict=True):
                proxy.target = node.port
            yield cluster, proxies


@pytest.fixture(scope="module")
def breakable_http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[WebhookServer, Identities]]:
    """As above."""
    identities = Identities(tmp_path_factory.mktemp("http"))
    with WebhookServer(identities) as server:
        yield server, identities


@pytest.fixture(scope="module")
def breakable_aws() -> Iterator[AwsServer]:
    """An emulator of this suite's own, and credentials for it."""
    with AwsServer() as server, pytest.MonkeyPatch.context() as environment:
        for name, value in CREDENTIALS.items():
            environment.setenv(name, value)
        yield server


@pytest.fixture
def outbox_extensions() -> Sequence[str]:
    """Those of the suite's own databases."""
    return ("key-order", "fan-out")


@pytest.fixture  # type: ignore[no-redef]  # instead of the suite's
def law_outbox(outbox: Outbox) -> str:
    """A database of each test's own."""
    return outbox.url


@pytest.fixture(params=[pytest.param(name, marks=SERVERS.get(name, ())) for name in HARNESSES])
def harness(request: pytest.FixtureRequest) -> Iterator[Harness]:
    instance = HARNESSES[request.param](request)
    yield instance
    instance.close()


async def test_a_rate_is_kept(harness: Harness) -> None:
    """Of 100 events at 200 a second 20 go at once, and the others take 0.4 seconds, of each kind."""
    destination, sink = await harness.destination(), Collector()
    pace, times = TokenBucket(200.0, time.monotonic), Times(retry_interval=5.0)
    publisher = SeveralPublishers(
        {"one": harness.publisher()}, Routes([], default="one"), Drops(), times, {"one": pace}
    )
    await publisher.open()
    events = [make_event(destination, b"%d" % number) for number in range(100)]
    began = time.monotonic()
    await publisher.publish(events, sink)
    outcomes = await sink.outcomes(events)
    took = time.monotonic() - began
    await publisher.close()
    assert all(isinstance(one, Acknowledged) for one in outcomes)
    assert 0.38 <= took <= patience(4.0)
