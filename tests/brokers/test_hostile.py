"""Brokers whose answers have no end, or cost much to read, take neither memory nor the event loop."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from nats.errors import ProtocolError
from nats.protocol.parser import Parser
from pamqp import commands, frame
from pamqp.header import ContentHeader
from redis.exceptions import InvalidResponse, RedisError

from relay.brokers.aws.publisher import AwsPublisher
from relay.brokers.nats.acknowledgements import AcknowledgementFilter
from relay.brokers.rabbitmq.frames import CHANNEL, END, FRAME_START, HEADER, METHOD
from relay.brokers.rabbitmq.options import read_target
from relay.brokers.rabbitmq.wire import AmqpWire, message_id
from relay.brokers.redis.bounded import MOST_PUSHES, BoundedParser
from relay.brokers.redis.publisher import RedisPublisher
from relay.brokers.redis.sentinels import Sentinels
from relay.brokers.redis.servers import RedisServers
from relay.brokers.server_address import ServerAddress
from relay.core.errors import BrokerUnreachable
from relay.core.outcome import Acknowledged, ConnectionCut, Unreachable
from tests.brokers.harness.base import Collector, make_event
from tests.support.options import aws_options, rabbit_options, redis_options
from tests.support.waiting import eventually, patience

MIB = 1 << 20
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Sent:
    """How many bytes a server's connections have taken."""

    bytes = 0


@asynccontextmanager
async def served(serve: Serve) -> AsyncIterator[int]:
    """A server; its port."""
    writers: list[asyncio.StreamWriter] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with suppress(OSError, asyncio.IncompleteReadError):
            await serve(reader, writer)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
    for writer in writers:
        writer.transport.abort()


def endless(first: bytes, again: bytes, sent: Sent) -> Serve:
    """A server that sends ``again`` without end to a client that has said something."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1 << 16)
        writer.write(first)
        while True:
            writer.write(again)
            await writer.drain()
            sent.bytes += len(again)

    return serve


def _moved(words: bytes) -> bytes:
    """A message of a Sentinel about a primary."""
    return b"*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$%d\r\n%s\r\n" % (len(words), words)


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (b"*1000000000\r\n", b"$1000\r\n" + b"x" * 1000 + b"\r\n"),
        (b"$500000000\r\n", b"x" * 10_000),
        (b"+", b"x" * 10_000),
        (b"", b">1\r\n+pushed\r\n" * 1000),
        (b"", b">0\r\n"),
        (b"", b">1\r\n$1\r\n\xff\r\n"),
    ],
)
async def test_a_reply_of_redis_without_end_ends_the_connection(first: bytes, again: bytes) -> None:
    sent = Sent()
    async with served(endless(first, again, sent)) as port:
        servers = RedisServers(redis_options(f"redis://127.0.0.1:{port}/0", connection_timeout=60.0))

        async def ask() -> None:
            connection = await servers.connect(None)
            await connection.send_command("PING")
            await connection.read_response()

        with pytest.raises(RedisError):
            await asyncio.wait_for(ask(), patience(30))
    assert sent.bytes < 64 * MIB


def _redis(replies: dict[bytes, list[bytes]]) -> Serve:
    """A server that has these replies to these commands, in turn, and takes all others."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(b"+OK\r\n" * data.count(b"CLIENT"))
            for command, said in replies.items():
                if command in data and said:
                    writer.write(said.pop(0))

    return serve


@pytest.mark.parametrize(
    ("replicas", "xadd", "wait"),
    [(0, b":1\r\n", b""), (1, b":1\r\n", b":1\r\n"), (1, b"$3\r\n1-1\r\n", b"$3\r\n1-1\r\n")],
)
async def test_a_reply_of_redis_to_another_command_acknowledges_nothing(
    replicas: int, xadd: bytes, wait: bytes
) -> None:
    async with served(_redis({b"XADD": [xadd], b"WAIT": [b":1\r\n", wait]})) as port:
        options = redis_options(
            f"redis://127.0.0.1:{port}/0?protocol=2", wait_replicas=replicas, write_timeout=patience(5)
        )
        publisher, sink, events = RedisPublisher(options), Collector(), [make_event("s")]
        await publisher.publish(events, sink)
        [outcome] = await asyncio.wait_for(sink.outcomes(events), patience(30))
        await publisher.close()
    assert isinstance(outcome, ConnectionCut | Unreachable)


