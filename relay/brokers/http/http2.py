"""HTTP/2 over one connection, many requests at a time; h2 keeps the protocol, this module moves the bytes.

A connection that the server ends in good order (GOAWAY) takes no more requests: those that the server says it has not
looked at are sent again, the others get their answers. One on which an answer did not come in time takes no more
requests either, since the connection itself may be dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from h2.config import H2Configuration
from h2.connection import ConnectionInputs, ConnectionState, H2Connection, H2ConnectionStateMachine
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError

from relay.brokers.http.deadline import Deadline
from relay.brokers.http.errors import Answer, BadAnswer, Cut, NoAnswer
from relay.brokers.http.http1 import KEPT_BODY, MOST_BODY
from relay.brokers.http.wire import HttpRequest, Wire

MOST_STREAMS: Final = 32  # requests at a time, whatever more the server would take
_MOST_REQUESTS: Final = 1_000_000  # on one connection: the numbers of streams end at 2^31


class _Graceful(H2ConnectionStateMachine):
    """h2 ends a connection at GOAWAY, although the streams that the server has taken may end (RFC 9113, 6.8)."""

    def __init__(self) -> None:
        super().__init__()
        state = ConnectionState.CLIENT_OPEN
        self._transitions = {**self._transitions, (state, ConnectionInputs.RECV_GOAWAY): (None, state)}


class _Stream:
    """One request and what came of it."""

    def __init__(self, body: bytes, answer: asyncio.Future[Answer]) -> None:
        self.rest = memoryview(body)
        self.answer = answer
        self.deadline: Deadline | None = None
        self.status: int | None = None
        self.retry_after: str | None = None
        self.body = b""
        self.read = 0


class Http2Connection:
    """See the module's text; made by ``relay.brokers.http.wire``."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._loop = asyncio.get_running_loop()
        self._h2 = H2Connection(H2Configuration(client_side=True, header_encoding=None))
        self._h2.state_machine = _Graceful()
        self._h2.initiate_connection()
        self._streams: dict[int, _Stream] = {}
        self._used = False
        self._draining = False
        self.closed = False
        self.idle_since = self._loop.time()
        self.ready = self._loop.create_future()
        self._flush()

    @property
    def capacity(self) -> int:
        """As many as the server allows, and ``MOST_STREAMS`` at most."""
        return min(MOST_STREAMS, self._h2.remote_settings.max_concurrent_streams)

    @property
    def room(self) -> int:
        """What is left of ``capacity``."""
        return 0 if self.closed or self._draining else self.capacity - len(self._streams)

    async def post(self, request: HttpRequest, timeout: float) -> Answer:
        """Send it and wait. Raises Cut, NoAnswer, BadAnswer."""
        if self.closed:
            raise Cut("the server closed the connection", resend=True)
        stream = _Stream(request.body, self._loop.create_future())
        number = self._h2.get_next_available_stream_id()
        self._draining |= number > 2 * _MOST_REQUESTS
        pseudo = [
            (":method", "POST"),
            (":scheme", request.scheme),
            (":authority", request.authority),
            (":path", request.target),
        ]
        fields = [(name.lower(), value) for name, value in request.headers]
        headers = [*pseudo, *fields, ("content-length", str(len(request.body)))]
        try:
            self._h2.send_headers(number, headers, end_stream=not request.body)
        except ProtocolError:  # the table of headers may be half written
            self._draining = True
            raise
        self._streams[number] = stream
        self._send_bodies([number])
        stream.deadline = Deadline(self._wire, timeout, lambda: self._expire(number, timeout))
        try:
            return await stream.answer
        finally:
            stream.deadline.cancel()
            self._used = True
            self._drop(number)

    def abort(self) -> None:
        """Cut the connection: nothing that is buffered is sent."""
        self.closed = True
        self._wire.transport.abort()

    def on_data(self, data: bytes) -> None:
        """Take what the server has sent."""
        if self.closed:
            return
        try:
            events = self._h2.receive_data(data)
        except ProtocolError as error:
            self._fail(BadAnswer(f"the answer is not HTTP/2: {error}"))
            self.abort()
            return
        for event in events:
            self._take(event)
        self._flush()
        if self._draining and not self._streams:
            self.abort()

    def on_lost(self, reason: str) -> None:
        """What has no answer gets none."""
        self.closed = True
        self._fail(Cut(reason, resend=self._used))

    def _take(self, event: Event) -> None:
        match event:
            case ResponseReceived():
                self._on_head(event)
            case DataReceived():
                self._on_body(event)
            case StreamEnded():
                self._finish(event.stream_id)
            case StreamReset():
                self._on_reset(event)
            case ConnectionTerminated():
                self._on_goaway(event)
            case WindowUpdated() | RemoteSettingsChanged():
                if isinstance(event, RemoteSettingsChanged) and not self.ready.done():
                    self.ready.set_result(None)
                self._send_bodies(list(self._streams))
            case _:
                pass

    def _on_head(self, event: ResponseReceived) -> None:
        if (stream := self._streams.get(event.stream_id)) is not None:
            headers = dict(event.headers)  # bytes: what a server writes there is not always UTF-8
            retry_after = headers.get(b"retry-after")
            stream.status = int(headers[b":status"])
            stream.retry_after = None if retry_after is None else retry_after.decode("latin-1")

    def _on_body(self, event: DataReceived) -> None:
        self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        if (stream := self._streams.get(event.stream_id)) is not None:
            data = event.data or b""
            stream.read += len(data)
            stream.body += data[: KEPT_BODY - len(stream.body)]
            if stream.read > MOST_BODY:
                self._finish(event.stream_id)

    def _on_reset(self, event: StreamReset) -> None:
        if (stream := self._streams.get(event.stream_id)) is None or stream.answer.done():
            return
        if event.error_code == ErrorCodes.REFUSED_STREAM:  # not looked at, by the protocol
            stream.answer.set_exception(Cut("the server refused the stream", resend=True))
        else:
            stream.answer.set_exception(BadAnswer(f"the server reset the request (HTTP/2 error {event.error_code})"))

    def _on_goaway(self, event: ConnectionTerminated) -> None:
        self._draining = True
        last = event.last_stream_id or 0
        unseen = [stream for number, stream in self._streams.items() if number > last]
        self._fail(Cut("the server closes the connection", resend=True), unseen)

    def _send_bodies(self, numbers: Iterable[int]) -> None:
        """Send of each body what the windows let through. What waits for a window has time while others' bytes pass."""
        incomplete = [stream for stream in self._streams.values() if stream.rest]
        unsent = sum(len(stream.rest) for stream in incomplete)
        for number in numbers:
            stream = self._streams.get(number)
            while stream is not None and stream.rest and not stream.answer.done():
                try:
                    size = min(self._h2.local_flow_control_window(number), self._h2.max_outbound_frame_size)
                    if size <= 0:
                        break
                    part, stream.rest = stream.rest[:size], stream.rest[size:]
                    self._h2.send_data(number, bytes(part), end_stream=not stream.rest)
                except ProtocolError:  # the server has ended the stream: the event that says so follows
                    break
        self._flush()
        if sum(len(stream.rest) for stream in incomplete) < unsent:
            for stream in incomplete:
                if stream.deadline is not None:
                    stream.deadline.extend()

    def _expire(self, number: int, timeout: float) -> None:
        self._draining = True
        self._fail(NoAnswer(f"no answer within {timeout:g} s"), [self._streams[number]])

    def _finish(self, number: int) -> None:
        stream = self._streams.get(number)
        if stream is None or stream.answer.done():
            return
        if stream.status is None:
            stream.answer.set_exception(BadAnswer("the stream ended without an answer"))
        else:
            stream.answer.set_result(Answer(stream.status, stream.retry_after, stream.body))

    def _drop(self, number: int) -> None:
        """The request is over; if it was not sent or answered whole, the stream is reset."""
        self._streams.pop(number, None)
        self.idle_since = self._loop.time()
        if self.closed:
            return
        with suppress(ProtocolError):  # both sides have ended it
            self._h2.reset_stream(number, ErrorCodes.CANCEL)
        self._flush()
        if self._draining and not self._streams:
            self.abort()

    def _fail(self, error: Exception, streams: Iterable[_Stream] | None = None) -> None:
        for stream in list(self._streams.values()) if streams is None else streams:
            if not stream.answer.done():
                stream.answer.set_exception(error)

    def _flush(self) -> None:
        self._wire.write(self._h2.data_to_send())
