"""What only RabbitMQ does: exchanges, returned and refused messages, closed channels, rights, blocked connections."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace

import pytest

from relay.brokers.rabbitmq.check import has_exchange, missing_queues
from relay.brokers.rabbitmq.publisher import RabbitPublisher
from relay.core.errors import BrokerRefused, BrokerUnreachable
from relay.core.event import OutboxEvent
from relay.core.outcome import Acknowledged, ConnectionCut, Outcome, Permanent, TimedOut, Transient, Unreachable
from relay.localservers.process import ServerFailed
from tests.brokers.harness.base import Collector, make_event
from tests.support.fixtures.rabbitmq import MakeQueue
from tests.support.options import rabbit_options
from tests.support.rabbitmq import RabbitAdmin
from tests.support.servers.rabbitmq import NARROW, RabbitServer
from tests.support.servers.tcp_proxy import Mode, TcpProxy
from tests.support.waiting import eventually, patience

pytestmark = [pytest.mark.rabbitmq, pytest.mark.xdist_group("rabbitmq")]


@pytest.fixture
def guarded(breakable_rabbitmq: RabbitServer) -> RabbitServer:
    """A node whose users may write to some exchanges, and that takes messages of up to a megabyte."""
    return breakable_rabbitmq


@pytest.fixture
async def publisher(rabbitmq_url: str) -> AsyncIterator[RabbitPublisher]:
    async with opened(rabbitmq_url) as instance:
        yield instance


@asynccontextmanager
async def opened(url: str, **changes: object) -> AsyncIterator[RabbitPublisher]:
    """A publisher that is open."""
    publisher = RabbitPublisher(rabbit_options(url, **changes))
    await publisher.open()
    try:
        yield publisher
    finally:
        await publisher.close()


async def outcomes(publisher: RabbitPublisher, events: list[OutboxEvent]) -> list[Outcome]:
    sink = Collector()
    await publisher.publish(events, sink)
    return await sink.outcomes(events)


@contextmanager
def suspended(server: RabbitServer) -> Iterator[None]:
    """The node's threads are stopped."""
    os.kill(server.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, server.pid, os.WSTOPPED)
    try:
        yield
    finally:
        with suppress(ServerFailed):  # killed meanwhile
            os.kill(server.pid, signal.SIGCONT)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
async def test_a_message_is_persistent_and_has_its_id_and_content_type(
    publisher: RabbitPublisher, rabbit: RabbitAdmin, queue: MakeQueue, kind: str
) -> None:
    name = queue(x_queue_type=kind)
    plain, typed = make_event(name), make_event(name, headers='{"Content-Type": "application/json"}')
    assert await outcomes(publisher, [plain, typed]) == [Acknowledged()] * 2
    first, second = rabbit.read(name, 2)
    assert (first.message_id, first.delivery_mode, first.content_type) == (
        plain.event_id,
        2,
        "application/octet-stream",
    )
    assert second.content_type == "application/json"
    assert second.headers == {"Content-Type": "application/json"}


async def test_an_exchange_routes_by_the_event_type(rabbitmq_url: str, rabbit: RabbitAdmin, queue: MakeQueue) -> None:
    exchange, name = f"test.{uuid.uuid4().hex[:12]}", queue()
    rabbit.channel.exchange_declare(exchange, "topic", durable=True)
    rabbit.channel.queue_bind(name, exchange, "user.*")
    async with opened(rabbitmq_url, exchange=exchange) as publisher:
        taken, unroutable = await outcomes(publisher, [make_event("user.signup", b"1"), make_event("order.paid")])
    rabbit.channel.exchange_delete(exchange)
    assert isinstance(taken, Acknowledged)
    assert isinstance(unroutable, Transient)
    assert (unroutable.code, unroutable.reason) == (
        "NO_ROUTE",
        f"NO_ROUTE (exchange {exchange!r}, routing key 'order.paid')",
    )
    assert [message.body for message in rabbit.read(name, 1)] == [b"1"]


