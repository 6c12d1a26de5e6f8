"""Answers that cost much to read, of a Redis, an SQS and an SNS that refuse every message; see ``flooding_broker``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

_SIZE: Final = 1_000_000  # bytes of an answer
_PUSHES: Final = {
    "redis-push": b">1\r\n+pushed\r\n",
    "redis-moving": b">1\r\n+MOVING\r\n",
    "redis-empty": b">0\r\n",
}
_NO: Final = b"-ERR no\r\n"
_INTERIM: Final = b"HTTP/1.1 103 x\r\n\r\n" * 5000
_HEAD: Final = b"HTTP/1.1 %d x\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def _command(reader: asyncio.StreamReader) -> list[bytes]:
    count = int((await reader.readuntil(b"\r\n"))[1:])
    parts = []
    for _ in range(count):
        size = int((await reader.readuntil(b"\r\n"))[1:])
        parts.append((await reader.readexactly(size + 2))[:-2])
    return parts


def _redis(kind: str) -> Serve:
    push = _PUSHES[kind]
    pushes = push * (100_000 // len(push))
    answers = {b"HELLO": b"%1\r\n+proto\r\n:3\r\n", b"XADD": pushes + _NO}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            parts = await _command(reader)
            probe = parts[2:3] == [b"0-0"]
            writer.write(_NO if probe else answers.get(parts[0], b"+OK\r\n"))
            await writer.drain()

    return serve


def _filled(before: bytes, again: bytes, after: bytes) -> bytes:
    return before + again * ((_SIZE - len(before) - len(after)) // len(again)) + after


def _json(address: bytes) -> Mapping[bytes, bytes]:
    return {
        b"GetQueueUrl": b'{"QueueUrl": "%s/q"}' % address,
        b"SendMessageBatch": _filled(b'{"Failed":[{}', b",{}", b"]}"),
    }


def _xml(_: bytes) -> Mapping[bytes, bytes]:
    start = b"<PublishBatchResponse><PublishBatchResult><Failed>"
    end = b"</Failed></PublishBatchResult></PublishBatchResponse>"
    return {b"PublishBatch": _filled(start, b"<member/>", end)}


def _aws(kind: str) -> Serve:
    media_type = b"text/xml" if kind.startswith("sns") else b"application/x-amz-json-1.0"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = writer.get_extra_info("sockname")[:2]
        bodies = (_xml if kind.startswith("sns") else _json)(f"http://{host}:{port}".encode())
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            size = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            asked = head + await reader.readexactly(int(size.partition(b":")[2]))
            while kind.endswith("-interim") and b"SendMessageBatch" in asked:
                writer.write(_INTERIM)
                await writer.drain()
            answer = next(
                (body for name, body in bodies.items() if name in asked),
                b"<a/>" if media_type == b"text/xml" else b"{}",
            )
            writer.write(_HEAD % (200, media_type, len(answer)) + answer)
            await writer.drain()

    return serve


ANSWERS: Final[Mapping[str, Serve]] = {
    **{kind: _redis(kind) for kind in _PUSHES},
    **{kind: _aws(kind) for kind in ("sqs", "sqs-interim", "sns")},
}
"""How a connection is served, by kind."""
