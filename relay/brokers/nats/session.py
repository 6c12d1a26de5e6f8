"""One connection to NATS and what is unanswered on it; used by the NATS publisher only.

What it has in common with RabbitMQ's is in ``relay.brokers.pipelined``. Each message asks for its acknowledgement on a
reply subject of its own below one prefix, and one subscription receives them all. Its number there is drawn at random:
every client that may publish can answer, but it would have to guess 64 bits. An event without a stream waits once
more, in ``_streamless``.

A slice of events goes straight to the socket (``_write``). Runs of positive acknowledgements come straight from the
bytes that are received (``_on_acknowledgements``), all other answers through the library's subscription
(``_on_answer``). Where the library's version does not allow that (``NatsClient.direct``) each event is published by the
library's own method.

The library's own reconnecting is off: it would buffer messages and send them after their events were released.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import struct
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from relay.brokers.entries import Entry, resolve
from relay.brokers.nats.client import NatsClient
from relay.brokers.nats.errors import (
    NO_STREAM,
    PERMISSIONS_CODE,
    classify_exception,
    classify_reply,
    invalid_subject,
)
from relay.brokers.nats.headers import header_block, message_headers
from relay.brokers.nats.options import NatsOptions, control_line
from relay.brokers.pipelined import MOST_UNSENT, SLICE_BYTES, PipelinedSession
from relay.brokers.tls import handshake_refused
from relay.core.durations import in_words
from relay.core.errors import BrokerRefused, BrokerUnreachable, reason_of
from relay.core.event import OutboxEvent
from relay.core.formats.message import FormattedMessage
from relay.core.outcome import (
    ACKNOWLEDGED,
    Acknowledged,
    ConnectionCut,
    Outcome,
    Permanent,
    TimedOut,
    Transient,
    Unreachable,
)
from relay.core.remembered import remembered

_STOPPING = 1.0  # seconds that a server takes from the end of JetStream to that of its connections, at most
_CLOSE_WITHIN = 0.5  # seconds
_NO_LOGIN = re.compile("(?i)authorization violation|(user )?authentication (expired|revoked)|nkeys? not supported")
_REFUSED = re.compile(r'permissions violation for publish(?P<reply> with reply of| to) "(?P<subject>.*)"')
_NUMBER = re.compile("[0-9]{1,20}")
_DUPLICATE = Acknowledged(duplicate=True)
_LONGEST_CHARACTER = 4  # bytes of UTF-8
_NUMBERS = struct.Struct("<512Q")  # drawn at once: a system call for each message would cost as much as its command


class NatsSession(PipelinedSession):
    """A connection in use; ``connect`` makes one."""

    def __init__(self, options: NatsOptions) -> None:
        self._client = NatsClient()
        super().__init__(options, self._client)
        self._options = options
        self._control_line = control_line(options)
        self._streamless: deque[tuple[Entry, float]] = deque()
        """Events whose subject has no stream, and when they fail for that; see ``_on_no_stream``."""
        self._refused_subject = remembered(partial(invalid_subject, allowed=options.allowed_types))
        self._drawn: list[int] = []
        self._prefix = ""
        self._trouble = ""
        """The last error that the library reported."""
        self._refused = False
        """Whether the TLS handshake was refused."""

    @classmethod
    async def connect(cls, options: NatsOptions, arguments: dict[str, Any]) -> NatsSession:
        """Connect and subscribe. Raises BrokerUnreachable with the reason."""
        session = cls(options)
        try:
            async with asyncio.timeout(options.connection_timeout):
                await session._connect(arguments)
        except (OSError, NatsError, TimeoutError) as error:
            session._refused = handshake_refused(error)
            silence = f"no NATS server has answered within {in_words(options.connection_timeout)}"
            session._trouble = session._trouble or (silence if isinstance(error, TimeoutError) else reason_of(error))
        except asyncio.CancelledError:
            await session.end("the connection attempt was cancelled")
            raise
        else:
            if not session._trouble:
                return session
        reason = session._trouble  # read before ``end``, whose own report overwrites it
        await session.end(reason)
        kind = BrokerRefused if session._refused or _NO_LOGIN.search(reason) else BrokerUnreachable
        raise kind(f"{', '.join(arguments['servers'])}: {reason}")

    async def ask(self, timeout: float) -> None:
        """A round trip to the server. Raises BrokerUnreachable."""
        try:
            async with asyncio.timeout(timeout):
                await self._client.flush(timeout)  # type: ignore[arg-type]  # any number of seconds will do
        except (OSError, NatsError, TimeoutError):
            self._notice_loss()
            raise BrokerUnreachable(self._trouble or f"no answer within {in_words(timeout)}") from None

    async def end(self, reason: str) -> None:
        """Cut the connection; on return everything is resolved, what was unanswered as ``Unreachable(reason)``."""
        self._end(Unreachable(reason))
        with suppress(Exception):  # the connection is aborted already: an error of the orderly close says nothing new
            await asyncio.wait_for(self._client.close(), _CLOSE_WITHIN)

    async def _connect(self, arguments: dict[str, Any]) -> None:
        await self._client.connect(
            **arguments,
            error_cb=self._on_error,
            closed_cb=self._on_lost,
            disconnected_cb=self._on_lost,
            allow_reconnect=False,
            # Above it the library waits for the socket: also when the connection is lost, and when it is cancelled.
            pending_size=sys.maxsize,
            max_reconnect_attempts=1,
            reconnect_time_wait=0.05,  # type: ignore[arg-type]  # seconds between the tries of several servers
            ping_interval=10,
        )
        self._trouble = ""
        self._prefix = self._client.new_inbox() + "."
        self._client.take_acknowledgements(self._prefix, self._on_acknowledgements)
        await self._client.subscribe(self._prefix + "*", cb=self._on_answer)
        # The library's PING overtakes the SUB that waits in its buffer. When the first PONG arrives the SUB has been
        # sent; when the second one arrives the server has reported whether the subscription is allowed.
        for _ in range(2):
            await self._client.flush(self._options.connection_timeout)  # type: ignore[arg-type]

    async def _send(self, entries: Sequence[Entry]) -> int:
        return self._write(entries) if self._client.direct else await self._publish(entries)

    def _write(self, entries: Sequence[Entry]) -> int:
        """Publish by one write, as many as ``SLICE_BYTES`` lets through; returns how many it came to."""
        deadline, message_format = self._loop.time() + self._options.publish_timeout, self._options.message_format
        written = self._client.sending.written
        parts: list[bytes] = []
        count = size = 0
        for entry in entries:
            count += 1
            event = entry[0]
            message = None if message_format is None else message_format(event)
            payload = event.payload if message is None else message.payload
            command = self._command(event, message)
            if isinstance(command, Permanent):
                resolve([(entry, command)])
                continue
            parts += (command, payload, b"\r\n")
            size += len(command) + len(payload) + 2
            self._note(entry, deadline, written + size)
            if size >= SLICE_BYTES:
                break
        self._client.send(b"".join(parts))
        return count

    async def _publish(self, entries: Sequence[Entry]) -> int:
        """Publish by the library's own method, until its buffer is full; returns how many events it came to."""
        for count, entry in enumerate(entries):
            if self.ended_as is not None or self._client.unsent >= MOST_UNSENT:
                return count
            event = entry[0]
            message = None if self._options.message_format is None else self._options.message_format(event)
            if isinstance(command := self._command(event, message), Permanent):
                resolve([(entry, command)])
                continue
            payload = event.payload if message is None else message.payload
            serial = self._note(entry, self._loop.time() + self._options.publish_timeout, 0)
            try:
                headers = message_headers(event, message)
                await self._client.publish(event.event_type, payload, f"{self._prefix}{serial}", headers)
            except (NatsError, OSError) as error:
                outcome = classify_exception(error)
                if isinstance(outcome, Unreachable):  # it may be what the connection was lost on
                    outcome = ConnectionCut(outcome.reason)
                self._answer(serial, outcome)
                self._notice_loss()
        return len(entries)

    def _command(self, event: OutboxEvent, message: FormattedMessage | None = None) -> bytes | Permanent:
        """The publish command of the next message up to the payload, or why the server would cut the connection on it.

        The server's control line is what stands between ``HPUB`` and the line's end: subject, reply subject and sizes.
        """
        if (refused := self._refused_subject(event.event_type)) is not None:
            return refused
        block = header_block(event, message)
        header = len(block) if block.isascii() else len(block.encode())
        size = header + len(event.payload if message is None else message.payload)
        if size > self._client.max_payload:
            most = self._client.max_payload
            return Permanent("MAX_PAYLOAD", f"{size} bytes with headers, over the server's max_payload of {most}")
        line = f"{event.event_type} {self._prefix}{self._draw()} {header} {size}"
        most = self._control_line
        if _LONGEST_CHARACTER * len(line) > most and (length := len(line.encode())) > most:
            subject = len(event.event_type.encode())
            reason = f"a subject of {subject} bytes makes a control line of {length}, over the server's "
            return Permanent("MAX_CONTROL_LINE", f"{reason}max_control_line of {most}")
        return f"HPUB {line}\r\n{block}".encode()

    def _draw(self) -> int:
        """The number of the next message."""
        if not self._drawn:
            self._drawn += _NUMBERS.unpack(os.urandom(_NUMBERS.size))
        number = self._drawn.pop()
        self._number = number - 1  # ``_note`` counts on from there
        return number

    def _on_acknowledgements(self, run: Sequence[re.Match[bytes]]) -> None:
        """Acknowledgements that were positive and complete."""
        for match in run:
            outcome = _DUPLICATE if match["duplicate"] else ACKNOWLEDGED
            if self._options.receipts:
                stream = match["stream"].decode(errors="replace")  # an exception would end the library's reading
                receipt: dict[str, str | int] = {"stream": stream, "sequence": int(match["sequence"])}
                if match["duplicate"]:
                    receipt["duplicate"] = True
                outcome = Acknowledged(receipt, outcome.duplicate)
            self._answer(int(match["serial"]), outcome)

    async def _on_answer(self, message: Msg) -> None:
        """One acknowledgement, positive or negative, that was not among the runs."""
        token, data = message.subject[len(self._prefix) :], message.data
        if not _NUMBER.fullmatch(token):  # of another client
            return
        serial = int(token)
        plain = data.startswith(b'{"stream":') and b'"error":' not in data and b'"duplicate":' not in data
        if plain and not self._options.receipts:
            self._answer(serial, ACKNOWLEDGED)
        elif message.headers and message.headers.get("Status") == "503":
            self._on_no_stream(serial)
        else:
            self._answer(serial, _read_answer(data))

    def _on_no_stream(self, serial: int) -> None:
        """Wait a moment before an event fails for want of a stream.

        A server that stops ends JetStream first and its connections afterwards; meanwhile no subject has a stream. An
        event of that moment is cut off with the connection, and uses no attempt.
        """
        if (waiting := self._pending.pop(serial, None)) is not None:
            if not self._streamless:
                self._loop.call_later(_STOPPING, self._fail_streamless)
            self._streamless.append((waiting[0], self._loop.time() + _STOPPING))

    def _fail_streamless(self) -> None:
        self._notice_loss()
        failed: list[Entry] = []
        while self._streamless and self._streamless[0][1] <= self._loop.time():
            failed.append(self._streamless.popleft()[0])
        resolve((entry, NO_STREAM) for entry in failed)
        if self._streamless:
            self._loop.call_at(self._streamless[0][1], self._fail_streamless)

    def _silence(self, event: OutboxEvent) -> Outcome:  # noqa: ARG002  # the same for each
        return TimedOut("NO_ACK", f"no acknowledgement in {in_words(self._options.publish_timeout)}")

    async def _on_error(self, error: Exception) -> None:
        """Take an error that the library reports; a forbidden publish is reported nowhere else."""
        text = reason_of(error)
        refused = _REFUSED.search(text)
        if refused is None:
            self._trouble = text
            return
        subject, outcome = refused["subject"], Transient(PERMISSIONS_CODE, text)
        for serial, ((event, _), _, _) in list(self._pending.items()):  # the library reports the subject in lower case
            mine = f"{self._prefix}{serial}" if refused["reply"] == " with reply of" else event.event_type
            if mine.lower() == subject:
                self._answer(serial, outcome)

    def _notice_loss(self) -> None:
        """The library may find out later, and some versions do not call back."""
        if self._client.is_lost:
            self._end(ConnectionCut("the connection was lost"))

    async def _on_lost(self) -> None:
        self._end(ConnectionCut(f"the connection was lost{': ' if self._trouble else ''}{self._trouble}"))

    def _take_unanswered(self) -> list[Entry]:
        streamless, self._streamless = self._streamless, deque()
        return [entry for entry, _ in streamless]


def _read_answer(data: bytes) -> Outcome:
    """Return the outcome that an acknowledgement stands for."""
    try:
        answer: dict[str, Any] = json.loads(data)
        if (error := answer.get("error")) is not None:
            return classify_reply(int(error.get("err_code", 0)), str(error.get("description", "")))
        receipt: dict[str, str | int] = {"stream": str(answer["stream"]), "sequence": int(answer["seq"])}
    except (ValueError, KeyError, AttributeError, TypeError):
        return Transient("BAD_ACK", f"the acknowledgement cannot be read: {data[:200]!r}")
    if duplicate := answer.get("duplicate") is True:
        receipt["duplicate"] = True
    return Acknowledged(receipt, duplicate)