async def test_without_mandatory_an_exchange_takes_what_no_queue_does(
    rabbitmq_url: str, rabbit: RabbitAdmin, queue: MakeQueue
) -> None:
    """As the delayed-message exchange does, which Debian's server does not have: it returns what it delays."""
    exchange, name = f"test.{uuid.uuid4().hex[:12]}", queue()
    rabbit.channel.exchange_declare(exchange, "topic", durable=True)
    rabbit.channel.queue_bind(name, exchange, "user.*")
    async with opened(rabbitmq_url, exchange=exchange, mandatory=False) as publisher:
        results = await outcomes(publisher, [make_event("user.signup", b"1"), make_event("order.paid")])
    rabbit.channel.exchange_delete(exchange)
    assert results == [Acknowledged()] * 2
    assert [message.body for message in rabbit.read(name, 1)] == [b"1"]


async def test_a_queue_that_is_bound_later_takes_the_next_attempt(
    publisher: RabbitPublisher, rabbit: RabbitAdmin
) -> None:
    event = make_event(f"late.{uuid.uuid4().hex[:12]}", b"x" * 300_000)  # its return comes in several frames
    [missing] = await outcomes(publisher, [event])
    assert isinstance(missing, Transient)
    rabbit.declare(event.event_type)
    assert await outcomes(publisher, [event]) == [Acknowledged()]
    rabbit.delete(event.event_type)


async def test_only_what_a_full_queue_refuses_is_transient(publisher: RabbitPublisher, queue: MakeQueue) -> None:
    full, roomy = queue(x_max_length=1, x_overflow="reject-publish"), queue()
    events = [make_event(full), *(make_event(name) for name in (full, roomy) * 50)]
    first, *others = await outcomes(publisher, events)
    assert isinstance(first, Acknowledged)
    refused = {outcome.code for outcome in others if isinstance(outcome, Transient)}
    assert refused == {"NACK"}
    assert others[1::2] == [Acknowledged()] * 50


async def test_a_missing_exchange_is_transient_and_the_connection_goes_on(
    rabbitmq_url: str, rabbit: RabbitAdmin, queue: MakeQueue
) -> None:
    exchange, name = f"test.{uuid.uuid4().hex[:12]}", queue()
    async with opened(rabbitmq_url, exchange=exchange) as publisher:
        refused = await outcomes(publisher, [make_event("a") for _ in range(300)])
        assert {outcome.code for outcome in refused if isinstance(outcome, Transient)} == {"NOT_FOUND"}
        assert len(refused) == 300
        session = await publisher._current.get()
        rabbit.channel.exchange_declare(exchange, "fanout", durable=True)
        rabbit.channel.queue_bind(name, exchange, "")
        assert await outcomes(publisher, [make_event("a")]) == [Acknowledged()]
        assert await publisher._current.get() is session
    rabbit.channel.exchange_delete(exchange)


async def test_a_message_over_the_servers_limit_is_permanent_and_its_neighbours_are_stored(
    guarded: RabbitServer,
) -> None:
    """The server closes the channel for it; the others are written again on a new one, in order."""
    with RabbitAdmin(guarded.url) as admin:
        admin.channel.queue_purge("letters")
        async with opened(guarded.url) as publisher:
            events = [make_event("letters", str(n).encode()) for n in range(200)]
            events[50] = make_event("letters", b"x" * 1_000_001)
            events[150] = make_event("letters", b"x" * 2_000_000)
            results = await outcomes(publisher, events)
            session = await publisher._current.get()
            assert session.ended_as is None
        refused = {at: outcome for at, outcome in enumerate(results) if not isinstance(outcome, Acknowledged)}
        assert refused.keys() == {50, 150}
        assert all(
            isinstance(outcome, Permanent) and outcome.code == "MAX_MESSAGE_SIZE" for outcome in refused.values()
        )
        stored = [message.body for message in admin.read("letters", admin.count("letters"))]
        assert [body for at, body in enumerate(stored) if body not in stored[:at]] == [
            event.payload for at, event in enumerate(events) if at not in refused
        ]


async def test_headers_over_the_frame_are_permanent_unsent(publisher: RabbitPublisher, queue: MakeQueue) -> None:
    name = queue()
    large, good = make_event(name, headers='{"a": "' + "ü" * 65_536 + '"}'), make_event(name)
    refused, taken = await outcomes(publisher, [large, good])
    assert isinstance(refused, Permanent)
    assert refused.code == "FRAME_TOO_LARGE"
    assert isinstance(taken, Acknowledged)


async def test_a_forbidden_exchange_is_transient(guarded: RabbitServer) -> None:
    async with opened(guarded.url_of("elsewhere", "right")) as publisher:
        await publisher.probe(patience())  # the login is good
        refused = await outcomes(publisher, [make_event("letters") for _ in range(10)])
    assert {outcome.code for outcome in refused if isinstance(outcome, Transient)} == {"ACCESS_REFUSED"}


