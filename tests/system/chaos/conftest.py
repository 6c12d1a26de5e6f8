"""Brokers behind proxies, and relays that are gone after the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.servers.tcp_proxy import Mode, TcpProxy
from tests.support.servers.webhooks import WebhookServer
from tests.system.chaos.brokers import Broker, Kafka, Nats, ProxiedKafka, RabbitMQ, Redis, Sqs, Webhooks

MakeBroker = Callable[[str], Broker]
_BEHIND_URL: dict[str, Callable[[TcpProxy, str], Broker]] = {
    "nats": Nats,
    "redis": Redis,
    "rabbitmq": RabbitMQ,
    "sqs": Sqs,
}


@pytest.fixture(scope="session")
def kafka_proxy() -> Iterator[TcpProxy]:
    """The way to a Kafka of the chaos tests' own. Tests that use it are of the group ``chaos-kafka``."""
    with TcpProxy() as proxy, ProxiedKafka(proxy) as server:
        proxy.target = server.port
        yield proxy


@pytest.fixture
def make_broker(request: pytest.FixtureRequest) -> Iterator[MakeBroker]:
    """``make_broker(kind)``: a new destination of a kind of broker (``kafka``, ``http``, …), behind a proxy."""
    proxies: list[TcpProxy] = []

    def own_proxy(url: str) -> TcpProxy:
        proxy = TcpProxy(int(url.rpartition(":")[2].partition("/")[0])).__enter__()
        proxies.append(proxy)
        return proxy

    def make(kind: str) -> Broker:
        if kind == "kafka":
            return Kafka(request.getfixturevalue("kafka_proxy"))
        if kind == "http":
            server: WebhookServer = request.getfixturevalue("webhooks")
            return Webhooks(own_proxy(server.url), server, request.getfixturevalue("http_authority").ca_file)
        url: str = request.getfixturevalue("aws_url" if kind == "sqs" else f"{kind}_url")
        return _BEHIND_URL[kind](own_proxy(url), url)

    yield make
    for proxy in proxies:
        proxy.close()
    if "kafka_proxy" in request.fixturenames:
        shared: TcpProxy = request.getfixturevalue("kafka_proxy")
        shared.set(Mode.FLOW)
        shared.delay, shared.slow_links, shared.tap = 0.0, None, None


@pytest.fixture
def broker(request: pytest.FixtureRequest, make_broker: MakeBroker) -> Broker:
    """The broker that an indirect parameter names."""
    return make_broker(request.param)
