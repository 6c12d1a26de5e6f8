"""A broker that cuts the connection on a certain message: that event fails alone, and all others flow.

Real servers, each with a reason of its own to cut: Redis at its bound on a client's query buffer, NATS at its bound on
a control line, a receiver of webhooks at a certain type, Kafka, RabbitMQ and an emulator of SQS behind a proxy that
resets on a pattern.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import nats
import pytest

from tests.support.fixtures.daemon import StartDaemon
from tests.support.fixtures.measured import Measured
from tests.support.fixtures.outbox import Outbox, Row
from tests.support.servers.nats import NatsServer
from tests.support.servers.tcp_proxy import TcpProxy
from tests.support.servers.valkey import ValkeyServer
from tests.support.servers.webhooks import WebhookServer
from tests.support.waiting import PATIENCE, wait_until
from tests.system.chaos.brokers import Kafka, RabbitMQ, Sqs
from tests.system.chaos.conftest import MakeBroker
from tests.system.chaos.load import Writers

pytestmark = pytest.mark.timeout(180)

BOUND = 10.0 * PATIENCE
"""Seconds in which each innocent event is delivered (docs/design/guarantees.md#failures)."""


@dataclass(frozen=True)
class Cutting:
    """A broker, a destination of it, and a message on which it cuts the connection."""

    env: dict[str, str]
    destination: str
    poison: Row


class ResetOnPoison:
    """A tap that cuts the connection on a pattern."""

    def request(self, link: int, data: bytes) -> None:
        if b"POISON" in data:
            raise ConnectionResetError

    def reply(self, link: int, data: bytes) -> bytes:
        return data


def redis(stack: ExitStack) -> Cutting:
    server = stack.enter_context(ValkeyServer(settings={"client-query-buffer-limit": "1mb"}))
    env = {"PUBLISHER_TYPE": "redis", "PUBLISHER_URL": server.url}
    return Cutting(env, "orders", Row("orders", b"x" * 3_000_000))


def nats_server(stack: ExitStack) -> Cutting:
    server = stack.enter_context(NatsServer(config="max_control_line: 512"))

    async def create_stream() -> None:
        client = await nats.connect(server.url)
        await client.jetstream().add_stream(name="orders", subjects=["orders.>"])
        await client.close()

    asyncio.run(create_stream())
    env = {"PUBLISHER_TYPE": "nats", "PUBLISHER_URL": server.url}
    return Cutting(env, "orders.good", Row("orders." + "x" * 600, b"small"))


def webhooks(stack: ExitStack) -> Cutting:
    server = stack.enter_context(WebhookServer())
    env = {"PUBLISHER_TYPE": "http", "PUBLISHER_URL": server.url, "HTTP_ALLOW_PRIVATE": "true"}
    return Cutting(env, "orders", Row("cut", b"small"))


OWN = {"redis": redis, "nats": nats_server, "http": webhooks}


def proxied(broker: Kafka | RabbitMQ | Sqs) -> Cutting:
    proxy: TcpProxy = broker.proxy
    proxy.tap = ResetOnPoison()
    return Cutting(broker.env(), broker.destination, Row(broker.destination, b"POISON" + uuid.uuid4().hex.encode()))


@pytest.fixture(
    # The conformance suite cuts on an event of each but HTTP, in the test's process. NATS and RabbitMQ share what Redis
    # does about it.
    params=[
        "redis",
        pytest.param("nats", marks=pytest.mark.soak),
        pytest.param("rabbitmq", marks=pytest.mark.soak),
        "http",
        pytest.param("sqs", marks=[pytest.mark.aws, pytest.mark.soak]),
        pytest.param("kafka", marks=pytest.mark.xdist_group("chaos-kafka")),
    ]
)
def cutting(request: pytest.FixtureRequest, make_broker: MakeBroker) -> Iterator[Cutting]:
    with ExitStack() as stack:
        if request.param in ("kafka", "rabbitmq", "sqs"):
            broker = make_broker(request.param)
            assert isinstance(broker, Kafka | RabbitMQ | Sqs)
            yield proxied(broker)
        else:
            yield OWN[request.param](stack)


def test_an_event_that_the_broker_cuts_on_fails_alone(
    outbox: Outbox, cutting: Cutting, daemon: StartDaemon, measured: Measured
) -> None:
    outbox.insert([Row(cutting.destination) for _ in range(40)])
    outbox.insert([cutting.poison])
    relay = daemon(**cutting.env, RETRY_MAX_ATTEMPTS="2", RETRY_BASE_DELAY="500ms").wait_ready()
    began = time.monotonic()
    with Writers(outbox.url, cutting.destination, per_second=100):
        wait_until(lambda: outbox.counts().get("DEAD") == 1, what="the event to be dead")
        dead_after = time.monotonic() - began
        assert relay.get("/readyz")[0] == 200
    wait_until(lambda: set(outbox.counts()) == {"DELIVERED", "DEAD"}, what="all others to be delivered")
    [(attempts, error)] = outbox.database.run(
        "SELECT attempts, last_error FROM openoutbox_events WHERE status = 'DEAD'"
    )
    assert (attempts, error[:16]) == (2, "CONNECTION_CUT: ")
    assert f"{len(cutting.poison.payload):,} bytes of payload to " in error
    [(events, used, slowest)] = outbox.database.run(
        "SELECT count(*), sum(attempts), extract(epoch FROM max(delivered_at - created_at))::float8 "
        "FROM openoutbox_events WHERE status = 'DELIVERED'"
    )
    assert used == 0
    assert slowest < BOUND
    measured(fault=f"cut by {cutting.env['PUBLISHER_TYPE']}", dead_after_s=dead_after, slowest_s=slowest, events=events)
