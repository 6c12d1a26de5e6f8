"""What only NATS does: repeats, limits of a stream, rights to publish, logins, subjects that no stream stores."""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from collections.abc import AsyncIterator, Iterator

import nats
import pytest
from nats.aio.client import Client
from nats.aio.subscription import Subscription
from nats.js import JetStreamContext

from relay.brokers.nats.publisher import NatsPublisher
from relay.core.errors import BrokerUnreachable
from relay.core.event import OutboxEvent
from relay.core.outcome import (
    ACKNOWLEDGED,
    Acknowledged,
    ConnectionCut,
    Outcome,
    Permanent,
    TimedOut,
    Transient,
    Unreachable,
)
from relay.engine.destination.destination import Times
from relay.engine.destination.drops import Drops
from relay.engine.destination.several import SeveralPublishers
from relay.routing.rules import Routes, Rule, Target
from relay.routing.template import read_template
from tests.brokers.harness.base import Collector, make_event
from tests.support.fixtures.nats import MakeStream
from tests.support.options import nats_options
from tests.support.servers.nats import NatsServer
from tests.support.waiting import eventually, patience

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
    instance = NatsPublisher(nats_options(nats_url, receipts=True, publish_timeout=1.0))
    await instance.open()
    yield instance
    await instance.close()


async def outcomes(publisher: NatsPublisher, events: list[OutboxEvent]) -> list[Outcome]:
    sink = Collector()
    await publisher.publish(events, sink)
    return await sink.outcomes(events)


async def listen(client: Client, subject: str) -> Subscription:
    """Subscribe; on return the server has the subscription."""
    subscription: Subscription = await client.subscribe(subject)
    for _ in range(2):  # the first PING overtakes the SUB, which waits in the library's buffer
        await client.flush()
    return subscription


async def test_both_copies_of_an_event_are_stored_where_two_destinations_lead_to_one_stream(
    nats_url: str, stream: MakeStream, jetstream: JetStreamContext
) -> None:
    """The stream's duplicate window is that of all its subjects."""
    own = await stream()
    copies = (Target("audit", read_template(own.subject("audit"), "")),)
    routes = Routes([Rule(1, "orders.*", read_template(own.subject("orders"), ""), "main", copies)], default="main")
    members = {name: NatsPublisher(nats_options(nats_url)) for name in ("main", "audit")}
    several = SeveralPublishers(members, routes, Drops(), Times(retry_interval=1.0))
    await several.open()
    events = [make_event("orders.placed") for _ in range(20)]
    sink = Collector()
    await several.publish(events, sink)
    assert set(await sink.outcomes(events)) == {ACKNOWLEDGED}
    await several.close()
    info = await jetstream.stream_info(own.name, subjects_filter=">")
    assert info.state.subjects == {own.subject("orders"): 20, own.subject("audit"): 20}


async def suspend(server: NatsServer) -> None:
    """Stop the server's threads; on return none of them runs any more."""
    os.kill(server.pid, signal.SIGSTOP)
    await asyncio.to_thread(os.waitid, os.P_PID, server.pid, os.WSTOPPED)


async def test_a_repeat_is_acknowledged_and_stored_once(publisher: NatsPublisher, stream: MakeStream) -> None:
    target = await stream()
    event = make_event(target.subject())
    assert await outcomes(publisher, [event]) == [Acknowledged({"stream": target.name, "sequence": 1})]
    repeat = make_event(target.subject(), event_id=event.event_id)
    assert await outcomes(publisher, [repeat]) == [
        Acknowledged({"stream": target.name, "sequence": 1, "duplicate": True}, duplicate=True)
    ]


async def test_no_client_can_acknowledge_anothers_message_by_counting_on(
    publisher: NatsPublisher, stream: MakeStream, nats_url: str
) -> None:
    """Every client that may publish to ``_INBOX`` can answer: a reply's subject has to be guessed."""
    target = await stream()
    client = await nats.connect(nats_url)
    seen = await listen(client, "_INBOX.>")
    await outcomes(publisher, [make_event(target.subject()) for _ in range(3)])
    subjects = [(await seen.next_msg(patience(5))).subject for _ in range(3)]
    session = await publisher._current.get()
    numbers = [int(one.removeprefix(session._prefix)) for one in subjects]
    assert len({number >> 32 for number in numbers}) == 3

    async def answer() -> None:
        for ahead in range(-100, 100):
            await client.publish(f"{session._prefix}{numbers[-1] + ahead}", b'{"stream":"A","seq":1}')
        for other in ("x", "1" * 30, "-1"):
            await client.publish(f"{session._prefix}{other}", b'{"stream":"A","seq":1}')
        await client.flush()

    results, _ = await asyncio.gather(outcomes(publisher, [make_event("nowhere") for _ in range(20)]), answer())
    assert not any(isinstance(one, Acknowledged) for one in results)
    assert (await publisher._current.get()) is session
    await client.close()


