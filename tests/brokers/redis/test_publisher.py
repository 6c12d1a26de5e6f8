"""What only Redis does: keys of another type, full memory, users without rights, logins."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from redis.asyncio import Redis

from relay.brokers.redis.publisher import RedisPublisher
from relay.core.errors import BrokerUnreachable
from relay.core.event import OutboxEvent
from relay.core.outcome import Acknowledged, ConnectionCut, Outcome, TimedOut, Transient, Unreachable
from tests.brokers.harness.base import Collector, make_event
from tests.support.options import redis_options
from tests.support.servers.tls import tls_in_front_of
from tests.support.servers.valkey import ValkeyServer
from tests.support.waiting import pace_async, patience

pytestmark = pytest.mark.redis


@pytest.fixture(scope="module")
def guarded() -> Iterator[ValkeyServer]:
    with ValkeyServer(settings={"requirepass": "right", "maxmemory": "50mb"}) as server:
        yield server


@pytest.fixture
async def admin(guarded: ValkeyServer) -> AsyncIterator[Redis]:
    async with Redis.from_url(guarded.url) as client:
        yield client


async def outcomes(url: str, events: list[OutboxEvent], **options: int) -> list[Outcome]:
    publisher, sink = RedisPublisher(redis_options(url, **options)), Collector()
    await publisher.open()
    await publisher.publish(events, sink)
    results = await sink.outcomes(events)
    await publisher.close()
    return results


async def test_each_command_has_its_own_outcome(guarded: ValkeyServer, admin: Redis) -> None:
    await admin.set("a string", "x")
    events = [make_event("a stream"), make_event("a string"), make_event("a stream"), make_event("a stream")]
    first, wrong, *others = await outcomes(guarded.url, events)
    assert isinstance(wrong, Transient)
    assert wrong.code == "WRONGTYPE"
    assert [first, *others] == [Acknowledged()] * 3


async def test_full_memory_is_transient(guarded: ValkeyServer, admin: Redis) -> None:
    await admin.config_set("maxmemory", 1)
    [outcome] = await outcomes(guarded.url, [make_event("s")])
    await admin.config_set("maxmemory", 0)
    assert isinstance(outcome, Transient)
    assert outcome.code == "OOM"


async def test_a_forbidden_key_is_transient_and_a_user_may_log_in(guarded: ValkeyServer, admin: Redis) -> None:
    await admin.acl_setuser("us@er", enabled=True, passwords=["+p:w"], keys=["mine*"], commands=["+xadd", "+ping"])
    url = guarded.url.replace(":right@", "us%40er:p%3Aw@")
    forbidden, allowed = await outcomes(url, [make_event("yours"), make_event("mine")])
    assert isinstance(forbidden, Transient)
    assert forbidden.code == "NOPERM"
    assert isinstance(allowed, Acknowledged)


async def test_a_refused_login_is_unreachable_and_says_why(guarded: ValkeyServer) -> None:
    url = guarded.url.replace("right", "hunter2")
    publisher = RedisPublisher(redis_options(url))
    await publisher.open()
    with pytest.raises(BrokerUnreachable, match="WRONGPASS: invalid username-password pair") as raised:
        await publisher.probe(5.0)
    assert "hunter2" not in str(raised.value)
    [outcome] = await outcomes(url, [make_event("s")])
    assert isinstance(outcome, Unreachable)
    await publisher.close()


async def test_few_may_be_pending_and_all_arrive(guarded: ValkeyServer, admin: Redis) -> None:
    events = [make_event("few", str(n).encode()) for n in range(1000)]
    assert await outcomes(guarded.url, events, max_pending=10) == [Acknowledged()] * 1000
    assert await admin.xlen("few") == 1000


async def test_a_stream_keeps_about_the_latest_entries_and_the_user_needs_no_other_right(
    guarded: ValkeyServer, admin: Redis
) -> None:
    await admin.acl_setuser("short", enabled=True, passwords=["+pw"], keys=["short"], commands=["+xadd", "+ping"])
    events = [make_event("short", str(n).encode()) for n in range(1000)]
    events[500] = make_event("short", b"x" * 100_000)  # such a command goes out in pieces
    url = guarded.url.replace(":right@", "short:pw@")
    trimmed: dict[str, Any] = {"maxlen": 200, "maxlen_streams": ["audit", "sh*"]}
    assert await outcomes(url, events, **trimmed) == [Acknowledged()] * 1000
    others = [make_event("foreign short", str(n).encode()) for n in range(400)]
    assert await outcomes(guarded.url, others, **trimmed) == [Acknowledged()] * 400
    assert await admin.xlen("foreign short") == 400
    entries = cast("Any", await admin.xrange("short"))
    assert 200 <= len(entries) <= 300, "whole nodes of 100 entries are removed"
    assert [fields[b"payload"] for _, fields in entries] == [event.payload for event in events[-len(entries) :]]


async def test_only_a_silence_while_replies_are_due_is_a_timeout(guarded: ValkeyServer, admin: Redis) -> None:
    publisher, sink = RedisPublisher(redis_options(guarded.url, write_timeout=0.3)), Collector()
    trickle = [make_event("s") for _ in range(8)]
    for event in trickle:  # the pauses between them are longer than the timeout altogether
        await publisher.publish([event], sink)
        await pace_async(0.1)
    assert await sink.outcomes(trickle) == [Acknowledged()] * len(trickle)
    await admin.client_pause(60_000, all=False)  # writes only
    late, last = [make_event("s"), make_event("s")], Collector()
    await publisher.publish(late, last)
    assert await last.outcomes(late) == [TimedOut("TIMEOUT", "no reply within 0.3 s")] * 2
    with pytest.raises(BrokerUnreachable, match=r"no answer within 0\.5 s"):
        await publisher.probe(0.5)  # everything else is answered
    await admin.client_unpause()
    before = await admin.xlen("s")
    await publisher.probe(patience())
    assert await admin.xlen("s") == before, "a probe writes nothing"
    await publisher.close()


async def test_any_name_is_a_stream(guarded: ValkeyServer) -> None:
    events = [make_event(name) for name in ("", " ", "a\r\nb", "ü*?", "x" * 5000)]
    assert await outcomes(guarded.url, events) == [Acknowledged()] * len(events)


async def test_tls_with_the_right_authority_and_an_acl_user(
    guarded: ValkeyServer, admin: Redis, tmp_path: Path
) -> None:
    await admin.acl_setuser("tls", enabled=True, passwords=["+s3cret"], commands=["+xadd", "+ping"], keys=["*"])
    async with tls_in_front_of(guarded.port, tmp_path) as tls:
        url = f"rediss://tls:s3cret@127.0.0.1:{tls.port}/0?ssl_ca_certs={tls.ca_file}"
        assert await outcomes(url, [make_event("over tls")]) == [Acknowledged()]
    assert await admin.xlen("over tls") == 1


async def test_tls_from_an_unknown_authority_is_unreachable_and_says_why(guarded: ValkeyServer, tmp_path: Path) -> None:
    async with tls_in_front_of(guarded.port, tmp_path) as tls:
        url = f"rediss://:right@127.0.0.1:{tls.port}/0"
        publisher = RedisPublisher(redis_options(url))
        await publisher.open()
        with pytest.raises(BrokerUnreachable, match=r"(?i)certificate") as refused:
            await publisher.probe(3)
        assert "right" not in str(refused.value)
        await publisher.close()


async def test_a_connection_that_was_closed_a_moment_ago_is_cut(
    guarded: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write raises RuntimeError, with uvloop, on a transport that is closed before its reader has read the end."""
    publisher, sink, events = RedisPublisher(redis_options(guarded.url)), Collector(), [make_event("closed")]
    await publisher.open()
    session = await publisher._nodes._session(None).get()

    async def closed(*_: object, **__: object) -> None:
        raise RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")

    monkeypatch.setattr(session._connection, "send_packed_command", closed)
    await publisher.publish(events, sink)
    [outcome] = await sink.outcomes(events)
    assert isinstance(outcome, ConnectionCut)
    await publisher.close()


async def test_what_a_cut_connection_carried_is_cut_off_and_the_rest_goes_over_the_next(
    guarded: ValkeyServer, admin: Redis
) -> None:
    await admin.config_set("client-query-buffer-limit", "1mb")
    events = [make_event("cut", b"small") for _ in range(3)]
    events[1] = make_event("cut", b"x" * 3_000_000)  # the server closes the connection on it
    events += [make_event("cut", b"later") for _ in range(3)]
    results = await outcomes(guarded.url, events, max_pending=2)  # so that the last ones are not sent yet
    await admin.config_set("client-query-buffer-limit", "1gb")
    assert isinstance(results[1], ConnectionCut)
    assert results[4:] == [Acknowledged()] * 2
