"""One connection to NATS and what is unanswered on it; used by the NATS publisher only.

Each message asks for its acknowledgement on a reply subject of its own below one prefix, and one subscription receives
them all. ``_pending`` alone says what is unanswered: the code that removes an entry resolves its event, so an event is
resolved at most once, and a late acknowledgement has no entry.

A session ends once and is not used again. The library's own reconnecting is off: it would buffer messages and send
them after their events were released. ``end`` aborts the connection, since an orderly close would first send what is
still buffered.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
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
from relay.brokers.nats.headers import block_size, message_headers
from relay.brokers.nats.options import NatsOptions, control_line
from relay.core.errors import BrokerUnreachable, reason_of
from relay.core.event import OutboxEvent
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
_MOST_UNSENT = 1 << 21  # bytes that wait for the socket
_ROOM_POLL = 0.005  # seconds between two looks for room
_SWEEP = 0.05  # seconds between two looks for missing acknowledgements, at least
_CLOSE_WITHIN = 0.5  # seconds
_REFUSED = re.compile(r'permissions violation for publish(?P<reply> with reply of| to) "(?P<subject>.*)"')
_LONGEST_CHARACTER = 4  # bytes of UTF-8
_LONGEST_NUMBERS = 64  # bytes for the three numbers of a control line, and the blanks between them


class NatsSession:
    """A connection in use; ``connect`` makes one."""

    def __init__(self, options: NatsOptions) -> None:
        self.ended_as: Unreachable | ConnectionCut | None = None
        """None until ``end``; then the outcome of every event that was still unanswered."""
        self._options = options
        self._control_line = control_line(options)
        self._client = NatsClient()
        self._pending: dict[int, tuple[Entry, float]] = {}
        self._serial = 0
        self._prefix = ""
        self._answered: list[tuple[Entry, Outcome]] = []
        self._room = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._sweeper: asyncio.TimerHandle | None = None
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
        for at, event in enumerate(events):
            if at % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
            while self._is_full() and self.ended_as is None:
                self._room.clear()
                with suppress(TimeoutError):  # the socket takes bytes without a sign: look again
                    await asyncio.wait_for(self._room.wait(), _ROOM_POLL)
                self._end_if_closed()
            if isinstance(self.ended_as, ConnectionCut):
                return events[at:]
            if self.ended_as is not None:
                sink([(lost, self.ended_as) for lost in events[at:]])
                return ()
            headers = message_headers(event)
            refused = (
                invalid_subject(event.event_type) or self._too_large(event, headers) or self._too_long(event, headers)
            )
            if refused is None:
                await self._send(event, headers, sink)
            else:
                sink([(event, refused)])
        return ()

    async def ask(self, timeout: float) -> None:
        """A round trip to the server. Raises BrokerUnreachable."""
        try:
            async with asyncio.timeout(timeout):
                await self._client.flush(timeout)  # type: ignore[arg-type]  # any number of seconds will do
        except (OSError, NatsError, TimeoutError):
            self._end_if_closed()
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
        await self._client.subscribe(self._prefix + "*", cb=self._on_answer)
        # The library's PING overtakes the SUB that waits in its buffer. When the first PONG arrives the SUB has been
        # sent; when the second one arrives the server has reported whether the subscription is allowed.
        for _ in range(2):
            await self._client.flush(self._options.connection_timeout)  # type: ignore[arg-type]

    def _is_full(self) -> bool:
        """Whether to wait for answers, or for the socket to take what was published."""
        return len(self._pending) >= self._options.max_pending or self._client.pending_data_size >= _MOST_UNSENT

    async def _send(self, event: OutboxEvent, headers: dict[str, str], sink: OutcomeSink) -> None:
        self._serial = serial = self._serial + 1
        self._pending[serial] = ((event, sink), self._loop.time() + self._options.publish_timeout)
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(self._options.publish_timeout, self._sweep)
        try:
            await self._client.publish(event.event_type, event.payload, f"{self._prefix}{serial}", headers)
        except (NatsError, OSError) as error:
            outcome = classify_exception(error)
            if isinstance(outcome, Unreachable):  # it may be what the connection was lost on
                outcome = ConnectionCut(outcome.reason)
            self._answer(serial, outcome)
            self._end_if_closed()

    def _too_large(self, event: OutboxEvent, headers: dict[str, str]) -> Permanent | None:
        """The refusal of a message over the server's limit, on which the server would cut the connection."""
        limit, size = self._client.max_payload, len(event.payload)
        at_most = _LONGEST_CHARACTER * 3 * (len(event.headers) + len(event.partition_key or "") + 100)
        if size + at_most <= limit or (size := size + block_size(headers)) <= limit:
            return None
        return Permanent("MAX_PAYLOAD", f"{size} bytes with headers, over the server's max_payload of {limit}")

    def _too_long(self, event: OutboxEvent, headers: dict[str, str]) -> Permanent | None:
        """The refusal of a subject that does not fit into the server's control line; the server would cut.

        The limit is for what stands between ``HPUB`` (or ``PUB``) and the line's end: subject, reply subject and sizes.
        """
        limit, subject = self._control_line, event.event_type
        if _LONGEST_CHARACTER * len(subject) + len(self._prefix) + _LONGEST_NUMBERS <= limit:
            return None
        header = block_size(headers)
        sizes = f"{self._prefix}{self._serial + 1} {header} {header + len(event.payload)}"
        if (size := len(subject.encode()) + 1 + len(sizes)) <= limit:
            return None
        return Permanent(
            "MAX_CONTROL_LINE",
            f"a subject of {len(subject.encode())} bytes makes a control line of {size}, over the server's "
            f"max_control_line of {limit}",
        )

    async def _on_answer(self, message: Msg) -> None:
        """One acknowledgement, positive or negative."""
        serial, data = int(message.subject[len(self._prefix) :]), message.data
        if not self._options.receipts and data.startswith(b'{"stream":') and b'"error":' not in data:
            self._answer(serial, ACKNOWLEDGED)
        else:
            self._answer(serial, _read_answer(message))

    def _answer(self, serial: int, outcome: Outcome) -> None:
        """Note an outcome; the sinks get all outcomes of one event-loop turn together."""
        if (waiting := self._pending.pop(serial, None)) is not None:
            if not self._answered:
                self._loop.call_soon(self._report)
            self._answered.append((waiting[0], outcome))

    def _report(self) -> None:
        answered, self._answered = self._answered, []
        resolve(answered)
        self._room.set()

    def _sweep(self) -> None:
        """Time out overdue acknowledgements; ``_pending`` is ordered by deadline."""
        self._end_if_closed()
        now, self._sweeper = self._loop.time(), None
        overdue = []
        for serial, (_, deadline) in self._pending.items():
            if deadline > now:
                self._sweeper = self._loop.call_at(max(deadline, now + _SWEEP), self._sweep)
                break
            overdue.append(serial)
        for serial in overdue:
            self._answer(serial, TimedOut("NO_ACK", f"no acknowledgement in {self._options.publish_timeout:g} s"))

    async def _on_error(self, error: Exception) -> None:
        """Take an error that the library reports; a forbidden publish is reported nowhere else."""
        text = reason_of(error)
        refused = _REFUSED.search(text)
        if refused is None:
            self._trouble = text
            return
        subject, outcome = refused["subject"], Transient(PERMISSIONS_CODE, text)
        for serial, ((event, _), _) in list(self._pending.items()):  # the library reports the subject in lower case
            mine = f"{self._prefix}{serial}" if refused["reply"] == " with reply of" else event.event_type
            if mine.lower() == subject:
                self._answer(serial, outcome)

    def _end_if_closed(self) -> None:
        """End when the client is closed: some versions of the library do not call back for a lost connection."""
        if self._client.is_closed:
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
        resolve((entry, outcome) for entry, _ in lost.values())
        self._room.set()


def _read_answer(message: Msg) -> Outcome:
    """Return the outcome that an acknowledgement stands for."""
    if message.headers and message.headers.get("Status") == "503":
        return NO_STREAM
    try:
        answer: dict[str, Any] = json.loads(message.data)
        if (error := answer.get("error")) is not None:
            return classify_reply(int(error.get("err_code", 0)), str(error.get("description", "")))
        receipt: dict[str, str | int] = {"stream": str(answer["stream"]), "sequence": int(answer["seq"])}
    except (ValueError, KeyError, AttributeError, TypeError):
        return Transient("BAD_ACK", f"the acknowledgement cannot be read: {message.data[:200]!r}")
    if answer.get("duplicate"):
        receipt["duplicate"] = True
    return Acknowledged(receipt)