async def test_a_subject_that_steers_the_server_is_refused(nats_url: str, jetstream: JetStreamContext) -> None:
    bucket = await jetstream.create_key_value(bucket=uuid.uuid4().hex)
    await bucket.put("k", b"theirs")
    subject = f"$KV.{(await bucket.status()).bucket}.k"
    for allowed, kind in (((), Permanent), ((subject,), Acknowledged)):
        instance = NatsPublisher(nats_options(nats_url, allowed_types=allowed))
        await instance.open()
        [outcome] = await outcomes(instance, [make_event(subject, b"ours")])
        assert isinstance(outcome, kind)
        assert (await bucket.get("k")).value == (b"ours" if allowed else b"theirs")
        await instance.close()


async def test_a_streams_limit_of_size_is_permanent(publisher: NatsPublisher, stream: MakeStream) -> None:
    target = await stream(max_msg_size=1000)
    large, small = await outcomes(publisher, [make_event(target.subject(), b"x" * 2000), make_event(target.subject())])
    assert isinstance(large, Permanent)
    assert large.code == "JETSTREAM_10054"
    assert isinstance(small, Acknowledged)


@pytest.fixture(scope="module")
def roomy() -> Iterator[NatsServer]:
    with NatsServer(config="max_control_line: 8192") as server:
        yield server


