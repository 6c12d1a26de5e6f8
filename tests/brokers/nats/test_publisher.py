"""What only NATS does: repeats, limits of a stream, rights to publish, logins, subjects that no stream stores."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator

import nats
import pytest

from relay.brokers.nats.publisher import NatsPublisher
from relay.core.errors import BrokerUnreachable
from relay.core.event import OutboxEvent
from relay.core.outcome import Acknowledged, ConnectionCut, Outcome, Permanent, TimedOut, Transient, Unreachable
from tests.brokers.harness.base import Collector, make_event
from tests.support.fixtures.nats import MakeStream
from tests.support.options import nats_options
from tests.support.servers.nats import NatsServer
from tests.support.waiting import patience

pytestmark = pytest.mark.nats

GUARDED = """
authorization { users = [
  {user: admin, password: admin}
  {user: relay, password: right, permissions: {publish: ["Mine.>", "_INBOX.>", "$JS.>"], subscribe: "_INBOX.>"}}
  {user: deaf, password: right, permissions: {subscribe: {deny: ">"}}}
] }
max_payload: 65536
"""


@pytest.fixture(scope="module")
def guarded() -> Iterator[NatsServer]:
    with NatsServer(config=GUARDED) as server:
        yield server


def guarded_url(server: NatsServer, login: str) -> str:
    return server.url.replace("nats://", f"nats://{login}@")


@pytest.fixture
async def publisher(nats_url: str) -> AsyncIterator[NatsPublisher]:
    made = NatsPublisher(nats_options(nats_url, receipts=True, publish_timeout=1.0))
    await made.open()
    yield made
    await made.close()


async def outcomes(publisher: NatsPublisher, events: list[OutboxEvent]) -> list[Outcome]:
    sink = Collector()
    await publisher.publish(events, sink)
    return await sink.outcomes(events)


async def test_a_repeat_is_acknowledged_and_stored_once(publisher: NatsPublisher, stream: MakeStream) -> None:
    made = await stream()
    event = make_event(made.subject())
    assert await outcomes(publisher, [event]) == [Acknowledged({"stream": made.name, "sequence": 1})]
    repeat = make_event(made.subject(), event_id=event.event_id)
    assert await outcomes(publisher, [repeat]) == [
        Acknowledged({"stream": made.name, "sequence": 1, "duplicate": True})
    ]


async def test_a_streams_limit_of_size_is_permanent(publisher: NatsPublisher, stream: MakeStream) -> None:
    made = await stream(max_msg_size=1000)
    large, small = await outcomes(publisher, [make_event(made.subject(), b"x" * 2000), make_event(made.subject())])
    assert isinstance(large, Permanent)
    assert large.code == "JETSTREAM_10054"
    assert isinstance(small, Acknowledged)


async def test_a_full_stream_is_transient(publisher: NatsPublisher, stream: MakeStream) -> None:
    made = await stream(max_msgs=1, discard=nats.js.api.DiscardPolicy.NEW)
    first, second = await outcomes(publisher, [make_event(made.subject()), make_event(made.subject())])
    assert isinstance(first, Acknowledged)
    assert isinstance(second, Transient)
    assert second.code == "JETSTREAM_10077"


async def test_a_subject_that_somebody_hears_but_no_stream_stores_runs_into_its_own_timeout(
    publisher: NatsPublisher, stream: MakeStream, nats_url: str
) -> None:
    made, heard = await stream(), f"heard{uuid.uuid4().hex[:8]}"
    listener = await nats.connect(nats_url)
    await listener.subscribe(heard)
    await listener.flush()
    late, good = await outcomes(publisher, [make_event(heard), make_event(made.subject())])
    assert isinstance(late, TimedOut)
    assert isinstance(good, Acknowledged)
    await listener.close()


async def test_few_may_be_pending_and_all_arrive(nats_url: str, stream: MakeStream) -> None:
    made = await stream()
    publisher = NatsPublisher(nats_options(nats_url, max_pending=10))
    await publisher.open()
    events = [make_event(made.subject()) for _ in range(1000)]
    assert await outcomes(publisher, events) == [Acknowledged()] * 1000
    await publisher.close()


async def test_a_forbidden_subject_is_transient_and_named(guarded: NatsServer) -> None:
    admin = await nats.connect(guarded_url(guarded, "admin:admin"))
    await admin.jetstream().add_stream(name="mine", subjects=["Mine.>"])
    publisher = NatsPublisher(nats_options(guarded_url(guarded, "relay:right")))
    await publisher.open()
    forbidden, allowed = await outcomes(publisher, [make_event("Other.Subject"), make_event("Mine.a")])
    assert isinstance(forbidden, Transient)
    assert forbidden.code == "PERMISSIONS_VIOLATION"
    assert isinstance(allowed, Acknowledged)
    await publisher.close()
    await admin.close()


@pytest.mark.parametrize(
    "headers",
    ["{}", '{"a": "' + "ü" * 30_000 + '"}', '{"a": "' + "\\n" * 20_000 + '"}'],
    ids=["none", "wide", "encoded"],
)
async def test_the_header_block_counts_against_max_payload(guarded: NatsServer, headers: str) -> None:
    publisher = NatsPublisher(nats_options(guarded_url(guarded, "admin:admin")))
    await publisher.open()
    large, other = await outcomes(publisher, [make_event("Mine.a", b"x" * 65_500, headers=headers), make_event("None")])
    assert isinstance(large, Permanent)
    assert large.code == "MAX_PAYLOAD"
    assert not isinstance(other, Unreachable)
    await publisher.close()


@pytest.mark.parametrize(("login", "words"), [("relay:wrong", "(?i)authorization"), ("deaf:right", "subscription")])
async def test_a_refused_login_is_unreachable_and_says_why(guarded: NatsServer, login: str, words: str) -> None:
    publisher = NatsPublisher(nats_options(guarded_url(guarded, login)))
    await publisher.open()
    with pytest.raises(BrokerUnreachable, match=words) as raised:
        await publisher.probe(5.0)
    assert "wrong" not in str(raised.value)
    [outcome] = await outcomes(publisher, [make_event("Mine.a")])
    assert isinstance(outcome, Unreachable)
    await publisher.close()


async def test_a_connection_that_is_cut_says_so_of_what_it_carried(own_nats: NatsServer) -> None:
    publisher, sink = NatsPublisher(nats_options(own_nats.url)), Collector()
    await publisher.open()
    await publisher.probe(5.0)
    listener = await nats.connect(own_nats.url, allow_reconnect=False)
    heard = await listener.subscribe("heard")
    await listener.flush()
    events = [make_event("heard") for _ in range(10)]
    await publisher.publish(events, sink)
    for _ in events:  # a server that takes them only while it goes down may have no listener left, and says so
        await heard.next_msg(timeout=patience())
    await asyncio.to_thread(own_nats.stop)
    assert {type(outcome) for outcome in await sink.outcomes(events)} == {ConnectionCut}
    await publisher.close()
    await listener.close()
