"""One connection to a host, by HTTP/1.1: one request at a time. ``relay.brokers.http.reading`` reads the answers.

A status line of success is the acknowledgement, whatever becomes of what stands behind it: an answer that is cut, hangs
or is malformed from there on costs the connection alone. Of any other status the whole head counts, and the connection
may end before the body does.

Used by ``relay.brokers.http.host``. A session that has failed, or whose server has closed it, is not used again.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import Final, cast

from relay.brokers.http.deadline import Deadline
from relay.brokers.http.errors import Answer, BadAnswer, Cut, NoAnswer
from relay.brokers.http.reading import AnswerReader
from relay.brokers.http.request import HttpRequest
from relay.core.durations import in_words
from relay.core.errors import reason_of

_UNASKED: Final = "the server sends data before the first request: it is not an HTTP server"


class HttpSession(asyncio.Protocol):
    """See the module's text; made by ``relay.brokers.http.connecting``."""

    transport: asyncio.WriteTransport

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader = AnswerReader()
        self._answer: asyncio.Future[Answer] | None = None
        self.spent = 0.0
        """Seconds that reading the last answer took."""
        self.proven = False
        """Whether the server has answered on it."""
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
        answer: asyncio.Future[Answer] = self._loop.create_future()
        self._answer = answer
        self._reader.begin()
        data = request.head + request.body
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
        began = time.perf_counter()
        try:
            self._reader.feed(data)
        except BadAnswer as error:
            self._fail(error)
        else:
            if self._reader.complete:
                self._finish(again=self._reader.reusable)
        self.spent += time.perf_counter() - began

    def connection_lost(self, error: Exception | None) -> None:
        """The request that is under way has no answer, unless it ends with the connection."""
        reason = "the server closed the connection" if error is None else loss_of(error)
        self.lost.set_result(reason)
        self.closed = True
        if self._reader.status:
            self._finish(again=False)
        else:
            self._fail(Cut(reason, resend=self._used and not self._reader.begun))

    def _finish(self, *, again: bool) -> None:
        """The answer is complete, or enough of it."""
        if not again:
            self.abort()
        if self._answer is not None and not self._answer.done():
            self.proven = True
            reader = self._reader
            self._answer.set_result(Answer(reader.status, reader.retry_after, reader.body))

    def _fail(self, error: Exception) -> None:
        self.abort()
        if self._answer is None or self._answer.done():
            return
        if accepted := self._reader.accepted:
            self._answer.set_result(Answer(accepted, None, b""))
        else:
            self._answer.set_exception(error)


def loss_of(error: Exception) -> str:
    """Why a connection failed or ended; of TLS what its library says, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: certificate verify failed: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {(error.reason or reason_of(error)).lower().replace('_', ' ')}"
    return reason_of(error)