@pytest.mark.parametrize("limit", [4096, 8192])
@pytest.mark.parametrize("character", ["x", "ü"])
async def test_a_subject_over_the_control_line_is_permanent_and_cuts_no_connection(
    nats_url: str, roomy: NatsServer, limit: int, character: str
) -> None:
    """To the byte: the longest subject that the server takes is published, the next one is refused unsent."""
    url = nats_url if limit == 4096 else f"{roomy.url}?max_control_line=8192"
    publisher = NatsPublisher(nats_options(url, receipts=True, publish_timeout=2.0))
    await publisher.open()
    prefix = f"long{uuid.uuid4().hex[:8]}."
    client = await nats.connect(url.partition("?")[0])
    await client.jetstream().add_stream(name=prefix[:-1], subjects=[f"{prefix}>"])
    await publisher.probe(patience(5))
    session = await publisher._current.get()
    session._drawn = [3, 2, 1]  # numbers of one digit, the last one first
    # HPUB takes subject, reply subject, and the sizes of the header block and of everything (65 and 72 bytes).
    room = limit - len(f" {session._prefix}1 65 72") - len(prefix)
    padding = "x" * (room % len(character.encode()))
    longest = prefix + padding + character * (room // len(character.encode()))
    good, bad, other = make_event(longest), make_event(longest + "x"), make_event(f"{prefix}other")
    taken, refused, last = await outcomes(publisher, [good, bad, other])
    assert isinstance(taken, Acknowledged)
    assert isinstance(refused, Permanent)
    assert refused.code == "MAX_CONTROL_LINE"
    assert f"of {len(longest.encode()) + 1} bytes makes a control line of {limit + 1}" in refused.reason
    assert isinstance(last, Acknowledged)
    assert session.ended_as is None
    await client.jetstream().delete_stream(prefix[:-1])
    await client.close()
    await publisher.close()


async def test_missing_acknowledgements_are_no_outage(publisher: NatsPublisher, nats_url: str) -> None:
    """The server answers PING at once however long a stream takes; so the probe needs no connection of its own."""
    client = await nats.connect(nats_url)
    subject = f"slow.{uuid.uuid4().hex}"
    requests = await listen(client, subject)
    event, sink = make_event(subject), Collector()
    await publisher.publish([event], sink)
    request = await requests.next_msg(patience(5))
    await publisher.probe(0.5)
    assert sink.resolutions == []
    await client.publish(request.reply, b'{"stream": "slow", "seq": 7}')
    assert await sink.outcomes([event]) == [Acknowledged({"stream": "slow", "sequence": 7})]
    await client.close()


async def test_a_full_stream_is_transient(publisher: NatsPublisher, stream: MakeStream) -> None:
    target = await stream(max_msgs=1, discard=nats.js.api.DiscardPolicy.NEW)
    first, second = await outcomes(publisher, [make_event(target.subject()), make_event(target.subject())])
    assert isinstance(first, Acknowledged)
    assert isinstance(second, Transient)
    assert second.code == "JETSTREAM_10077"


async def test_a_subject_with_a_subscriber_and_no_stream_runs_into_its_own_timeout(
    publisher: NatsPublisher, stream: MakeStream, nats_url: str
) -> None:
    target, heard = await stream(), f"heard{uuid.uuid4().hex[:8]}"
    async with await nats.connect(nats_url) as listener:
        await listen(listener, heard)
        late, good = await outcomes(publisher, [make_event(heard), make_event(target.subject())])
    assert isinstance(late, TimedOut)
    assert isinstance(good, Acknowledged)


async def test_few_may_be_pending_and_all_arrive(nats_url: str, stream: MakeStream) -> None:
    target = await stream()
    publisher = NatsPublisher(nats_options(nats_url, max_pending=10))
    await publisher.open()
    events = [make_event(target.subject()) for _ in range(1000)]
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
    heard = await listen(listener, "heard")
    events = [make_event("heard") for _ in range(10)]
    await publisher.publish(events, sink)
    for _ in events:  # a server that takes them only while it goes down may have no listener left, and says so
        await heard.next_msg(timeout=patience())
    await asyncio.to_thread(own_nats.stop)
    assert {type(outcome) for outcome in await sink.outcomes(events)} == {ConnectionCut}
    await publisher.close()
    await listener.close()


async def test_an_event_without_a_stream_is_cut_off_where_the_server_stops(
    own_nats: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that stops ends JetStream first: for that moment no subject has a stream, and no attempt may be used."""
    monkeypatch.setattr("relay.brokers.nats.session._STOPPING", patience(20))
    publisher, sink = NatsPublisher(nats_options(own_nats.url)), Collector()
    await publisher.open()
    await publisher.probe(patience(5))
    events = [make_event("nobody") for _ in range(10)]
    await publisher.publish(events, sink)
    session = await publisher._current.get()
    await eventually(lambda: len(session._streamless) == len(events))
    await asyncio.to_thread(own_nats.stop)
    assert {type(outcome) for outcome in await sink.outcomes(events)} == {ConnectionCut}
    await publisher.close()


async def test_a_connection_that_is_lost_while_the_socket_is_full_ends_the_wait(own_nats: NatsServer) -> None:
    publisher, sink = NatsPublisher(nats_options(own_nats.url)), Collector()
    await publisher.open()
    await publisher.probe(patience(5))
    events = [make_event("lost", b"x" * 500_000) for _ in range(60)]  # more than the buffers of the sockets take
    await suspend(own_nats)
    publishing = asyncio.create_task(publisher.publish(events, sink))
    session = await publisher._current.get()
    await eventually(lambda: session._client.unsent > 2 << 20)
    assert session._client.unsent <= (2 << 20) + (1 << 18) + 510_000  # and one slice, and one message
    assert len(session._pending) < len(events)
    await asyncio.to_thread(own_nats.stop, signal.SIGKILL)
    async with asyncio.timeout(patience(20)):
        await publishing
    assert {type(outcome) for outcome in await sink.outcomes(events)} == {ConnectionCut, Unreachable}
    await publisher.close()


async def test_a_server_that_hangs_answers_no_probe(own_nats: NatsServer) -> None:
    """At the first one; the library itself needs half a minute to call the connection stale."""
    publisher = NatsPublisher(nats_options(own_nats.url))
    await publisher.open()
    await publisher.probe(patience(5))
    await suspend(own_nats)
    try:
        with pytest.raises(BrokerUnreachable, match=r"no answer within 0.5 s"):
            await publisher.probe(0.5)
    finally:
        os.kill(own_nats.pid, signal.SIGCONT)
        await publisher.close()
