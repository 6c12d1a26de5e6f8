"""What listens on an address, by how it answers: for ``relay-cli check``, when the broker does not answer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

_WITHIN: Final = 0.5  # seconds for the connection, and for the answer
_MOST: Final = 3  # addresses of one URL that are asked
_PORTS: Final = {"kafka": 9092, "nats": 4222, "redis": 6379, "rabbitmq": 5672, "http": 443}
_HOST: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%\w]+\]|[^:\[\]\s]+)(?::(?P<port>\d{1,5}))?")


class _Server(NamedTuple):
    """A kind of server, by its answer to a request that it takes without a login."""

    name: str
    request: bytes
    matches: Callable[[bytes], bool]


BROKER_NAMES: Final = {
    "kafka": "a Kafka broker",
    "nats": "a NATS server",
    "redis": "a Redis server",
    "rabbitmq": "a RabbitMQ node",
    "http": "a web server",
}
"""What ``what_listens`` calls the broker of each PUBLISHER_TYPE."""
_SERVERS: Final = (
    _Server(BROKER_NAMES["nats"], b"", lambda answer: answer.startswith(b"INFO ")),
    # ApiVersions, version 0, with correlation id 1 and no client id; the answer begins with its size and that id.
    _Server(
        BROKER_NAMES["kafka"],
        bytes.fromhex("0000000a 0012 0000 00000001 ffff"),
        lambda answer: answer[4:8] == b"\0\0\0\x01" and answer[:2] == b"\0\0",
    ),
    _Server(BROKER_NAMES["redis"], b"PING\r\n", lambda answer: answer[:5] in (b"+PONG", b"-NOAU", b"-NOPE", b"-DENI")),
    # AMQP 0-9-1; the answer is connection.start, a method on channel 0.
    _Server(
        BROKER_NAMES["rabbitmq"],
        b"AMQP\0\0\x09\x01",
        lambda answer: answer[:3] == b"\x01\0\0" and answer[7:11] == bytes.fromhex("000a000a"),
    ),
    _Server("PostgreSQL", bytes.fromhex("00000008 04d2162f"), lambda answer: answer in (b"S", b"N")),  # SSLRequest
    _Server(BROKER_NAMES["http"], b"GET / HTTP/1.0\r\n\r\n", lambda answer: answer.startswith(b"HTTP/")),
)


def addresses(url: str, kind: str) -> list[tuple[str, int]]:
    """The first hosts and ports of PUBLISHER_URL, with the default port of ``kind``; none for a socket's path."""
    _, _, rest = url.strip().rpartition("://")
    place = re.split(r"[/?]", rest.rpartition("@")[2], maxsplit=1)[0]
    matches = [_HOST.fullmatch(part.strip()) for part in place.split(",")]
    named = [(match["host"].strip("[]"), int(match["port"] or _PORTS[kind])) for match in matches if match]
    return named[:_MOST]


async def what_listens(url: str, kind: str) -> str:
    """A sentence for each address of the URL at which something answers; empty where nothing does."""
    names = [(host, port, await _recognize(host, port)) for host, port in addresses(url, kind)]
    return "; ".join(f"{host} port {port} is {name}" for host, port, name in names if name)


async def _recognize(host: str, port: int) -> str:
    """The kind of server; empty when no connection is possible."""
    for server in _SERVERS:
        try:
            async with asyncio.timeout(_WITHIN):
                reader, writer = await asyncio.open_connection(host, port)
        except OSError:  # a TimeoutError is one
            return ""
        answer = b""
        try:
            with suppress(OSError):
                writer.write(server.request)
                async with asyncio.timeout(_WITHIN):
                    answer = await reader.read(16)
        finally:
            writer.transport.abort()
        if server.matches(answer):
            return server.name
    return "a server of another kind"
