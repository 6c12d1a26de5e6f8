"""The program of ``HostileServer``: a receiver of webhooks that answers without end, or with what costs much to read.

    python -m tests.support.servers.hostile_receiver PORT

The path of a request says how it is answered (``answers``). ``GET`` is answered as by any server.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import repeat

from tests.support.servers.any_answer import pieces

INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
CHUNKED = b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n"
_SENT_AT_ONCE = 100_000  # bytes
_DRAW = random.Random(43)


def _behind(first: bytes, piece: bytes) -> Iterator[bytes]:
    yield first
    yield from repeat(piece)


def answers(name: str) -> Iterable[bytes]:
    """The pieces of the answer of that name."""
    if name == "any":
        return pieces(_DRAW)
    return {
        "interim": repeat(INTERIM),
        "interim-then-ok": [INTERIM * 70_000, OK],
        "ten-interim": [INTERIM * 10, OK],
        "extensions": _behind(CHUNKED + b"1;", b"a" * 1000),
        "pieces": _behind(CHUNKED, b"1\r\na\r\n"),
        "body": _behind(b"HTTP/1.1 500 No\r\n\r\n", b"a" * 1000),
        "lines": _behind(b"HTTP/1.1 500 No\r\n", b"a:\r\n"),
        "line": _behind(b"HTTP/1.1 500 No\r\na: ", b"a" * 1000),
        "blanks": repeat(b"\r\n"),
        "garbage": repeat(b"\x16\x03\x01" * 100),
        "accepted-line": _behind(b"HTTP/1.1 200 OK\r\na: ", b"a" * 1000),
        "accepted-body": _behind(b"HTTP/1.1 202 OK\r\n\r\n", b"a" * 1000),
        "accepted-pieces": _behind(CHUNKED.replace(b"500", b"200"), b"1\r\na\r\n"),
        "ok": [OK],
        "costly": [b"HTTP/1.1 500 No\r\na: " + b"b c" * 20_000 + b"\r\nContent-Length: 0\r\n\r\n"],
    }[name]


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one connection until it is cut."""
    with suppress(asyncio.IncompleteReadError, OSError):
        while head := await reader.readuntil(b"\r\n\r\n"):
            method, target, _ = head.split(b" ", 2)
            if method == b"GET":
                writer.write(OK)
                continue
            sent = bytearray()
            for piece in answers(target.decode().strip("/")):
                sent += piece
                if len(sent) > _SENT_AT_ONCE:
                    writer.write(bytes(sent))
                    await writer.drain()
                    sent.clear()
            writer.write(bytes(sent))
            if target == b"/any":
                break
    writer.close()


async def main(port: str) -> None:
    server = await asyncio.start_server(answer, "127.0.0.1", int(port), backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
