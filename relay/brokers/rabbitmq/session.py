"""One connection to RabbitMQ and what is unconfirmed on it; used by the RabbitMQ publisher only.

What it has in common with NATS' is in ``relay.brokers.pipelined``. The channel counts the messages that it is given,
and the server confirms them by that number, one by one or all up to one. A message that no queue takes is returned
first and confirmed then; ``_returned`` holds the reasons in between.

A message that the server refuses costs the channel, with what is unconfirmed on it. The events that the server's text
is about (``relay.brokers.rabbitmq.errors``) fail; the others are written again on a new channel, in order. What had
been stored without a confirm then arrives twice. Where the text does not tell, the session ends as a connection that
was cut, and the engine finds the event by offering them in ever smaller groups.

A server that lacks memory or disk says that it is blocked, and reads nothing more. Then offers wait, and the time of
what is unconfirmed begins when it goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from itertools import takewhile

from relay.brokers.entries import Entry, resolve
from relay.brokers.pipelined import SLICE_BYTES, PipelinedSession
from relay.brokers.rabbitmq.errors import NACK, blame, too_large
from relay.brokers.rabbitmq.frames import message_frames
from relay.brokers.rabbitmq.options import RabbitOptions, RabbitTarget
from relay.brokers.rabbitmq.wire import AmqpWire, ServerClosed
from relay.core.durations import in_words
from relay.core.errors import BrokerUnreachable
from relay.core.event import OutboxEvent
from relay.core.formats.message import FormattedMessage
from relay.core.outcome import (
    ACKNOWLEDGED,
    ConnectionCut,
    Outcome,
    Permanent,
    TimedOut,
    Transient,
    Unreachable,
)

logger = logging.getLogger(__name__)


class RabbitSession(PipelinedSession):
    """A connection in use; ``connect`` makes one."""

    _wire: AmqpWire

    def __init__(self, options: RabbitOptions, wire: AmqpWire) -> None:
        """``wire`` is logged in and belongs to the session from here on."""
        super().__init__(options, wire)
        self._options = options
        wire.owner = self
        self.blocked = ""
        """What the server says that it lacks; empty while it takes messages."""
        self._returned: dict[str, str] = {}
        """Why a message was returned, by its id; its confirm follows."""
        self._max_size: int | None = None
        """Bytes of payload that the server takes; None until it has said so."""
        self._reopening: asyncio.Task[None] | None = None
        """Set while there is no channel."""
        self._again: list[Entry] = []
        """What is written again once there is one."""

    @classmethod
    async def connect(cls, options: RabbitOptions, target: RabbitTarget) -> RabbitSession:
        """Connect and open the channel. Raises BrokerUnreachable with the reason."""
        timeout = options.connection_timeout
        session = cls(options, await AmqpWire.connect(target, timeout))
        try:
            async with asyncio.timeout(timeout):
                await session._wire.open_channel()
        except (ServerClosed, TimeoutError) as error:
            session.end("the channel cannot be opened")
            reason = str(error) or f"no channel was opened within {in_words(timeout)}"
            raise BrokerUnreachable(f"{target}: {reason}") from None
        except asyncio.CancelledError:
            session.end("the connection attempt was cancelled")
            raise
        return session

    def end(self, reason: str) -> None:
        """Cut the connection; on return everything is resolved, what was unconfirmed as ``Unreachable(reason)``."""
        self._end(Unreachable(reason))

    # relay.brokers.rabbitmq.wire.Owner

    def on_confirmed(self, tag: int, *, multiple: bool, stored: bool) -> None:
        """Note the outcome of one event, or of all up to it."""
        outcome: Outcome = ACKNOWLEDGED if stored else NACK
        for confirmed in list(takewhile(lambda noted: noted <= tag, self._pending)) if multiple else (tag,):
            self._answer(confirmed, self._no_route(confirmed) or outcome if self._returned else outcome)

    def on_returned(self, message_id: str, reason: str) -> None:
        """Remember it for the confirm."""
        self._returned[message_id] = reason

    def on_blocked(self, reason: str | None) -> None:
        """Let offers wait, or go on."""
        self._blocked = reason is not None
        self.blocked = reason or ""
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
        types = {event.event_type for event, _ in unconfirmed if found is not None and found.refuses(event)}
        if found is None or not types or (len(types) > 1 and not found.certain):
            self._end(ConnectionCut(f"the server closed the channel: {text}"))
            return
        if found.max_size is not None:
            self._max_size = found.max_size
        self._pending, self._number = {}, 0
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
                await self._wire.open_channel()
        except (ServerClosed, TimeoutError) as error:
            self._end(ConnectionCut(f"no new channel: {str(error) or 'no answer'}"))
        self._reopening = None
        while self._again:
            del self._again[: self._write(self._again)]
        self._room.set()

    def _has_room(self, events: int) -> bool:
        return self._reopening is None and super()._has_room(events)

    async def _send(self, entries: Sequence[Entry]) -> int:
        return self._write(entries)

    def _write(self, entries: Sequence[Entry]) -> int:
        """Publish by one write, as many as ``SLICE_BYTES`` lets through; returns how many it came to."""
        deadline = self._loop.time() + self._options.publish_timeout
        written, frame_max = self._wire.sending.written, self._wire.frame_max
        exchange, mandatory = self._options.exchange, self._options.mandatory
        message_format = self._options.message_format
        parts: list[bytes] = []
        count = size = 0
        for entry in entries:
            count += 1
            event = entry[0]
            message = None if message_format is None else message_format(event)
            frames = self._too_large(message or event) or message_frames(
                event, exchange, frame_max, message, mandatory=mandatory
            )
            if isinstance(frames, Permanent):
                resolve([(entry, frames)])
                continue
            parts += frames
            size += sum(map(len, frames))
            self._note(entry, deadline, written + size)
            if size >= SLICE_BYTES:
                break
        if parts:
            self._wire.write(b"".join(parts))
        return count

    def _body_size(self, event: OutboxEvent) -> int:
        message_format = self._options.message_format
        return len(event.payload if message_format is None else message_format(event).payload)

    def _too_large(self, message: OutboxEvent | FormattedMessage) -> Permanent | None:
        size = len(message.payload)
        return None if self._max_size is None or size <= self._max_size else too_large(size, self._max_size)

    def _silence(self, event: OutboxEvent) -> Outcome:
        if (reason := self._returned.pop(event.event_id, None)) is not None:
            return Transient("NO_ROUTE", reason)
        return TimedOut("NO_CONFIRM", f"no confirm in {in_words(self._options.publish_timeout)}")

    def _no_route(self, tag: int) -> Outcome | None:
        """The outcome of a message that was returned; None for any other."""
        waiting = self._pending.get(tag)
        reason = None if waiting is None else self._returned.pop(waiting[0][0].event_id, None)
        return None if reason is None else Transient("NO_ROUTE", reason)

    def _take_unanswered(self) -> list[Entry]:
        again, self._again = self._again, []
        return again
