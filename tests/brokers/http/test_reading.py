"""What is read of an answer, whether the connection takes another request after it, and what is no answer."""

from __future__ import annotations

import pytest

from relay.brokers.http.errors import BadAnswer
from relay.brokers.http.reading import AnswerReader

CHUNKED = b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n"


def brief(value: object) -> str:
    """As the name of a case."""
    return repr(value)[:60]


@pytest.mark.parametrize(
    ("answer", "status", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, b""),
        (b"HTTP/1.1 204\r\nX:\r\nRetry-After: 7\r\n\r\n", 204, b""),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, b""),
        (b"HTTP/1.1 503 Busy\r\nServer: \xfc\r\nContent-Length: 4\r\n\r\nbusy", 503, b"busy"),
        (b"HTTP/1.1 200 OK\ncontent-length: 2\n\nok", 200, b"ok"),
        (CHUNKED + b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n", 500, b"abcde"),
        (CHUNKED + b"1\r\na\r\n0\r\nRetry-After: 9\r\n\r\n", 500, b"a"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 103 x\r\n\r\nHTTP/1.1 201 x\r\nContent-Length: 0\r\n\r\n", 201, b""),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_connection_that_is_kept_is_used_again(answer: bytes, status: int, body: bytes, size: int) -> None:
    reader = AnswerReader()
    for _ in range(3):
        for at in range(0, len(answer), size):
            assert not reader.complete
            reader.feed(answer[at : at + size])
        assert (reader.status, reader.body, reader.complete, reader.reusable) == (status, body, True, True)
        assert reader.retry_after == ("7" if status == 204 else None)
        reader.begin()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\noknot part of it",
        b"HTTP/1.1 204 OK\r\n\r\nHTTP/1.1 204 OK\r\n\r\n",
        b"HTTP/1.1 204 OK\r\n\r\nH",
        b"HTTP/1.1 200 OK\r\nContent-Length: 65536\r\n\r\n" + b"a" * 65_536,
        CHUNKED + b"1\r\na\r\n" * 101,
        CHUNKED + b"1\r\na\r\n0\r\nConnection: close\r\n\r\n",
        CHUNKED + b"0\r\n" + b"a: b\r\n" * 102,
    ],
    ids=brief,
)
def test_a_connection_that_is_closed_or_says_more_is_not(answer: bytes) -> None:
    reader = AnswerReader()
    reader.feed(answer)
    assert (reader.complete, reader.reusable) == (True, False)


def test_a_body_without_a_length_ends_with_the_connection_or_the_limit() -> None:
    reader = AnswerReader()
    reader.feed(b"HTTP/1.1 500 No\r\n\r\n")
    for _ in range(65):
        assert not reader.complete
        reader.feed(b"a" * 1000)
    reader.feed(b"a" * 1000)
    assert (reader.complete, reader.reusable, reader.body) == (True, False, b"a" * 1024)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/2 200\r\n\r\n", "illegal status line"),
        (b"HTTP/1.1 2000 OK\r\n\r\n", "illegal status line"),
        (b"\x16\x03\x01", "illegal status line"),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", "another protocol"),
        (b"HTTP/1.1 500 No\r\nServer : x\r\n\r\n", "not HTTP/1.1"),
        (b"HTTP/1.1 500 No\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "not HTTP/1.1"),
        (b"HTTP/1.1 500 No\r\nContent-Length: 99999999999999999999\r\n\r\n", "not HTTP/1.1"),
        (b"HTTP/1.1 500 No\r\na: " + b"a" * 65_536, "more than 65,536 bytes"),
        (b"HTTP/1.1 500 No\r\n" + b"a:\r\n" * 1000 + b"\r\n", "more than 1,000 lines"),
        (b"HTTP/1.1 103 x\r\n\r\n" * 11, "more than 10 interim answers"),
        (CHUNKED + b"no size\r\n", "not HTTP/1.1"),
    ],
    ids=brief,
)
def test_what_is_no_answer(answer: bytes, reason: str) -> None:
    with pytest.raises(BadAnswer, match=reason):
        AnswerReader().feed(answer)


def test_the_status_line_of_success_is_read_before_what_stands_behind_it() -> None:
    reader = AnswerReader()
    for piece in (b"HTTP/1.1 103 Early\r\n\r\nHTTP/1.", b"1 202"):
        reader.feed(piece)
        assert reader.accepted == 0
    reader.feed(b" OK\r\n")
    assert (reader.accepted, reader.status, reader.begun) == (202, 0, True)
    with pytest.raises(BadAnswer):
        reader.feed(b"\x00 : \r\n\r\n")
    assert reader.accepted == 202
