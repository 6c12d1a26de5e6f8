"""Replies that are taken from redis-py's parser: the same as the library alone reads, wherever a read ends."""

from __future__ import annotations

import asyncio
import logging

import pytest
from redis.asyncio.connection import AbstractConnection, ConnectionPool

from relay.brokers.redis import arrived, session
from relay.brokers.redis.arrived import NOTHING, ArrivedReplies
from relay.brokers.redis.publisher import RedisPublisher
from relay.core.outcome import Acknowledged
from tests.brokers.harness.base import Collector, make_event
from tests.support.options import redis_options

_REPLIES = (
    b"$3\r\n1-0\r\n",
    b"-WRONGTYPE another kind\r\n",
    b"$3\r\n1-1\r\n",
    b"-MOVED 7 host:6379\r\n",
    b"-ASK 7 host:6379\r\n",
    b"-READONLY a replica\r\n",
    b"-LOADING its data\r\n",
    b"$3\r\n1-2\r\n",
)
_PUSHED = b">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"
_BYTES = b"".join((*_REPLIES[:3], _PUSHED, *_REPLIES[3:]))


def connection_of(*reads: bytes) -> AbstractConnection:
    """A connection of the library whose socket brings these bytes, one piece at each read."""
    connection = ConnectionPool.from_url("redis://127.0.0.1:1").make_connection()  # type: ignore[no-untyped-call]
    stream = asyncio.StreamReader()
    pieces = iter(reads)

    async def read(_most: int) -> bytes:
        return next(pieces, b"")

    stream.read = read  # type: ignore[method-assign,assignment]
    connection._reader = stream
    connection._parser.on_connect(connection)
    return connection  # type: ignore[no-any-return]


async def reply_of(connection: AbstractConnection) -> object:
    try:
        return await connection.read_response(disconnect_on_error=False)
    except Exception as error:  # noqa: BLE001 - an error is what is compared
        return error


def shown(reply: object) -> str:
    return f"{type(reply).__name__}: {reply.args if isinstance(reply, Exception) else reply!r}"


async def by_the_library(*reads: bytes) -> list[str]:
    connection = connection_of(*reads)
    return [shown(await reply_of(connection)) for _ in _REPLIES]


async def by_both(*reads: bytes) -> list[str]:
    connection = connection_of(*reads)
    replies = ArrivedReplies(connection)
    seen: list[object] = []
    while len(seen) < len(_REPLIES):
        seen.append(await reply_of(connection))
        while len(seen) < len(_REPLIES) and (reply := replies.take()) is not NOTHING:
            if isinstance(reply, list):
                await replies.pass_on(reply)
            else:
                seen.append(reply)
    return [shown(one) for one in seen]


async def test_the_same_is_read_as_by_the_library_alone_wherever_a_read_ends() -> None:
    expected = await by_the_library(_BYTES)
    assert expected[0] == "bytes: b'1-0'"
    assert "another kind" in expected[1]
    for end in range(1, len(_BYTES)):
        assert await by_both(_BYTES[:end], _BYTES[end:]) == expected, end


async def test_most_replies_of_one_read_need_no_turn_of_the_library() -> None:
    connection = connection_of(b"".join(_REPLIES))
    replies = ArrivedReplies(connection)
    await reply_of(connection)
    taken = [replies.take() for _ in _REPLIES]
    assert NOTHING not in taken[:-1]
    assert taken[-1] is NOTHING


@pytest.mark.redis
async def test_other_internals_of_the_library_cost_time_and_are_said(
    redis_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Another mark for "no reply" above all: it must never count as an acknowledgement."""
    mark = object()
    for module in (arrived, session):
        monkeypatch.setattr(module, "NOTHING", mark)
    arrived._warn.cache_clear()
    publisher, sink = RedisPublisher(redis_options(redis_url)), Collector()
    events = [make_event("arrived") for _ in range(50)]
    with caplog.at_level(logging.WARNING):
        await publisher.open()
        await publisher.publish(events, sink)
        outcomes = await sink.outcomes(events)
    await publisher.close()
    arrived._warn.cache_clear()
    assert outcomes == [Acknowledged()] * 50
    assert [one for one in caplog.records if getattr(one, "action", "") == "redis_slow_path"]
