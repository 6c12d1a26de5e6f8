"""One connection to NATS and what is unanswered on it; used by the NATS publisher only.

Each message asks for its acknowledgement on a reply subject of its own below one prefix, and one subscription receives
them all. ``_pending`` alone says what is unanswered: the code that removes an entry resolves its event, so an event is
resolved at most once, and a late acknowledgement has no entry. Only an event without a stream waits once more, in
``_streamless``.

Events are offered in slices. A slice is one write to the socket, straight from ``_write``, and between two slices
other work of the event loop gets its turn. Runs of positive acknowledgements come straight from the bytes that are
received (``_on_acknowledgements``), all other answers through the library's subscription (``_on_answer``). Where the
library's version does not allow that (``NatsClient.direct``) each event is published by the library's own method.

Whether an event may be offered is decided before it is noted in ``_pending``; from then on until the write nothing
waits, so that an event is in ``_pending`` exactly if its bytes are with the socket. A connection that is cut cuts off
what is in ``_pending``, part of a slice or not, and nothing else.

A session ends once and is not used again. The library's own reconnecting is off: it would buffer messages and send
them after their events were released. ``end`` aborts the connection, since an orderly close would first send what is
still buffered.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
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
from relay.core.errors import BrokerUnreachable, reason_of
from relay.core.event import OutboxEvent
from relay.core.formats.message import FormattedMessage
from relay.core.outcome import (
    ACKNOWLEDGED,
    Acknowledged,
    ConnectionCut,
    Outcome,
    OutcomeSink,
    Permanent,
    TimedOut,
    Transient,
    Unreachable,
)

_SLICE = 100  # messages offered before other work of the event loop gets its turn (about 2 ms)
_SLICE_BYTES = 1 << 18  # bytes written at once, and one message beyond
_MOST_UNSENT = 1 << 21  # bytes that wait for the socket
_ROOM_POLL = 0.005  # seconds between two looks for room
_SWEEP = 0.05  # seconds between two looks for missing acknowledgements, at least
_STOPPING = 1.0  # seconds that a server takes from the end of JetStream to that of its connections, at most
_LATE = 0.2  # seconds that a look may be late because other work of the event loop was in its way
_CLOSE_WITHIN = 0.5  # seconds
_REFUSED = re.compile(r'permissions violation for publish(?P<reply> with reply of| to) "(?P<subject>.*)"')
_LONGEST_CHARACTER = 4  # bytes of UTF-8


class NatsSession:
    """A connection in use; ``connect`` makes one."""

    def __init__(self, options: NatsOptions) -> None:
        self.ended_as: Unreachable | ConnectionCut | None = None
        """None until ``end``; then the outcome of every event that was still unanswered."""
        self._options = options
        self._control_line = control_line(options)
        self._client = NatsClient()
        self._pending: dict[int, tuple[Entry, float, int]] = {}
        """Entry, deadline, and with which byte of the connection the event ends, by serial."""
        self._streamless: deque[tuple[Entry, float]] = deque()
        """Events whose subject has no stream, and when they fail for that; see ``_on_no_stream``."""
        self._serial = 0
        self._prefix = ""
        self._answered: list[tuple[Entry, Outcome]] = []
        self._room = asyncio.Event()
        self._enough = 0
        """How many events an offer waits to have room for."""
        self._loop = asyncio.get_running_loop()
        self._sweeper: asyncio.TimerHandle | None = None
        self._sweep_due = 0.0
        """On the event loop's clock, in seconds."""
        self._trouble = ""
        """The last error that the library reported."""

    @classmethod
    async def connect(cls, options: NatsOptions, arguments: dict[str, Any]) -> NatsSession:
        """Connect and subscribe. Raises BrokerUnreachable with the reason."""
        session = cls(options)
        try:
            async with asyncio.timeout(options.connection_timeout):
                await session._connect(arguments)
        except (OSError, NatsError, TimeoutError) as error:
            silence = f"no NATS server has answered within {options.connection_timeout:g} s"
            session._trouble = session._trouble or (silence if isinstance(error, TimeoutError) else reason_of(error))
        except asyncio.CancelledError:
            await session.end("the connection attempt was cancelled")
            raise
        else:
            if not session._trouble:
                return session
        reason = session._trouble  # read before ``end``, whose own report overwrites it
        await session.end(reason)
        raise BrokerUnreachable(f"{', '.join(arguments['servers'])}: {reason}")

    async def offer(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> Sequence[OutboxEvent]:
        """Publish every event, in order; waits while too many are unanswered.

        Returns those that it did not come to before the connection was cut.
        """
        at = 0
        while at < len(events):
            await self._wait_for_room(len(events) - at)
            if isinstance(self.ended_as, ConnectionCut):
                return events[at:]
            if self.ended_as is not None:
                sink([(lost, self.ended_as) for lost in events[at:]])
                return ()
            part = events[at : at + min(_SLICE, self._options.max_pending - len(self._pending))]
            at += self._write(part, sink) if self._client.direct else await self._publish(part, sink)
            if at < len(events):
                await asyncio.sleep(0)
        return ()

    async def ask(self, timeout: float) -> None:
        """A round trip to the server. Raises BrokerUnreachable."""
        try:
            async with asyncio.timeout(timeout):
                await self._client.flush(timeout)  # type: ignore[arg-type]  # any number of seconds will do
        except (OSError, NatsError, TimeoutError):
            self._end_if_lost()
            raise BrokerUnreachable(self._trouble or f"no answer within {timeout:g} s") from None

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

    async def _wait_for_room(self, wanted: int) -> None:
        """Wait until many of the ``wanted`` events can go, or the session ends.

        Room comes from answers, and from the socket as it takes what was published. Waiting for room for many saves a
        turn, and a write, for each of them.
        """
        self._end_if_lost()
        while self.ended_as is None and not self._has_room(enough := min(wanted, self._options.max_pending // 4 or 1)):
            self._room.clear()
            self._enough = enough  # of several offers that wait, the last one decides; the others look again
            with suppress(TimeoutError):  # the socket takes bytes without a sign: look again
                await asyncio.wait_for(self._room.wait(), _ROOM_POLL)
            self._end_if_lost()

    def _has_room(self, events: int) -> bool:
        return self._options.max_pending - len(self._pending) >= events and self._client.unsent < _MOST_UNSENT

    def _write(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> int:
        """Publish events by one write, as many as ``_SLICE_BYTES`` lets through; returns how many it came to."""
        deadline, message_format = self._loop.time() + self._options.publish_timeout, self._options.message_format
        parts: list[bytes] = []
        count = size = 0
        for event in events:
            count += 1
            message = None if message_format is None else message_format(event)
            payload = event.payload if message is None else message.payload
            command = self._command(event, message)
            if isinstance(command, Permanent):
                sink([(event, command)])
                continue
            parts += (command, payload, b"\r\n")
            size += len(command) + len(payload) + 2
            self._note(event, sink, deadline, size)
            if size >= _SLICE_BYTES:
                break
        self._client.send(b"".join(parts))
        return count

    async def _publish(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> int:
        """Publish by the library's own method, until its buffer is full; returns how many events it came to."""
        for count, event in enumerate(events):
            if self.ended_as is not None or self._client.unsent >= _MOST_UNSENT:
                return count
            message = None if self._options.message_format is None else self._options.message_format(event)
            if isinstance(command := self._command(event, message), Permanent):
                sink([(event, command)])
                continue
            payload = event.payload if message is None else message.payload
            serial = self._note(event, sink, self._loop.time() + self._options.publish_timeout)
            try:
                headers = message_headers(event, message)
                await self._client.publish(event.event_type, payload, f"{self._prefix}{serial}", headers)
            except (NatsError, OSError) as error:
                outcome = classify_exception(error)
                if isinstance(outcome, Unreachable):  # it may be what the connection was lost on
                    outcome = ConnectionCut(outcome.reason)
                self._answer(serial, outcome)
                self._end_if_lost()
        return len(events)

    def _note(self, event: OutboxEvent, sink: OutcomeSink, deadline: float, unwritten: int = 0) -> int:
        """Note an event as unanswered, the last of ``unwritten`` bytes that follow; returns its serial."""
        self._serial = serial = self._serial + 1
        self._pending[serial] = ((event, sink), deadline, self._client.sending.written + unwritten)
        if self._sweeper is None:
            self._sweep_at(deadline)
        return serial

    def _command(self, event: OutboxEvent, message: FormattedMessage | None = None) -> bytes | Permanent:
        """The publish command of the next serial up to the payload, or why the server would cut the connection on it.

        The server's control line is what stands between ``HPUB`` and the line's end: subject, reply subject and sizes.
        """
        if (refused := invalid_subject(event.event_type)) is not None:
            return refused
        block = header_block(event, message)
        header = len(block) if block.isascii() else len(block.encode())
        size = header + len(event.payload if message is None else message.payload)
        if size > self._client.max_payload:
            most = self._client.max_payload
            return Permanent("MAX_PAYLOAD", f"{size} bytes with headers, over the server's max_payload of {most}")
        line = f"{event.event_type} {self._prefix}{self._serial + 1} {header} {size}"
        most = self._control_line
        if _LONGEST_CHARACTER * len(line) > most and (length := len(line.encode())) > most:
            subject = len(event.event_type.encode())
            reason = f"a subject of {subject} bytes makes a control line of {length}, over the server's "
            return Permanent("MAX_CONTROL_LINE", f"{reason}max_control_line of {most}")
        return f"HPUB {line}\r\n{block}".encode()

    def _on_acknowledgements(self, run: Sequence[re.Match[bytes]]) -> None:
        """Acknowledgements that were positive and complete."""
        for match in run:
            outcome = ACKNOWLEDGED
            if self._options.receipts:
                stream = match["stream"].decode(errors="replace")  # an exception would end the library's reading
                receipt: dict[str, str | int] = {"stream": stream, "sequence": int(match["sequence"])}
                if match["duplicate"]:
                    receipt["duplicate"] = True
                outcome = Acknowledged(receipt)
            self._answer(int(match["serial"]), outcome)

    async def _on_answer(self, message: Msg) -> None:
        """One acknowledgement, positive or negative, that was not among the runs."""
        serial, data = int(message.subject[len(self._prefix) :]), message.data
        if not self._options.receipts and data.startswith(b'{"stream":') and b'"error":' not in data:
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
        self._end_if_lost()
        failed: list[Entry] = []
        while self._streamless and self._streamless[0][1] <= self._loop.time():
            failed.append(self._streamless.popleft()[0])
        resolve((entry, NO_STREAM) for entry in failed)
        if self._streamless:
            self._loop.call_at(self._streamless[0][1], self._fail_streamless)

    def _answer(self, serial: int, outcome: Outcome) -> None:
        """Note an outcome; the sinks get all outcomes of one event-loop turn together."""
        if (waiting := self._pending.pop(serial, None)) is not None:
            if not self._answered:
                self._loop.call_soon(self._report)
            self._answered.append((waiting[0], outcome))

    def _report(self) -> None:
        answered, self._answered = self._answered, []
        resolve(answered)
        if self._has_room(self._enough):
            self._room.set()

    def _sweep(self) -> None:
        """Time out overdue acknowledgements; ``_pending`` is ordered by what is written first.

        The timeout begins again for an event whose bytes were on their way over a slow link when any left last. A
        process that was stopped reads first what has arrived meanwhile.
        """
        self._end_if_lost()
        sending, timeout = self._client.sending, self._options.publish_timeout
        now, due, self._sweeper = self._loop.time(), self._sweep_due, None
        sending.look(now)
        overdue = []
        for serial, (entry, noted, end) in self._pending.items():
            deadline = noted
            if noted <= now and (later := sending.seen_leaving(end) + timeout) > now:
                deadline = later
                self._pending[serial] = (entry, deadline, end)
            if deadline > now or now - due > _LATE:
                self._sweep_at(max(deadline, now + _SWEEP))
                break
            overdue.append(serial)
        for serial in overdue:
            self._answer(serial, TimedOut("NO_ACK", f"no acknowledgement in {timeout:g} s"))

    def _sweep_at(self, due: float) -> None:
        self._sweep_due = due
        self._sweeper = self._loop.call_at(due, self._sweep)

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

    def _end_if_lost(self) -> None:
        """End when the connection is lost: the library may find out later, and some versions do not call back."""
        if self._client.is_lost:
            self._end(ConnectionCut("the connection was lost"))

    async def _on_lost(self) -> None:
        self._end(ConnectionCut(f"the connection was lost{': ' if self._trouble else ''}{self._trouble}"))

    def _end(self, outcome: Unreachable | ConnectionCut) -> None:
        if self.ended_as is not None:
            return
        self.ended_as = outcome
        self._client.cut()
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._report()
        lost, self._pending = self._pending, {}
        streamless, self._streamless = self._streamless, deque()
        entries = [entry for entry, _ in streamless] + [entry for entry, _, _ in lost.values()]
        resolve((entry, outcome) for entry in entries)
        self._room.set()


def _read_answer(data: bytes) -> Outcome:
    """Return the outcome that an acknowledgement stands for."""
    try:
        answer: dict[str, Any] = json.loads(data)
        if (error := answer.get("error")) is not None:
            return classify_reply(int(error.get("err_code", 0)), str(error.get("description", "")))
        receipt: dict[str, str | int] = {"stream": str(answer["stream"]), "sequence": int(answer["seq"])}
    except (ValueError, KeyError, AttributeError, TypeError):
        return Transient("BAD_ACK", f"the acknowledgement cannot be read: {data[:200]!r}")
    if answer.get("duplicate"):
        receipt["duplicate"] = True
    return Acknowledged(receipt)
