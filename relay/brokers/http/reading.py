"""The answer to a request, read to a limit: the status line by this module, all behind it by llhttp (httptools).

A receiver decides how much it sends, and in which pieces, so all that makes work is counted: bytes, lines of the head,
interim answers, pieces of the body. The parser gets no more than that.

Used by ``relay.brokers.http.session``.
"""

from __future__ import annotations

import re
from typing import Final

from httptools import HttpParserError, HttpResponseParser

from relay.brokers.http.errors import BadAnswer

_MOST_HEAD: Final = 65_536  # bytes until the head has ended, interim answers included
_MOST_LINES: Final = 1_000  # of them
_MOST_INTERIM: Final = 10  # answers with a status of 1xx before the one that counts
_MOST_BODY: Final = 65_536  # bytes behind the head that are read; more cost the connection
_MOST_PIECES: Final = 100  # of the body, and lines behind it
_KEPT_BODY: Final = 1024  # bytes of it that an error may show
_END_OF_HEAD: Final = re.compile(rb"\n\r?\n")
_FIRST_SIGN: Final = 0x21  # no line of text begins with a byte below
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.([01]) ([1-9]\d\d)[ \r\n]")
_SWITCHING: Final = 101
_FIRST_FINAL: Final = 200  # below are interim answers


class AnswerReader:
    """One answer after the other on one connection. After BadAnswer, or an answer without ``reusable``, no more."""

    def __init__(self) -> None:
        self._unparsed = bytearray()
        """Of the head."""
        self._parts = _Parts()
        self._parser = HttpResponseParser(self._parts)
        self._parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True)  # RFC 9112 2.2; else CGI scripts fail
        self.begin()

    def begin(self) -> None:
        """Be ready for the next answer."""
        self.status = 0
        """Once the head is complete."""
        self.complete = False
        """Whether the whole answer was read, or as much of it as is."""
        self._left = _MOST_HEAD
        """How many more bytes of the head, and then of what follows, are read."""
        self._lines = self._interim = 0
        self._unparsed.clear()
        self._parts.begin()

    @property
    def begun(self) -> bool:
        """Whether anything came."""
        return bool(self.status or self._interim or self._unparsed)

    @property
    def accepted(self) -> int:
        """The status of success, as soon as its line stands; 0 without."""
        line = None if self.status else _STATUS_LINE.match(self._unparsed)
        status = self.status if line is None else int(line[2])
        return status if 200 <= status < 300 else 0

    @property
    def reusable(self) -> bool:
        """Whether the connection takes another request after this answer: the server keeps it, and sent no more."""
        return self._parts.complete and not self._parts.closes and not self._parts.overrun and self._left > 0

    @property
    def retry_after(self) -> str | None:
        """The first header of that name."""
        value = self._parts.retry_after
        return None if value is None else value.decode("latin-1")

    @property
    def body(self) -> bytes:
        """The beginning of it."""
        return self._parts.body

    def feed(self, data: bytes) -> None:
        """Read on. Raises BadAnswer for what is no answer by the protocol, or a head that has no end."""
        if not self.status:
            data = self._take_heads(data)
        if data:
            self._parse(data[: self._left])
            self._left -= len(data)
            self.complete |= self._left <= 0

    def _take_heads(self, data: bytes) -> bytes:
        """Read interim answers and the head; returns what stands behind it."""
        unparsed = self._unparsed
        searched = max(len(unparsed) - 2, 0)
        unparsed += data
        while unparsed and not self.status:
            if unparsed[0] < _FIRST_SIGN:
                raise BadAnswer("the answer is not HTTP/1.1: illegal status line")
            end = _END_OF_HEAD.search(unparsed, searched)
            size = len(unparsed) if end is None else end.end()
            if size > self._left:
                raise BadAnswer(f"the head of the answer has more than {_MOST_HEAD:,} bytes")
            if end is None:
                return b""
            head = bytes(unparsed[:size])
            del unparsed[:size]
            searched = 0
            self._take_head(head)
        return bytes(unparsed)

    def _take_head(self, head: bytes) -> None:
        if (line := _STATUS_LINE.match(head)) is None:
            raise BadAnswer("the answer is not HTTP/1.1: illegal status line")
        status = int(line[2])
        if status >= _FIRST_FINAL:
            self.status = status
        self._left -= len(head)
        self._lines += head.count(b"\n")
        if self._lines > _MOST_LINES:
            raise BadAnswer(f"the head of the answer has more than {_MOST_LINES:,} lines")
        if status == _SWITCHING:
            raise BadAnswer("the server switches to another protocol, which the request did not ask for")
        if status < _FIRST_FINAL:
            self._interim += 1
            if self._interim > _MOST_INTERIM:
                raise BadAnswer(f"more than {_MOST_INTERIM} interim answers")
            return
        self._left = _MOST_BODY
        self._parts.closes = line[1] == b"0"
        self._parse(head)

    def _parse(self, data: bytes) -> None:
        parts = self._parts
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            if not parts.complete and not parts.overrun:
                raise BadAnswer(f"the answer is not HTTP/1.1: {error}") from None
            parts.overrun = True
        self.complete = parts.complete or parts.overrun


class _Overrun(Exception):
    """More than is read."""


class _Parts:
    """What llhttp takes an answer apart into; it calls the methods."""

    def begin(self) -> None:
        """Forget the last answer."""
        self.retry_after: bytes | None = None
        self.body = b""
        self.closes = False
        """Whether the server closes the connection after it."""
        self.complete = False
        self.overrun = False
        """Whether more came than is read of an answer, or more than the answer."""
        self._behind_head = False
        self._pieces = 0

    def on_message_begin(self) -> None:
        """What comes behind a complete answer is not read: it would be taken for the next one's answer."""
        if self.complete:
            self._stop()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Also called for what stands behind the body."""
        if self._behind_head:
            self._count()
        name = name.lower()
        if name == b"connection" and b"close" in value.lower():
            self.closes = True
        elif name == b"retry-after" and not self._behind_head and self.retry_after is None:
            self.retry_after = value

    def on_headers_complete(self) -> None:
        """The body follows."""
        self._behind_head = True

    def on_body(self, body: bytes) -> None:
        """One piece of it."""
        self._count()
        self.body += body[: _KEPT_BODY - len(self.body)]

    def on_message_complete(self) -> None:
        """By the head, this is all."""
        self.complete = True

    def _count(self) -> None:
        self._pieces += 1
        if self._pieces > _MOST_PIECES:
            self._stop()

    def _stop(self) -> None:
        self.overrun = True
        raise _Overrun
