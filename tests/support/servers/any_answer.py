"""Any bytes as the answer to a request of HTTP/1.1, put together from parts that parsers take apart."""

from __future__ import annotations

import random

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


def pieces(draw: random.Random) -> list[bytes]:
    """The pieces in which one answer arrives."""
    whole = b"".join(draw.choice(_PARTS) for _ in range(draw.randint(1, 12)))
    if draw.random() < 0.5:
        whole = b"HTTP/1.1 %d x\r\n" % draw.choice((200, 404, 500, 302)) + whole
    cuts = sorted(draw.randint(0, len(whole)) for _ in range(draw.randint(0, 5)))
    return [whole[at:end] for at, end in zip([0, *cuts], [*cuts, len(whole)], strict=True) if at < end]