@pytest.mark.parametrize("named", [b"*1\r\n$1\r\nx\r\n", b":7\r\n", b"*2\r\n$1\r\nx\r\n$1\r\nx\r\n"])
async def test_a_sentinel_that_names_no_address_is_one_that_does_not_answer(named: bytes) -> None:
    async with served(_redis({b"SENTINEL": [named]})) as port:
        servers = RedisServers(redis_options(f"redis+sentinel://127.0.0.1:{port}/mymaster"))
        with pytest.raises(RedisError, match="names no address of 'mymaster'"):
            await servers.connect(None)


@pytest.mark.parametrize("said", [b"*1\r\n$7\r\nmessage\r\n", b":7\r\n", _moved(b"mymaster a 1 b x")])
async def test_a_sentinel_that_says_something_else_is_listened_to_again(said: bytes) -> None:
    moved: list[ServerAddress] = []
    async with served(_redis({b"SUBSCRIBE": [said, _moved(b"mymaster a 1 b 6380")]})) as port:
        servers = RedisServers(redis_options(f"redis+sentinel://127.0.0.1:{port}/mymaster"))
        sentinels = Sentinels(servers, lambda _, primary: moved.append(primary))
        sentinels.start()
        await eventually(lambda: moved == [ServerAddress("b", 6380)], what="the second message")
        await sentinels.close()


@pytest.mark.parametrize("first", [b"MSG _INBOX.a.1 1 4000000000\r\n", b"INFO {", b"MSG "])
async def test_a_message_of_nats_without_end_is_no_protocol(first: bytes) -> None:
    received = AcknowledgementFilter(Parser())
    received.start("_INBOX.a.", lambda _: None)

    async def receive() -> None:
        await received.parse(first)
        for _ in range(100):
            await received.parse(b"x" * (1 << 15))

    with pytest.raises(ProtocolError):
        await receive()


async def test_what_nats_cannot_decode_ends_the_connection() -> None:
    """The library would read no more of it, and count it as connected."""
    with pytest.raises(ProtocolError):
        await AcknowledgementFilter(Parser()).parse(b"INFO {no json}\r\n")


def _start(table: bytes) -> bytes:
    """The server's first frame, whose properties are this table."""
    body = struct.pack(">HHBB", 10, 10, 0, 9) + struct.pack(">I", len(table)) + table
    body += struct.pack(">I5sI5s", 5, b"PLAIN", 5, b"en_US")
    return FRAME_START.pack(METHOD, 0, len(body)) + body + bytes([END])


def _nested(depth: int) -> bytes:
    table = b""
    for _ in range(depth):
        table = b"\x01aF" + struct.pack(">I", len(table)) + table
    return table


@pytest.mark.parametrize(
    "table", [b"\x00V" * 60_000, b"\x01at" * 5_000, _nested(2_000)], ids=["large", "cut short", "nested"]
)
async def test_a_table_of_rabbitmq_that_costs_much_to_read_ends_the_connection(table: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_start(table))
        await reader.read()

    async with served(serve) as port:
        began = time.process_time()
        with pytest.raises(BrokerUnreachable, match=r"is not a RabbitMQ server|cannot be read"):
            await AmqpWire.connect(read_target(rabbit_options(f"amqp://127.0.0.1:{port}")), patience(10))
        assert time.process_time() - began < 0.3


