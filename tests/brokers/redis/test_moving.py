"""The primary moves: demoted servers, Sentinel, and the slots of a cluster."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from relay.brokers.redis.publisher import RedisPublisher
from relay.core.errors import BrokerUnreachable
from relay.core.event import OutboxEvent
from relay.core.outcome import Acknowledged, Away, ConnectionCut, Outcome, Unreachable
from tests.brokers.harness.base import Collector, make_event
from tests.support.options import redis_options
from tests.support.servers.valkey import ValkeyServer
from tests.support.servers.valkey_groups import SERVICE, ValkeyCluster, ValkeySentinel, ask
from tests.support.waiting import eventually, patience, wait_until_async

pytestmark = pytest.mark.redis


async def opened(url: str, **options: Any) -> RedisPublisher:
    publisher = RedisPublisher(redis_options(url, **options))
    await publisher.open()
    return publisher


async def outcomes(publisher: RedisPublisher, events: list[OutboxEvent]) -> list[Outcome]:
    sink = Collector()
    await publisher.publish(events, sink)
    return await sink.outcomes(events)


async def refusal(publisher: RedisPublisher) -> str:
    """Why a probe fails; empty when it does not."""
    try:
        await publisher.probe(2.0)
    except BrokerUnreachable as error:
        return str(error)
    return ""


def length(server: ValkeyServer, stream: str) -> int:
    return int(ask(server, "XLEN", stream))


async def test_a_demoted_primary_is_unreachable_until_it_takes_writes_again() -> None:
    with ValkeyServer() as server, ValkeyServer() as other:
        publisher = await opened(server.url)
        assert await outcomes(publisher, [make_event("s")]) == [Acknowledged()]
        ask(server, "REPLICAOF", "127.0.0.1", other.port)
        lost = await outcomes(publisher, [make_event("s") for _ in range(300)])
        assert {type(outcome) for outcome in lost} == {Unreachable}
        assert all("READONLY" in outcome.reason for outcome in lost if isinstance(outcome, Unreachable))
        assert "READONLY: this server is a replica" in await refusal(publisher)
        ask(server, "REPLICAOF", "NO", "ONE")
        assert await refusal(publisher) == ""
        assert await outcomes(publisher, [make_event("s")]) == [Acknowledged()]
        await publisher.close()


async def test_a_replica_without_its_primary_is_unreachable() -> None:
    with ValkeyServer(settings={"replica-serve-stale-data": "no", "replica-read-only": "no"}) as server:
        publisher = await opened(server.url)
        ask(server, "REPLICAOF", "127.0.0.1", 1)
        [outcome] = await outcomes(publisher, [make_event("s")])
        assert isinstance(outcome, Unreachable)
        assert "MASTERDOWN" in outcome.reason
        assert "MASTERDOWN" in await refusal(publisher)
        await publisher.close()


async def test_a_user_with_the_right_to_write_alone_passes_the_probe_and_learns_of_a_demotion() -> None:
    with ValkeyServer() as server:
        ask(server, "ACL", "SETUSER", "writer", "on", ">s3cret", "~s", "+xadd")
        publisher = await opened(server.url.replace("redis://", "redis://writer:s3cret@"))
        assert await refusal(publisher) == ""
        ask(server, "REPLICAOF", "127.0.0.1", 1)
        assert "READONLY" in await refusal(publisher)
        await publisher.close()


async def test_a_sentinels_primary_is_followed_through_a_failover() -> None:
    with ValkeyServer() as first, ValkeyServer() as second:
        ask(second, "REPLICAOF", "127.0.0.1", first.port)
        with ValkeySentinel(first) as sentinel:
            await eventually(lambda: len(ask(sentinel, "SENTINEL", "REPLICAS", SERVICE)) == 1, what="the replica")
            url = f"redis+sentinel://127.0.0.1:1,127.0.0.1:{sentinel.port}/{SERVICE}/0"
            publisher = await opened(url)
            assert await refusal(publisher) == ""
            assert await outcomes(publisher, [make_event("s", b"before")]) == [Acknowledged()]
            await eventually(lambda: length(second, "s") == 1, what="the replica to be in step")
            first.stop(signal.SIGKILL)

            async def acknowledged() -> bool:
                await publisher.abandon("closed")
                return await outcomes(publisher, [make_event("s", b"after")]) == [Acknowledged()]

            await wait_until_async(acknowledged, what="the promoted replica to be used")
            assert length(second, "s") == 2
            assert await refusal(publisher) == ""
            await publisher.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[ValkeyCluster]:
    with ValkeyCluster() as nodes:
        yield nodes


@pytest.fixture(params=["redis://{0}", "redis+cluster://127.0.0.1:1,{0},{1}"], ids=["one node", "cluster"])
async def clustered(cluster: ValkeyCluster, request: pytest.FixtureRequest) -> AsyncIterator[RedisPublisher]:
    publisher = await opened(request.param.format(*(f"127.0.0.1:{node.port}" for node in cluster.nodes)))
    yield publisher
    await publisher.close()


async def test_every_stream_of_a_cluster_is_written_on_its_node(
    cluster: ValkeyCluster, clustered: RedisPublisher, request: pytest.FixtureRequest
) -> None:
    streams = [f"{request.node.name} {number}" for number in range(40)]
    assert {cluster.owner(stream) for stream in streams} == set(cluster.nodes)
    events = [make_event(stream, str(turn).encode()) for turn in range(25) for stream in streams]
    assert await outcomes(clustered, events) == [Acknowledged()] * len(events)
    assert await refusal(clustered) == ""
    again = [make_event(stream, b"25") for stream in streams]
    assert await outcomes(clustered, again) == [Acknowledged()] * len(again)
    for stream in streams:
        entries = ask(cluster.owner(stream), "XRANGE", stream, "-", "+")
        assert [fields[b"payload"] for _, fields in entries] == [str(turn).encode() for turn in range(26)]


async def test_a_cluster_names_the_node_of_each_stream_and_probes_it_alone(
    cluster: ValkeyCluster, clustered: RedisPublisher
) -> None:
    streams = [f"named {number}" for number in range(40)]
    events = [make_event(stream) for stream in streams]
    assert {clustered.destination_of(event) for event in events} == {""}, "no node has said anything yet"
    assert await outcomes(clustered, events) == [Acknowledged()] * len(events)
    by_node: dict[ValkeyServer, set[str]] = {}
    for event in events:
        by_node.setdefault(cluster.owner(event.event_type), set()).add(clustered.destination_of(event))
    [first], [second] = by_node[cluster.nodes[0]], by_node[cluster.nodes[1]]
    assert second == f"127.0.0.1:{cluster.nodes[1].port}" != first
    os.kill(cluster.nodes[1].pid, signal.SIGSTOP)
    try:
        await clustered.probe_destination(first, patience(5.0))
        with pytest.raises(BrokerUnreachable):
            await clustered.probe_destination(second, 0.3)
    finally:
        os.kill(cluster.nodes[1].pid, signal.SIGCONT)


async def test_streams_are_trimmed_on_every_node(cluster: ValkeyCluster) -> None:
    streams = {cluster.owner(name): name for name in map("short {}".format, range(40))}
    assert set(streams) == set(cluster.nodes)
    publisher = await opened(cluster.nodes[0].url, maxlen=200, maxlen_streams=["short *"])
    events = [make_event(name, str(turn).encode()) for turn in range(600) for name in streams.values()]
    assert await outcomes(publisher, events) == [Acknowledged()] * len(events)
    for node, name in streams.items():
        assert 200 <= length(node, name) <= 300
        [(_, last)] = ask(node, "XREVRANGE", name, "+", "-", "COUNT", 1)
        assert last[b"payload"] == b"599"
    await publisher.close()


async def test_a_slot_that_is_on_its_way_is_followed(cluster: ValkeyCluster, clustered: RedisPublisher) -> None:
    stream = next(name for name in map("moving {}".format, range(99)) if cluster.owner(name) is cluster.nodes[0])
    source, target = cluster.nodes
    slot, names = cluster.slot(stream), [ask(node, "CLUSTER", "MYID").decode() for node in cluster.nodes]
    ask(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", names[0])
    ask(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", names[1])
    events = [make_event(stream, str(number).encode()) for number in range(20)]
    assert await outcomes(clustered, events) == [Acknowledged()] * len(events)
    for node in (target, source):
        ask(node, "CLUSTER", "SETSLOT", slot, "NODE", names[1])
    assert await outcomes(clustered, [make_event(stream, b"20")]) == [Acknowledged()]
    entries = ask(target, "XRANGE", stream, "-", "+")
    assert [fields[b"payload"] for _, fields in entries] == [str(number).encode() for number in range(21)]
    ask(target, "DEL", stream)
    for node in (source, target):  # the slot goes back, for the next test
        ask(node, "CLUSTER", "SETSLOT", slot, "NODE", names[0])


async def test_a_node_that_is_gone_costs_its_own_events_alone() -> None:
    with ValkeyCluster() as cluster:
        publisher = await opened(cluster.nodes[0].url, connection_timeout=1.0)
        streams = {cluster.owner(name): name for name in map("stream {}".format, range(40))}
        assert await outcomes(publisher, [make_event(name) for name in streams.values()]) == [Acknowledged()] * 2
        cluster.nodes[1].stop(signal.SIGKILL)
        for _ in range(3):  # over the connection that was lost, by the node that another one names, and once more
            good, gone = await outcomes(publisher, [make_event(streams[node]) for node in cluster.nodes])
            assert good == Acknowledged()
            assert isinstance(gone, Away)
            assert str(cluster.nodes[1].port) in gone.reason
            assert await refusal(publisher) == ""
        cluster.nodes[0].stop(signal.SIGKILL)
        lost = await outcomes(publisher, [make_event(name) for name in streams.values()])
        assert {type(outcome) for outcome in lost} <= {Unreachable, ConnectionCut}
        assert await refusal(publisher)
        await publisher.close()


async def test_a_node_that_hangs_costs_its_own_events_alone() -> None:
    with ValkeyCluster() as cluster:
        publisher = await opened(cluster.nodes[0].url, connection_timeout=1.0, write_timeout=0.5)
        streams = {cluster.owner(name): name for name in map("stream {}".format, range(40))}
        assert await outcomes(publisher, [make_event(name) for name in streams.values()]) == [Acknowledged()] * 2
        os.kill(cluster.nodes[1].pid, signal.SIGSTOP)
        try:
            good, gone = await outcomes(publisher, [make_event(streams[node]) for node in cluster.nodes])
            assert good == Acknowledged()
            assert isinstance(gone, Away)
            assert await refusal(publisher) == ""
        finally:
            os.kill(cluster.nodes[1].pid, signal.SIGCONT)
        await publisher.close()
