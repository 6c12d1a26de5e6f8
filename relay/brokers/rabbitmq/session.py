"""One connection to RabbitMQ and what is unconfirmed on it; used by the RabbitMQ publisher only.

The channel counts the messages that it is given, and the server confirms them by that number, one by one or all up to
one. ``_pending`` alone says what is unconfirmed: the code that removes an entry resolves its event, so an event is
resolved at most once. A message that no queue takes is returned first and confirmed then; ``_returned`` holds the
reasons in between.

A message that the server refuses costs the channel, with what is unconfirmed on it. The events that the server's text
is about (``relay.brokers.rabbitmq.errors``) fail; the others are written again on a new channel, in order. What had
been stored without a confirm then arrives twice. Where the text does not tell, the session ends as a connection that
was cut, and the engine finds the event by offering them in ever smaller groups.

A server that lacks memory or disk says that it is blocked, and reads nothing more. Then offers wait, and the time of
what is unconfirmed begins when it goes on.

A session ends once and is not used again. ``end`` aborts the connection, since an orderly close would first send what
is still buffered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile

from relay.brokers.entries import Entry, resolve
from relay.brokers.rabbitmq.connection import RabbitConnection, ServerClosed
from relay.brokers.rabbitmq.errors import NACK, blame, too_large
from relay.brokers.rabbitmq.frames import message_frames
from relay.brokers.rabbitmq.options import RabbitOptions, RabbitTarget
from relay.core.errors import BrokerUnreachable
from relay.core.event import OutboxEvent
from relay.core.formats.message import FormattedMessage
from relay.core.outcome import (
    ACKNOWLEDGED,
    ConnectionCut,
    Outcome,
    OutcomeSink,
    Permanent,
    TimedOut,
    Transient,
    Unreachable,
)

logger = logging.getLogger(__name__)

_SLICE = 100  # messages offered before other work of the event loop gets its turn (about 1 ms)
_SLICE_BYTES = 1 << 18  # bytes written at once, and one message beyond
_MOST_UNSENT = 1 << 21  # bytes that wait for the socket
_ROOM_POLL = 0.005  # seconds between two looks for room
_SWEEP = 0.05  # seconds between two looks for missing confirms, at least
_LATE = 0.2  # seconds that a look may be late because other work of the event loop was in its way


class RabbitSession:
    """A connection in use; ``connect`` makes one."""

    def __init__(self, options: RabbitOptions, connection: RabbitConnection) -> None:
        """``connection`` is logged in and belongs to the session from here on."""
        self.ended_as: Unreachable | ConnectionCut | None = None
        """None until ``end``; then the outcome of every event that was still unconfirmed."""
        self._options = options
        self._connection = connection
        connection.owner = self
        self._pending: dict[int, tuple[Entry, float, int]] = {}
        """Entry, deadline, and with which byte of the connection the event ends, by delivery tag."""
        self._returned: dict[str, str] = {}
        """Why a message was returned, by its id; its confirm follows."""
        self._tag = 0
        self._max_size: int | None = None
        """Bytes of payload that the server takes; None until it has said so."""
        self._blocked = False
        self._reopening: asyncio.Task[None] | None = None
        """Set while there is no channel."""
        self._again: list[Entry] = []
        """What is written again once there is one."""
        self._answered: list[tuple[Entry, Outcome]] = []
        self._room = asyncio.Event()
        self._enough = 0
        """How many events an offer waits to have room for."""
        self._loop = asyncio.get_running_loop()
        self._sweeper: asyncio.TimerHandle | None = None
        self._sweep_due = 0.0
        """On the event loop's clock, in seconds."""

    @classmethod
    async def connect(cls, options: RabbitOptions, target: RabbitTarget) -> RabbitSession:
        """Connect and open the channel. Raises BrokerUnreachable with the reason."""
        timeout = options.connection_timeout
        session = cls(options, await RabbitConnection.connect(target, timeout))
        try:
            async with asyncio.timeout(timeout):
                await session._connection.open_channel()
        except (ServerClosed, TimeoutError) as error:
            session.end("the channel cannot be opened")
            reason = str(error) or f"no channel was opened within {timeout:g} s"
            raise BrokerUnreachable(f"{target}: {reason}") from None
        except asyncio.CancelledError:
            session.end("the connection attempt was cancelled")
            raise
        return session

    async def offer(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> Sequence[OutboxEvent]:
        """Publish every event, in order; waits while too many are unconfirmed or the server is blocked.

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
            at += self._write([(event, sink) for event in part])
            if at < len(events):
                await asyncio.sleep(0)
        return ()

    def end(self, reason: str) -> None:
        """Cut the connection; on return everything is resolved, what was unconfirmed as ``Unreachable(reason)``."""
        self._end(Unreachable(reason))

    # relay.brokers.rabbitmq.connection.Owner

    def on_confirmed(self, tag: int, *, multiple: bool, stored: bool) -> None:
        """Note the outcome of one event, or of all up to it."""
        outcome: Outcome = ACKNOWLEDGED if stored else NACK
        if not multiple:
            self._answer(tag, outcome)
            return
        for confirmed in list(takewhile(lambda noted: noted <= tag, self._pending)):
            self._answer(confirmed, outcome)

    def on_returned(self, message_id: str, reason: str) -> None:
        """Remember it for the confirm."""
        self._returned[message_id] = reason

    def on_blocked(self, reason: str | None) -> None:
        """Let offers wait, or go on."""
        self._blocked = reason is not None
        if reason is not None:
            logger.warning(
                "RabbitMQ takes no messages for now (%s); what is offered waits",
                reason,
                extra={"action": "rabbitmq_blocked"},
            )
            return
        logger.info("RabbitMQ takes messages again", extra={"action": "rabbitmq_unblocked"})
        deadline = self._loop.time() + self._options.publish_timeout
        self._pending = {tag: (entry, deadline, end) for tag, (entry, _, end) in self._pending.items()}
        self._room.set()

    def on_channel_closed(self, code: int, text: str) -> None:
        """Fail what the server's text is about, and write the rest again on a new channel."""
        found = blame(code, text, self._body_size)
        unconfirmed = [entry for entry, _, _ in self._pending.values()]
        if found is None or not any(found.refuses(event) for event, _ in unconfirmed):
            self._end(ConnectionCut(f"the server closed the channel: {text}"))
            return
        if found.max_size is not None:
            self._max_size = found.max_size
        self._pending, self._tag = {}, 0
        self._returned.clear()
        refused = [entry for entry in unconfirmed if found.refuses(entry[0])]
        self._again += [entry for entry in unconfirmed if not found.refuses(entry[0])]
        self._reopening = self._loop.create_task(self._reopen())
        resolve((entry, found.outcome) for entry in refused)

    def on_lost(self, reason: str) -> None:
        """End the session."""
        self._end(ConnectionCut(reason))

    async def _reopen(self) -> None:
        """Open a channel and write what was on the last one."""
        try:
            async with asyncio.timeout(self._options.connection_timeout):
                await self._connection.open_channel()
        except (ServerClosed, TimeoutError) as error:
            self._end(ConnectionCut(f"no new channel: {str(error) or 'no answer'}"))
        self._reopening = None
        while self._again:
            del self._again[: self._write(self._again)]
        self._room.set()

    async def _wait_for_room(self, wanted: int) -> None:
        """Wait until many of the ``wanted`` events can go, or the session ends.

        Room comes from confirms, from the socket as it takes what was published, and from the server when it is not
        blocked any more. Waiting for room for many saves a turn, and a write, for each of them.
        """
        while self.ended_as is None and not self._has_room(enough := min(wanted, self._options.max_pending // 4 or 1)):
            self._room.clear()
            self._enough = enough  # of several offers that wait, the last one decides; the others look again
            with suppress(TimeoutError):  # the socket takes bytes without a sign: look again
                await asyncio.wait_for(self._room.wait(), _ROOM_POLL)

    def _has_room(self, events: int) -> bool:
        if self._blocked or self._reopening is not None:
            return False
        return self._options.max_pending - len(self._pending) >= events and self._connection.unsent < _MOST_UNSENT

    def _write(self, entries: Sequence[Entry]) -> int:
        """Publish by one write, as many as ``_SLICE_BYTES`` lets through; returns how many it came to."""
        deadline = self._loop.time() + self._options.publish_timeout
        written, frame_max = self._connection.sending.written, self._connection.frame_max
        exchange, message_format = self._options.exchange, self._options.message_format
        parts: list[bytes] = []
        count = size = 0
        for entry in entries:
            count += 1
            event = entry[0]
            message = None if message_format is None else message_format(event)
            frames = self._too_large(message or event) or message_frames(event, exchange, frame_max, message)
            if isinstance(frames, Permanent):
                resolve([(entry, frames)])
                continue
            parts += frames
            size += sum(map(len, frames))
            self._tag += 1
            self._pending[self._tag] = (entry, deadline, written + size)
            if size >= _SLICE_BYTES:
                break
        if self._pending and self._sweeper is None:
            self._sweep_at(deadline)
        if parts:
            self._connection.write(b"".join(parts))
        return count

    def _body_size(self, event: OutboxEvent) -> int:
        message_format = self._options.message_format
        return len(event.payload if message_format is None else message_format(event).payload)

    def _too_large(self, message: OutboxEvent | FormattedMessage) -> Permanent | None:
        size = len(message.payload)
        return None if self._max_size is None or size <= self._max_size else too_large(size, self._max_size)

    def _answer(self, tag: int, outcome: Outcome) -> None:
        """Note an outcome; the sinks get all outcomes of one event-loop turn together."""
        if (waiting := self._pending.pop(tag, None)) is None:
            return
        if self._returned and (reason := self._returned.pop(waiting[0][0].event_id, None)) is not None:
            outcome = Transient("NO_ROUTE", reason)
        if not self._answered:
            self._loop.call_soon(self._report)
        self._answered.append((waiting[0], outcome))

    def _report(self) -> None:
        answered, self._answered = self._answered, []
        resolve(answered)
        if self._has_room(self._enough):
            self._room.set()

    def _sweep(self) -> None:
        """Time out overdue confirms; ``_pending`` is ordered by what is written first.

        The timeout begins again for an event whose bytes were on their way over a slow link when any left last, and
        stands still while the server is blocked. A process that was stopped reads first what has arrived meanwhile.
        """
        sending, timeout = self._connection.sending, self._options.publish_timeout
        now, due, self._sweeper = self._loop.time(), self._sweep_due, None
        sending.look(now)
        overdue = []
        for tag, (entry, noted, end) in self._pending.items():
            deadline = noted
            since = now if self._blocked else sending.seen_leaving(end)
            if noted <= now < since + timeout:
                deadline = since + timeout
                self._pending[tag] = (entry, deadline, end)
            if deadline > now or now - due > _LATE:
                self._sweep_at(max(deadline, now + _SWEEP))
                break
            overdue.append(tag)
        for tag in overdue:
            self._answer(tag, TimedOut("NO_CONFIRM", f"no confirm in {timeout:g} s"))

    def _sweep_at(self, due: float) -> None:
        self._sweep_due = due
        self._sweeper = self._loop.call_at(due, self._sweep)

    def _end(self, outcome: Unreachable | ConnectionCut) -> None:
        if self.ended_as is not None:
            return
        self.ended_as = outcome
        self._connection.cut()
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._report()
        lost, self._pending = [*self._again, *(entry for entry, _, _ in self._pending.values())], {}
        self._again = []
        resolve((entry, outcome) for entry in lost)
        self._room.set()
