"""HTTP/1.1 over one connection, one request at a time; h11 parses and checks, this module moves the bytes."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

import h11

from relay.brokers.http.deadline import Deadline
from relay.brokers.http.errors import Answer, BadAnswer, Cut, NoAnswer
from relay.brokers.http.wire import HttpRequest, Wire

_MOST_HEAD: Final = 65_536  # bytes of an answer's head
MOST_BODY: Final = 65_536  # bytes of an answer's body that are read; a longer one costs the connection
_UNASKED: Final = "the server sends data before the first request: it is not an HTTP server"
KEPT_BODY: Final = 1024  # bytes of it that an error may show


class Http1Connection:
    """See the module's text; made by ``relay.brokers.http.wire``."""

    capacity = 1

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._loop = asyncio.get_running_loop()
        self._parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MOST_HEAD)
        self._answer: asyncio.Future[Answer] | None = None
        self._head: h11.Response | None = None
        self._body = b""
        self._read = 0
        self._used = False
        """Whether it has carried a request before: then the server may be closing it just now."""
        self._unasked = False
        """The server spoke before the first request."""
        self.closed = False
        self.idle_since = self._loop.time()
        self.ready = self._loop.create_future()
        self.ready.set_result(None)

    @property
    def room(self) -> int:
        """One request, when none is under way."""
        return 0 if self.closed or self._answer is not None else 1

    async def post(self, request: HttpRequest, timeout: float) -> Answer:
        """Send it and wait. Raises Cut, NoAnswer, BadAnswer."""
        if self.closed:
            raise BadAnswer(_UNASKED) if self._unasked else Cut("the server closed the connection", resend=True)
        try:
            data = self._encoded(request)
        except h11.LocalProtocolError:  # the parser is of no use any more
            self.abort()
            raise
        answer: asyncio.Future[Answer] = self._loop.create_future()
        self._answer = answer
        self._head, self._body, self._read = None, b"", 0
        self._wire.write(data)
        deadline = Deadline(self._wire, timeout, lambda: self._fail(NoAnswer(f"no answer within {timeout:g} s")))
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
        self._wire.transport.abort()

    def on_data(self, data: bytes) -> None:
        """Read the answer."""
        if self._answer is None or self._answer.done():
            self._unasked = not self._used
            self.abort()
            return
        try:
            self._parser.receive_data(data)
            self._take_events()
        except h11.RemoteProtocolError as error:
            self._fail(BadAnswer(f"the answer is not HTTP/1.1: {error}"))

    def on_lost(self, reason: str) -> None:
        """The request that is under way has no answer, unless it ends with the connection."""
        self.closed = True
        if self._answer is not None and not self._answer.done() and self._head is not None:
            with suppress(h11.RemoteProtocolError):  # the body is not complete
                self._parser.receive_data(b"")
                self._take_events()
        self._fail(Cut(reason, resend=self._used and self._head is None))

    def _take_events(self) -> None:
        while (event := self._parser.next_event()) is not h11.NEED_DATA and event is not h11.PAUSED:
            if isinstance(event, h11.Response):
                self._head = event
            elif isinstance(event, h11.Data):
                self._read += len(event.data)
                self._body += bytes(event.data[: KEPT_BODY - len(self._body)])
                if self._read > MOST_BODY:
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
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
