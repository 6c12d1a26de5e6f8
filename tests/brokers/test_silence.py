"""A timeout means a silent server: not a slow link to it, and not a relay that did not run."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest

from relay.brokers.nats.publisher import NatsPublisher
from relay.brokers.rabbitmq.publisher import RabbitPublisher
from relay.brokers.redis.publisher import RedisPublisher
from relay.core.event import OutboxEvent
from relay.core.outcome import Acknowledged
from relay.core.ports import Publisher
from tests.brokers.harness.base import Collector, make_event
from tests.support.fixtures.nats import MakeStream
from tests.support.fixtures.rabbitmq import MakeQueue
from tests.support.options import nats_options, rabbit_options, redis_options
from tests.support.servers.tcp_proxy import TcpProxy
from tests.support.waiting import pace, patience

KIB = 1024
TIMEOUT = patience(0.4)


def port(url: str) -> int:
    return int(url.rpartition(":")[2].partition("/")[0])


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[RedisPublisher]:
    """A publisher behind a link of 1 MB/s, whose server must answer within ``TIMEOUT``."""
    with TcpProxy(port(redis_url), bytes_per_second=1e6) as proxy:
        publisher = RedisPublisher(redis_options(f"redis://127.0.0.1:{proxy.port}/0", write_timeout=TIMEOUT))
        await publisher.open()
        yield publisher
        await publisher.close()


@pytest.fixture
async def nats(nats_url: str) -> AsyncIterator[NatsPublisher]:
    """The same with NATS."""
    with TcpProxy(port(nats_url), bytes_per_second=1e6) as proxy:
        publisher = NatsPublisher(nats_options(f"nats://127.0.0.1:{proxy.port}", publish_timeout=TIMEOUT))
        await publisher.open()
        yield publisher
        await publisher.close()


@pytest.fixture
async def rabbitmq(rabbitmq_url: str) -> AsyncIterator[RabbitPublisher]:
    """The same with RabbitMQ."""
    login, _, place = rabbitmq_url.rpartition("@")
    with TcpProxy(port(place), bytes_per_second=1e6) as proxy:
        publisher = RabbitPublisher(rabbit_options(f"{login}@127.0.0.1:{proxy.port}", publish_timeout=TIMEOUT))
        await publisher.open()
        yield publisher
        await publisher.close()


async def acknowledge(publisher: Publisher, events: list[OutboxEvent], stop: float = 0) -> None:
    """Publish; then the process stands still for ``stop`` seconds, and all events are acknowledged."""
    sink = Collector()
    await publisher.publish(events, sink)
    if stop:
        pace(stop)
    assert {type(outcome) for outcome in await sink.outcomes(events)} == {Acknowledged}


async def carry_much(publisher: Publisher, event_type: str) -> None:
    await acknowledge(publisher, [make_event(event_type, bytes(800 * KIB)), make_event(event_type, bytes(800 * KIB))])


async def stand_still(publisher: Publisher, event_type: str) -> None:
    await acknowledge(publisher, [make_event(event_type)])  # the connection stands
    await acknowledge(publisher, [make_event(event_type)], stop=2 * TIMEOUT)


@pytest.mark.redis
async def test_what_a_slow_link_to_redis_still_carries_does_not_time_out(redis: RedisPublisher) -> None:
    await carry_much(redis, f"slow.{uuid.uuid4().hex}")


@pytest.mark.nats
async def test_what_a_slow_link_to_nats_still_carries_does_not_time_out(
    nats: NatsPublisher, stream: MakeStream
) -> None:
    await carry_much(nats, (await stream()).subject())


@pytest.mark.redis
async def test_time_in_which_the_relay_does_not_run_does_not_count_against_redis(redis: RedisPublisher) -> None:
    await stand_still(redis, f"slow.{uuid.uuid4().hex}")


@pytest.mark.nats
async def test_time_in_which_the_relay_does_not_run_does_not_count_against_nats(
    nats: NatsPublisher, stream: MakeStream
) -> None:
    await stand_still(nats, (await stream()).subject())


@pytest.mark.rabbitmq
async def test_what_a_slow_link_to_rabbitmq_still_carries_does_not_time_out(
    rabbitmq: RabbitPublisher, queue: MakeQueue
) -> None:
    await carry_much(rabbitmq, queue())


@pytest.mark.rabbitmq
async def test_time_in_which_the_relay_does_not_run_does_not_count_against_rabbitmq(
    rabbitmq: RabbitPublisher, queue: MakeQueue
) -> None:
    await stand_still(rabbitmq, queue())