async def test_a_forbidden_topic_is_transient_and_the_others_are_stored(guarded: RabbitServer) -> None:
    async with opened(guarded.url_of("picky", "right"), exchange="events") as publisher:
        types = ["allowed.a", "forbidden.b", "allowed.c", "forbidden.d", "forbidden.b"] * 20
        results = await outcomes(publisher, [make_event(name) for name in types])
    for name, outcome in zip(types, results, strict=True):
        assert isinstance(outcome, Acknowledged if name.startswith("allowed") else Transient)


@pytest.mark.parametrize("characters", [198, 210, 224, 245])
async def test_a_forbidden_topic_that_is_longer_than_the_servers_text_fails_alone(
    guarded: RabbitServer, characters: int
) -> None:
    long = "forbidden." + "x" * characters
    async with opened(guarded.url_of("picky", "right"), exchange="events") as publisher:
        types = ["allowed.a", long, "allowed.b"] * 3
        results = await outcomes(publisher, [make_event(name) for name in types])
        alike = await outcomes(publisher, [make_event(long + end) for end in "ab" if len(long) < 255])
    for name, outcome in zip(types, results, strict=True):
        assert isinstance(outcome, Transient if name == long else Acknowledged)
    if len(long) > 230:
        assert all(isinstance(outcome, ConnectionCut) for outcome in alike), "the text does not say which of them"


async def test_write_alone_is_enough_to_publish_and_to_check(guarded: RabbitServer) -> None:
    options = rabbit_options(guarded.url_of("writer", "right"))
    async with opened(options.url) as publisher:
        await publisher.probe(patience())
        assert await outcomes(publisher, [make_event("letters")]) == [Acknowledged()]
    assert await missing_queues(options, ["letters", "absent", "letters"]) == ["absent"]
    assert await has_exchange(replace(options, exchange="events"))
    assert not await has_exchange(replace(options, exchange="absent"))


