"""Whatever bytes a receiver answers with, in whatever pieces: one outcome, soon, and never an exception."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any, cast

from relay.brokers.http.errors import Answer, BadAnswer, Cut
from relay.brokers.http.request import HttpRequest
from relay.brokers.http.session import HttpSession

_CASES = 3000
_PARTS = (
    *(
        b"HTTP/1.1 200 OK\r\n",
        b"HTTP/1.1 204\r\n",
        b"HTTP/1.1 103 Early Hints\r\n",
        b"HTTP/1.1 100 \r\n\r\n",
        b"HTTP/1.0 500 ",
    ),
    *(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        b"HTTP/2 200\r\n",
        b"HTTP/1.1 999999 x\r\n",
        b"HTTP/1.1 -1\r\n",
    ),
    *(
        b"Content-Length: 5\r\n",
        b"Content-Length: 99999999999999999999\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length: 5, 5\r\n",
    ),
    *(
        b"Transfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: gzip\r\n",
        b"Connection: close\r\n",
        b"Retry-After: 7\r\n",
    ),
    *(
        b"\r\n",
        b"\n",
        b"\r\n\r\n",
        b"\n\n",
        b"\r",
        b":",
        b" ",
        b"\t",
        b"a",
        b"a: b\r\n",
        b" folded\r\n",
        b"a:\r\n" * 200,
    ),
    *(
        b"5\r\nhello\r\n",
        b"0\r\n\r\n",
        b"0\r\na: b\r\n\r\n",
        b"1;x=y\r\na\r\n",
        b"ffffffffffffffffffff\r\n",
        b"-1\r\n",
        b"hello",
    ),
    *(b"\x00", b"\x16\x03\x01", b"\xff\xfe", "ü".encode(), b"a" * 30_000, b"1\r\na\r\n" * 3000),
    b"HTTP/1.1 103 x\r\n\r\n" * 500,
)


class Wire:
    """A transport that takes everything."""

    def __init__(self) -> None:
        self.aborted = False

    def write(self, data: bytes) -> None:
        """Take it."""

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str) -> None:
        """Know nothing."""


def pieces(draw: random.Random) -> list[bytes]:
    whole = b"".join(draw.choice(_PARTS) for _ in range(draw.randint(1, 12)))
    if draw.random() < 0.5:
        whole = b"HTTP/1.1 %d x\r\n" % draw.choice((200, 404, 500, 302)) + whole
    cuts = sorted(draw.randint(0, len(whole)) for _ in range(draw.randint(0, 5)))
    return [whole[at:end] for at, end in zip([0, *cuts], [*cuts, len(whole)], strict=True) if at < end]


async def test_any_bytes_have_one_outcome_soon() -> None:
    draw = random.Random(43)
    request = HttpRequest("h", "/", [], b"body")
    outcomes: set[type] = set()
    longest = 0.0
    for _ in range(_CASES):
        session, wire = HttpSession(), Wire()
        session.connection_made(cast("Any", wire))
        answer = asyncio.ensure_future(session.post(request, 60.0))
        await asyncio.sleep(0)
        sent = pieces(draw)
        for piece in sent:
            began = time.thread_time()
            session.data_received(piece)
            longest = max(longest, time.thread_time() - began)
            if wire.aborted:
                break
        session.connection_lost(None)
        try:
            result: object = await asyncio.wait_for(answer, 10.0)
        except (BadAnswer, Cut) as error:
            result = error
        outcomes.add(type(result))
        assert b"".join(sent)[:13] not in (b"HTTP/1.1 200 ", b"HTTP/1.1 200\r") or isinstance(result, Answer)
    assert outcomes == {Answer, BadAnswer, Cut}
    assert longest < 0.5