def test_the_id_of_a_returned_message_is_found_behind_any_headers() -> None:
    properties = commands.Basic.Properties(
        content_type="text/plain",
        content_encoding="gzip",
        headers={"a": "b" * 1000, "n": 1},
        delivery_mode=2,
        priority=1,
        correlation_id="c",
        reply_to="r",
        expiration="1",
        message_id="the id",
        app_id="relay",
    )
    assert message_id(frame.marshal(ContentHeader(0, 5, properties), CHANNEL)) == "the id"
    plain = commands.Basic.Properties(message_id="ü")
    assert message_id(frame.marshal(ContentHeader(0, 5, plain), CHANNEL)) == "ü"
    assert message_id(frame.marshal(ContentHeader(0, 5, commands.Basic.Properties()), CHANNEL)) == ""
    table = b"\x00V" * 60_000
    body = struct.pack(">HHQHI", 60, 0, 5, 1 << 13 | 1 << 7, len(table)) + table + b"\x06the id"
    began = time.process_time()
    assert message_id(FRAME_START.pack(HEADER, CHANNEL, len(body)) + body + bytes([END])) == "the id"
    assert time.process_time() - began < 0.05


async def test_messages_of_redis_behind_a_reply_end_the_session() -> None:
    """The session takes what has arrived behind a reply from the parser: what is no reply has its own bound."""
    parser = BoundedParser(1 << 16)
    for _ in range(MOST_PUSHES):
        await parser.handle_push_response([b"pushed"])
    with pytest.raises(InvalidResponse, match="without end"):
        await parser.handle_push_response([b"pushed"])


_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\n"
_SIZED = _HEAD + b"Content-Length: 900000000\r\n\r\n"
_CHUNKED = _HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
_INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"


@pytest.mark.usefixtures("aws_credentials")
@pytest.mark.parametrize(
    ("head", "piece"),
    [
        (_SIZED, b" " * 10_000),
        (_SIZED, b",{}" * 3000),
        (_CHUNKED, b"1\r\n \r\n" * 1000),
        (_CHUNKED + b"1;", b"a" * 10_000),
        (b"", _INTERIM * 100),
        (_HEAD, b"a: " + b"b" * 1000 + b"\r\n"),
    ],
    ids=["large", "many values", "many chunks", "chunk extension", "interim answers", "head"],
)
async def test_an_answer_of_aws_without_end_is_cut(head: bytes, piece: bytes) -> None:
    sent = Sent()
    async with served(endless(head, piece, sent)) as port:
        url = f"sqs://eu-central-1?endpoint=http://127.0.0.1:{port}"
        publisher, sink, events = AwsPublisher(aws_options(url)), Collector(), [make_event("q")]
        await publisher.open()
        await publisher.publish(events, sink)
        [outcome] = await asyncio.wait_for(sink.outcomes(events), patience(30))
        await publisher.close()
    assert isinstance(outcome, ConnectionCut)
    assert sent.bytes < 16 * MIB


@pytest.mark.usefixtures("aws_credentials")
async def test_an_endpoint_of_aws_sends_events_to_no_other_host_and_leaves_no_cookie() -> None:
    requests: list[bytes] = []
    elsewhere: list[bytes] = []

    async def other(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        elsewhere.append(await reader.read(1 << 16))

    async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            size = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            requests.append(head + await reader.readexactly(int(size.partition(b":")[2])))
            writer.write(b"HTTP/1.1 307 x\r\nLocation: http://127.0.0.1:%d/\r\n" % port)
            writer.write(b"Set-Cookie: a=b\r\nContent-Length: 0\r\n\r\n")

    async with served(other) as port, served(redirect) as first:
        publisher = AwsPublisher(aws_options(f"sqs://eu-central-1?endpoint=http://localhost:{first}"))
        await publisher.open()
        for _ in range(2):
            sink, events = Collector(), [make_event("q")]
            await publisher.publish(events, sink)
            [outcome] = await asyncio.wait_for(sink.outcomes(events), patience(30))
            assert not isinstance(outcome, Acknowledged)
        await publisher.close()
    assert len(requests) == 2
    assert not elsewhere
    assert b"cookie" not in requests[1].lower()
