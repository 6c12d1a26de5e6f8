"""The ground itself: the nats-server that other tests stand on."""

from __future__ import annotations

import signal

import nats
from nats.js import JetStreamContext

from tests.support.fixtures.nats import MakeStream, read_stream
from tests.support.servers.nats import NatsServer


async def test_what_is_published_is_read_back(jetstream: JetStreamContext, stream: MakeStream) -> None:
    names = await stream()
    for number in range(3):
        await jetstream.publish(names.subject("a"), str(number).encode())
    assert [message.data for message in await read_stream(jetstream, names, 3)] == [b"0", b"1", b"2"]


async def test_a_stream_outlives_a_crash_and_the_port_stays(own_nats: NatsServer) -> None:
    async with await nats.connect(own_nats.url) as client:
        await client.jetstream().add_stream(name="kept", subjects=["kept.>"])
        await client.jetstream().publish("kept.one", b"1")
    own_nats.stop(signal.SIGKILL)
    own_nats.start()
    async with await nats.connect(own_nats.url) as client:
        assert (await client.jetstream().stream_info("kept")).state.messages == 1
