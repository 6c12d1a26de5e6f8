"""One connection to a host, by HTTP/1.1: one request at a time. h11 parses and checks, this module moves the bytes.

A status line of success is the acknowledgement, whatever becomes of what stands behind it: an answer that is cut, hangs
or is malformed from there on costs the connection alone.

A receiver decides how much it sends, and in which pieces, so all that makes work is counted: bytes, lines of the head,
interim answers, pieces of the body. The parser gets no more than that, and the connection closes.

Used by ``relay.brokers.http.host``. A session that has failed, or whose server has closed it, is not used again.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from contextlib import suppress
from typing import Final, cast

import h11

from relay.brokers.http.deadline import Deadline
from relay.brokers.http.errors import Answer, BadAnswer, Cut, NoAnswer
from relay.brokers.http.request import HttpRequest
from relay.core.durations import in_words
from relay.core.errors import reason_of

_MOST_HEAD: Final = 65_536  # bytes until the head has ended, interim answers included
_MOST_LINES: Final = 1_000  # of them
_MOST_INTERIM: Final = 10  # answers with a status of 1xx before the one that counts
_MOST_BODY: Final = 65_536  # bytes behind the head that are read; more cost the connection
_MOST_PIECES: Final = 100  # of the body
_END_OF_HEAD: Final = re.compile(rb"\n\r?\n")
_FIRST_SIGN: Final = 0x21  # no line of text begins with a byte below
_UNASKED: Final = "the server sends data before the first request: it is not an HTTP server"
_SUCCESS: Final = re.compile(rb"HTTP/1\.[01] (2\d\d)[ \r\n]")
_LONGEST_SUCCESS: Final = 13  # bytes that it takes
_KEPT_BODY: Final = 1024  # bytes of it that an error may show


class HttpSession(asyncio.Protocol):
    """See the module's text; made by ``relay.brokers.http.connecting``."""

    transport: asyncio.WriteTransport

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MOST_BODY)
        self._answer: asyncio.Future[Answer] | None = None
        self._head: h11.Response | None = None
        self._start = b""
        """How the answer begins, as it came."""
        self._body = b""
        self._unparsed = bytearray()
        """Of the head."""
        self.spent = 0.0
        """Seconds that reading the last answer took."""
        self._left = _MOST_HEAD
        """How many more bytes of the head, and then of what follows, are read."""
        self._lines = self._interim = self._pieces = 0
        self._used = False
        """Whether it has carried a request before: then the server may be closing it just now."""
        self._unasked = False
        """The server spoke before the first request."""
        self.closed = False
        """Whether it takes no request any more."""
        self.idle_since = self._loop.time()
        """On the event loop's clock: since when it has carried nothing."""
        self.lost: asyncio.Future[str] = self._loop.create_future()
        """Why the connection ended, once it has."""

    @property
    def idle(self) -> bool:
        """Whether it takes a request now."""
        return not self.closed and self._answer is None

    async def post(self, request: HttpRequest, timeout: float) -> Answer:
        """Send it and wait. Raises Cut, NoAnswer, BadAnswer. The session must be idle."""
        if self.closed:
            raise BadAnswer(_UNASKED) if self._unasked else Cut("the server closed the connection", resend=True)
        try:
            data = self._encoded(request)
        except h11.LocalProtocolError:  # the parser is of no use any more
            self.abort()
            raise
        answer: asyncio.Future[Answer] = self._loop.create_future()
        self._answer = answer
        self._head, self._start, self._body, self._left = None, b"", b"", _MOST_HEAD
        self._unparsed.clear()
        self._lines = self._interim = self._pieces = 0
        self.spent = 0.0
        if not self.transport.is_closing():  # uvloop raises; connection_lost follows in any case
            self.transport.write(data)
        deadline = Deadline(
            self.transport, len(data), timeout, lambda: self._fail(NoAnswer(f"no answer within {in_words(timeout)}"))
        )
        try:
            return await answer
        finally:
            deadline.cancel()
            self._answer = None
            self._used = True
            self.idle_since = self._loop.time()
            if not answer.done() or answer.cancelled():  # the caller gave up
                self.abort()

    def _encoded(self, request: HttpRequest) -> bytes:
        length = str(len(request.body))
        headers = [("Host", request.authority), *request.headers, ("Content-Length", length)]
        parser = self._parser
        head = parser.send(h11.Request(method="POST", target=request.target, headers=headers))
        body = parser.send(h11.Data(data=request.body)) if request.body else b""
        parser.send(h11.EndOfMessage())
        return (head or b"") + (body or b"")

    def abort(self) -> None:
        """Cut the connection: nothing that is buffered is sent."""
        self.closed = True
        self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The TCP connection stands, and TLS on it."""
        self.transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        """Read the answer."""
        if self._answer is None or self._answer.done():
            self._unasked = not self._used
            self.abort()
            return
        if len(self._start) < _LONGEST_SUCCESS:
            self._start += data[:_LONGEST_SUCCESS]
        began = time.perf_counter()
        self._read(data)
        self.spent += time.perf_counter() - began

    def _read(self, data: bytes) -> None:
        try:
            if self._head is None:
                looked = max(len(self._unparsed) - 2, 0)
                self._unparsed += data
                data = self._take_heads(looked)
            if self._head is not None:
                self._take_body(data)
        except h11.RemoteProtocolError as error:
            self._fail(BadAnswer(f"the answer is not HTTP/1.1: {error}"))
        except BadAnswer as error:
            self._fail(error)

    def _take_heads(self, looked: int) -> bytes:
        """Read interim answers and the head; returns what stands behind it. Raises BadAnswer.

        ``looked`` is how many bytes have been searched for an end.
        """
        unparsed = self._unparsed
        while self._head is None and unparsed:
            if unparsed[0] < _FIRST_SIGN:
                raise BadAnswer("the answer is not HTTP/1.1: illegal status line")
            end = _END_OF_HEAD.search(unparsed, looked)
            size = len(unparsed) if end is None else end.end()
            if size > self._left:
                raise BadAnswer(f"the head of the answer has more than {_MOST_HEAD:,} bytes")
            if end is None:
                break
            head = bytes(unparsed[:size])
            del unparsed[:size]
            looked = 0
            self._take_head(head)
        return bytes(unparsed)

    def _take_head(self, head: bytes) -> None:
        self._left -= len(head)
        self._lines += head.count(b"\n")
        if self._lines > _MOST_LINES:
            raise BadAnswer(f"the head of the answer has more than {_MOST_LINES:,} lines")
        self._parser.receive_data(head)
        event = self._parser.next_event()
        if isinstance(event, h11.Response):
            self._head, self._left = event, _MOST_BODY
            return
        self._interim += 1
        if self._interim > _MOST_INTERIM:
            raise BadAnswer(f"more than {_MOST_INTERIM} interim answers")
        self._start = bytes(self._unparsed[:_LONGEST_SUCCESS])

    def _take_body(self, data: bytes) -> None:
        """Read what stands behind the head, up to the limit."""
        if data:
            self._parser.receive_data(data[: self._left])  # none at all would say that the connection has ended
        self._take_events()
        self._left -= len(data)
        if self._left <= 0:
            self._finish(again=False)

    def connection_lost(self, error: Exception | None) -> None:
        """The request that is under way has no answer, unless it ends with the connection."""
        reason = "the server closed the connection" if error is None else loss_of(error)
        self.lost.set_result(reason)
        self.closed = True
        if self._answer is not None and not self._answer.done() and self._head is not None:
            with suppress(h11.RemoteProtocolError):  # the body is not complete
                self._parser.receive_data(b"")
                self._take_events()
        self._fail(Cut(reason, resend=self._used and self._head is None))

    def _take_events(self) -> None:
        while (event := self._parser.next_event()) is not h11.NEED_DATA and event is not h11.PAUSED:
            if isinstance(event, h11.Data):
                self._pieces += 1
                self._body += bytes(event.data[: _KEPT_BODY - len(self._body)])
                if self._pieces > _MOST_PIECES:
                    self._finish(again=False)
                    return
            elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
                self._finish(again=self._parser.states == {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE})
                return

    def _finish(self, *, again: bool) -> None:
        """The answer is complete, or enough of it. What stands behind it would be taken for the next one's answer."""
        head = self._head
        if again and not self._parser.trailing_data[0]:
            self._parser.start_next_cycle()
        else:
            self.abort()
        if self._answer is None or self._answer.done():
            return
        if head is None:
            self._fail(BadAnswer("the server ended the connection without an answer"))
            return
        retry_after = next((value for name, value in head.headers if name == b"retry-after"), None)
        text = None if retry_after is None else retry_after.decode("latin-1")
        self._answer.set_result(Answer(head.status_code, text, self._body))

    def _fail(self, error: Exception) -> None:
        self.abort()
        if self._answer is None or self._answer.done():
            return
        if accepted := _SUCCESS.match(self._start):
            self._answer.set_result(Answer(int(accepted[1]), None, b""))
        else:
            self._answer.set_exception(error)


def loss_of(error: Exception) -> str:
    """Why a connection failed or ended; of TLS what its library says, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: certificate verify failed: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {(error.reason or reason_of(error)).lower().replace('_', ' ')}"
    return reason_of(error)