@pytest.mark.parametrize(
    ("login", "vhost", "words"),
    [("writer:wrong", "", "ACCESS_REFUSED"), ("writer:right", "nowhere", "vhost nowhere not")],
)
async def test_a_refused_login_is_unreachable_and_says_why(
    guarded: RabbitServer, login: str, vhost: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    user, _, password = login.partition(":")
    async with opened(guarded.url_of(user, password) + vhost) as publisher:
        with pytest.raises(BrokerUnreachable, match=words) as raised:
            await publisher.probe(patience())
        [outcome] = await outcomes(publisher, [make_event("letters")])
    assert isinstance(raised.value, BrokerRefused) is (not vhost)
    assert isinstance(outcome, Unreachable)
    assert "wrong" not in f"{raised.value} {outcome} {caplog.text}"


async def test_a_node_without_memory_holds_events_up_and_fails_none(
    guarded: RabbitServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Longer than a confirm may take; the broker answers probes meanwhile."""
    caplog.set_level(logging.INFO)
    async with opened(guarded.url, publish_timeout=2.0, max_pending=10) as publisher:
        events, sink = [make_event("letters") for _ in range(20)], Collector()
        with guarded.without_memory():
            publishing = asyncio.create_task(publisher.publish(events, sink))
            session = await publisher._current.get()
            await eventually(lambda: session._blocked)
            loop = asyncio.get_running_loop()
            began = loop.time()
            while loop.time() < began + 3.0:
                await publisher.probe(patience())
            assert sink.resolutions == []
            assert not publishing.done()
            assert "memory" in publisher.blocked
        await publishing
        assert set(await sink.outcomes(events)) == {Acknowledged()}
        assert not publisher.blocked
    actions = [getattr(record, "action", "") for record in caplog.records]
    assert [action for action in actions if "blocked" in action] == ["rabbitmq_blocked", "rabbitmq_unblocked"]


async def test_what_waits_for_a_blocked_node_is_given_back_when_it_is_abandoned(guarded: RabbitServer) -> None:
    async with opened(guarded.url) as publisher:
        events, sink = [make_event("letters") for _ in range(5000)], Collector()
        with guarded.without_memory():
            publishing = asyncio.create_task(publisher.publish(events, sink))
            session = await publisher._current.get()
            await eventually(lambda: session._blocked)
            await publisher.abandon("the relay stops")
            await publishing
            assert set(await sink.outcomes(events)) == {Unreachable("the relay stops")}


async def test_a_connection_that_is_cut_says_so_of_what_it_carried(rabbitmq_url: str) -> None:
    login, _, place = rabbitmq_url.rpartition("@")
    with TcpProxy(int(place.rpartition(":")[2].rstrip("/"))) as proxy:
        async with opened(f"{login}@127.0.0.1:{proxy.port}/") as publisher:
            session = await publisher._current.get()
            events, sink = [make_event("letters") for _ in range(10)], Collector()
            proxy.set(Mode.SILENCE)
            await publisher.publish(events, sink)
            proxy.set(Mode.REFUSE)
            assert {type(outcome) for outcome in await sink.outcomes(events)} == {ConnectionCut}
            assert isinstance(session.ended_as, ConnectionCut)


async def test_a_node_that_hangs_times_out_what_it_has(guarded: RabbitServer) -> None:
    async with opened(guarded.url, publish_timeout=0.3) as publisher:
        await publisher.probe(patience())
        await publisher._current.get()
        with suspended(guarded):
            late = await outcomes(publisher, [make_event("letters") for _ in range(3)])
            assert {outcome.code for outcome in late if isinstance(outcome, TimedOut)} == {"NO_CONFIRM"}
            with pytest.raises(BrokerUnreachable, match=r"no RabbitMQ node has answered within 0.5 s"):
                await publisher.probe(0.5)


async def test_a_limit_of_one_connection_leaves_it_to_the_events(rabbitmq_url: str) -> None:
    url = rabbitmq_url + NARROW[0]
    async with opened(url) as publisher, opened(url) as other:
        missing = [make_event("letters")]
        [outcome] = await outcomes(publisher, missing)
        assert isinstance(outcome, Transient)
        await publisher.probe(patience())
        assert await outcomes(publisher, missing) == [outcome]
        with pytest.raises(BrokerUnreachable, match="connection limit"):
            await other.probe(patience())


async def test_a_node_without_a_heartbeat_is_gone(guarded: RabbitServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing under way, where no confirm would be missed."""
    monkeypatch.setattr("relay.brokers.rabbitmq.wire.HEARTBEAT_INTERVAL", 1)
    async with opened(guarded.url) as publisher:
        session = await publisher._current.get()
        with suspended(guarded):
            await eventually(lambda: session.ended_as is not None)
        assert isinstance(session.ended_as, ConnectionCut)
        assert "no heartbeat" in session.ended_as.reason


async def test_an_idle_connection_stays(guarded: RabbitServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("relay.brokers.rabbitmq.wire.HEARTBEAT_INTERVAL", 1)
    async with opened(guarded.url) as publisher:
        session = await publisher._current.get()
        written = session._wire.sending.written
        await eventually(lambda: session._wire.sending.written >= written + 8 * 8)  # eight heartbeats: four seconds
        assert session.ended_as is None


async def test_the_next_node_is_used_when_the_first_one_is_away(rabbitmq_url: str, queue: MakeQueue) -> None:
    name = queue()
    several = rabbitmq_url.replace("@", "@127.0.0.1:1,")
    async with opened(several) as publisher:
        await publisher.probe(patience())
        assert await outcomes(publisher, [make_event(name)]) == [Acknowledged()]


async def test_few_may_be_pending_and_all_arrive_in_order(
    rabbitmq_url: str, rabbit: RabbitAdmin, queue: MakeQueue
) -> None:
    name = queue(x_queue_type="quorum")
    async with opened(rabbitmq_url, max_pending=10) as publisher:
        events = [make_event(name, str(n).encode(), key="one") for n in range(1000)]
        assert await outcomes(publisher, events) == [Acknowledged()] * 1000
    assert [message.body for message in rabbit.read(name, 1000)] == [event.payload for event in events]


async def test_what_answers_and_is_no_rabbitmq_is_unreachable(nats_or_silence: int) -> None:
    async with opened(f"amqp://127.0.0.1:{nats_or_silence}") as publisher:
        with pytest.raises(BrokerUnreachable, match="is not a RabbitMQ server"):
            await publisher.probe(patience())


@pytest.fixture
async def nats_or_silence() -> AsyncIterator[int]:
    """The port of a server that speaks another protocol."""

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id": "x"}\r\n')
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
