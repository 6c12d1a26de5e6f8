"""What a client still buffers when it is abandoned never reaches the broker: its events are released."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import urllib.request
from collections.abc import Callable

import nats
import pytest
from redis.asyncio import Redis

from relay.brokers.nats.publisher import NatsPublisher
from relay.brokers.nats.session import NatsSession
from relay.brokers.rabbitmq.publisher import RabbitPublisher
from relay.brokers.rabbitmq.session import RabbitSession
from relay.brokers.redis.publisher import RedisPublisher
from relay.brokers.redis.session import RedisSession
from relay.core.outcome import Unreachable
from relay.core.ports import Publisher
from relay.localservers.process import free_port
from relay.localservers.server import LocalServer
from tests.brokers.harness.base import Collector, make_event
from tests.support.options import nats_options, rabbit_options, redis_options
from tests.support.rabbitmq import RabbitAdmin
from tests.support.servers.nats import NatsServer
from tests.support.servers.rabbitmq import RabbitServer
from tests.support.servers.valkey import ValkeyServer
from tests.support.waiting import eventually, patience, wait_until_async

_SIZE = 500_000
_EVENTS = 60
"""30 MB in all, which is more than the buffers of the two sockets take."""


async def abandon_in_the_middle(
    server: LocalServer,
    publisher: Publisher,
    session: NatsSession | RedisSession | RabbitSession,
    transport: asyncio.WriteTransport,
) -> int:
    """Offer more than a server that hangs takes, abandon it, let the server go on; how many events were written."""
    events, sink = [make_event("late", b"x" * _SIZE) for _ in range(_EVENTS)], Collector()
    os.kill(server.pid, signal.SIGSTOP)
    try:
        publishing = asyncio.create_task(publisher.publish(events, sink))
        await eventually(_stands(transport))
        written = len(session._pending)
        async with asyncio.timeout(patience(20)):
            await publisher.abandon("the broker hangs")
            await publishing
    finally:
        os.kill(server.pid, signal.SIGCONT)
    assert set(await sink.outcomes(events)) == {Unreachable("the broker hangs")}
    return written


def _stands(transport: asyncio.WriteTransport) -> Callable[[], bool]:
    """Whether the client holds bytes that the kernel took none of since the last look.

    How many they are is up to the kernel: its buffers end anywhere within an event.
    """
    looks = [0]

    def same_again() -> bool:
        looks.append(transport.get_write_buffer_size())
        return looks[-1] == looks[-2] > 0

    return same_again


@pytest.mark.nats
async def test_nats_gets_nothing_more_after_it_was_abandoned() -> None:
    port = free_port()
    with NatsServer(config=f"http: 127.0.0.1:{port}") as server:
        client = await nats.connect(server.url)
        await client.jetstream().add_stream(name="late", subjects=["late"])
        await client.close()
        publisher = NatsPublisher(nats_options(server.url))
        await publisher.open()
        await publisher.probe(patience(5))
        session = await publisher._current.get()
        writer: asyncio.StreamWriter = session._client._transport._io_writer  # type: ignore[union-attr]
        written = await abandon_in_the_middle(server, publisher, session, writer.transport)

        async def alone() -> bool:
            return await asyncio.to_thread(_connections, port) == 0

        await wait_until_async(alone, what="the server to see the connection's end")
        client = await nats.connect(server.url)
        arrived = (await client.jetstream().stream_info("late")).state.messages
        await client.close()
        await publisher.close()
        assert arrived < written


def _connections(port: int) -> int:
    """How many clients the server has."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/connz", timeout=patience(5)) as answer:
        return int(json.load(answer)["num_connections"])


@pytest.mark.redis
async def test_redis_gets_nothing_more_after_it_was_abandoned(own_redis: ValkeyServer) -> None:
    publisher = RedisPublisher(redis_options(own_redis.url))
    await publisher.open()
    session = await publisher._nodes._session(None).get()
    writer = session._writer
    assert writer is not None
    async with Redis.from_url(own_redis.url) as client:
        written = await abandon_in_the_middle(own_redis, publisher, session, writer.transport)

        async def alone() -> bool:
            return len(await client.client_list()) == 1

        await wait_until_async(alone, what="the server to see the connection's end")
        arrived = await client.xlen("late")
    await publisher.close()
    assert arrived < written


@pytest.mark.rabbitmq
@pytest.mark.xdist_group("rabbitmq")
async def test_rabbitmq_gets_nothing_more_after_it_was_abandoned(breakable_rabbitmq: RabbitServer) -> None:
    node = breakable_rabbitmq
    with RabbitAdmin(node.url) as admin:
        admin.declare("late")
    publisher = RabbitPublisher(rabbit_options(node.url))
    await publisher.open()
    session = await publisher._current.get()
    transport = session._wire._transport
    assert transport is not None
    written = await abandon_in_the_middle(node, publisher, session, transport)

    async def alone() -> bool:
        return await asyncio.to_thread(node.connections) == 0

    await wait_until_async(alone, what="the node to see the connection's end")
    with RabbitAdmin(node.url) as admin:
        arrived = admin.count("late")
    await publisher.close()
    assert arrived < written
