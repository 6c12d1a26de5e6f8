"""One connection to Redis and what is unanswered on it; used by the Redis publisher only.

Commands are written as they come and replies are read by a task of their own; Redis answers in order, so the
oldest unanswered event is the one a reply belongs to. For the same reason a connection on which a reply did not
come in time is never used again: a late reply would be matched with another event.

The timeout is for a silent server. Bytes that still leave this host are a sign of life, so a large payload on a slow
link does not time out. Time in which this process did not run, because it was stopped or had no CPU, does not count.

With REDIS_WAIT_REPLICAS a WAIT follows each slice of commands, and its events count as acknowledged with its answer.
Where too few replicas have them, the session ends: each WAIT behind it would take as long again. A session begins with
a single event, so that a trial while replicas are missing stores one event at most.

A session ends once and is not used again. Its connection is aborted, since an orderly close would first send what is
still buffered.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from functools import partial

from hiredis import pack_command
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import AskError, InvalidResponse, RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from relay.brokers.entries import Entry, resolve
from relay.brokers.redis.arrived import NOTHING, ArrivedReplies
from relay.brokers.redis.errors import REPLIES, classify, classify_loss
from relay.brokers.redis.headers import entry_fields
from relay.brokers.redis.options import RedisOptions
from relay.brokers.redis.servers import address_of, disconnect, text
from relay.brokers.sending import SendProgress
from relay.core.durations import in_words
from relay.core.event import OutboxEvent
from relay.core.formats.message import FormattedMessage
from relay.core.outcome import (
    ACKNOWLEDGED,
    Acknowledged,
    Away,
    ConnectionCut,
    Outcome,
    OutcomeSink,
    Permanent,
    Transient,
    Unreachable,
)
from relay.core.patterns import matches
from relay.core.remembered import remembered

_SLICE = 200  # commands written at once, before other work of the event loop gets its turn (about 2 ms)
_SLICE_BYTES = 1 << 20
_LARGE_PAYLOAD = 1 << 16  # bytes, from which on a command goes out in pieces
_LOOKS = 4  # in a write timeout: a silence is noticed a quarter of it late at most
_ASKING = pack_command(("ASKING",))
_TITLE = "destination redis"  # as the engine reports one that is blocked

Offer = tuple[OutboxEvent, OutcomeSink, int]
"""An event, the sink of its ``publish`` call, and how often the nodes of a cluster redirected it."""

Redirect = Callable[[Offer, AskError], None]
"""Takes an event that belongs to another node of the cluster; the session has forgotten it."""


class _Mark(Enum):
    """A command that carries no event."""

    ASKING = auto()
    WAIT = auto()


class RedisSession:
    """A connection in use. A reply that says that the server takes no writes ends it: another server may."""

    def __init__(self, connection: AbstractConnection, options: RedisOptions, redirect: Redirect) -> None:
        """``connection`` is logged in and belongs to the session from here on."""
        self.ended_as: Outcome | None = None
        """None until ``end``; then the outcome of every event that was still unanswered."""
        self.address = address_of(connection)
        self._connection = connection
        # Noted at the start: redis-py drops its reference when it gives a connection up, and what the writer still
        # buffers could reach the server later.
        self._writer: asyncio.StreamWriter | None = getattr(connection, "_writer", None)
        self._arrived = ArrivedReplies(connection)
        self._options = options
        self._trim = remembered(partial(trimming, options.maxlen, options.maxlen_streams or options.allowed_types))
        self._redirect = redirect
        self._pending: deque[Offer | _Mark] = deque()
        """What is unanswered, in the order of the commands."""
        self._stored: list[tuple[Entry, Outcome]] = []
        """Acknowledgements of the primary, of which no WAIT has said yet that enough replicas have their events."""
        self._answered: list[tuple[Entry, Outcome]] = []
        self._most_pending = 1 if options.wait_replicas else options.max_pending
        self._wait = wait(options) if options.wait_replicas else b""
        # The server may be silent for as long as a WAIT waits.
        self._most_looks = 2 * _LOOKS if options.wait_replicas else _LOOKS
        self._reporting = False
        """Whether a report is due in this turn of the event loop."""
        self._work = asyncio.Event()
        self._room = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._reader = self._loop.create_task(self._read())
        self._watcher: asyncio.TimerHandle | None = None
        """Set while replies are due. One timer for all: a timeout per reply would cost more than the reply."""
        self._silent_looks = 0
        """How many looks in a row saw no sign of life from the server."""
        self._sending = SendProgress(None if self._writer is None else self._writer.transport)

    async def offer(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> Sequence[OutboxEvent]:
        """Write every event, in order; waits while too many are unanswered or the connection is full.

        Returns those that it did not come to before the connection was cut.
        """
        return [event for event, _, _ in await self.follow([(event, sink, 0) for event in events])]

    async def follow(self, offers: Sequence[Offer], *, asking: bool = False) -> Sequence[Offer]:
        """Write events that another node may have redirected here; ``asking`` for a slot that is on its way here.

        Returns those that it did not come to before the connection was cut.
        """
        at = 0
        while at < len(offers):
            while len(self._pending) >= self._most_pending and self.ended_as is None:
                self._room.clear()
                await self._room.wait()
            if isinstance(self.ended_as, ConnectionCut):
                return offers[at:]
            if self.ended_as is not None:
                ended_as = self.ended_as
                resolve(((event, sink), ended_as) for event, sink, _ in offers[at:])
                return ()
            at = await self._write_slice(offers, at, asking)
        return ()

    def end(self, outcome: Outcome) -> None:
        """Cut the connection and resolve everything, what was unanswered as ``outcome``."""
        if self.ended_as is not None:
            return
        self.ended_as = outcome
        if self._writer is not None:
            self._writer.transport.abort()
        if self._watcher is not None:
            self._watcher.cancel()
        if self._reader is not asyncio.current_task():
            self._reader.cancel()
        self._report()
        lost, self._pending = self._pending, deque()
        stored, self._stored = self._stored, []
        resolve((entry, outcome) for entry, _ in stored)
        resolve(((offer[0], offer[1]), outcome) for offer in lost if not isinstance(offer, _Mark))
        self._work.set()  # the reading task may wait for events; it sees ``ended_as`` and returns

    async def gone(self) -> None:
        """Wait until the reading task of an ended session is over."""
        if self._reader is not asyncio.current_task():
            await asyncio.wait({self._reader})

    async def _write_slice(self, offers: Sequence[Offer], start: int, asking: bool) -> int:
        """Write some events from ``start`` on; the index of the first that is left."""
        commands: list[bytes] = []
        if not self._pending:
            self._silent_looks = 0
        at, size, max_bulk, message_format = start, 0, self._options.max_bulk, self._options.message_format
        stop = min(start + _SLICE, start + self._most_pending - len(self._pending), len(offers))
        while at < stop and size < _SLICE_BYTES:
            offer = event, sink, _ = offers[at]
            at += 1
            message = None if message_format is None else message_format(event)
            length = len(event.payload if message is None else message.payload)
            if length > max_bulk:
                reason = f"{length} bytes of payload, over Redis' {max_bulk} for one string"
                sink([(event, Permanent("TOO_LARGE", reason))])
                continue
            trim = self._trim(event.event_type)
            if asking:
                commands.append(_ASKING)
                self._pending.append(_Mark.ASKING)
            if length < _LARGE_PAYLOAD:
                commands.append(pack_command(xadd(event, message, trim)))  # type: ignore[arg-type]  # its stub has tuples of one
            else:
                commands.extend(pieces(event, message, trim))
            size += length
            self._pending.append(offer)
        if commands:
            await self._write_watched(commands)
        await asyncio.sleep(0)
        return at

    async def _write_watched(self, commands: list[bytes]) -> None:
        """Write commands that carry events, and look for their replies from now on."""
        if self._wait:
            commands.append(self._wait)
            self._pending.append(_Mark.WAIT)
        self._work.set()
        if self._watcher is None:
            self._watcher = self._loop.call_later(self._options.write_timeout / _LOOKS, self._watch)
        await self._write(commands)

    def _watch(self) -> None:
        """End the session when replies are due and the server has been silent for the timeout.

        Looks are counted, not seconds: a process that was stopped wakes up to one late look, and reads the replies that
        have arrived meanwhile before the next one.
        """
        self._watcher = None
        if self.ended_as is not None or not self._pending:
            return
        self._silent_looks = 0 if self._sending.advanced() else self._silent_looks + 1
        if self._silent_looks > self._most_looks:
            self.end(classify(RedisTimeoutError(f"no reply within {in_words(self._options.write_timeout)}")))
        else:
            self._watcher = self._loop.call_later(self._options.write_timeout / _LOOKS, self._watch)

    async def _write(self, commands: list[bytes]) -> None:
        self._sending.written += sum(map(len, commands))
        try:
            await self._connection.send_packed_command(commands, check_health=False)
        except (RedisError, OSError) as error:
            self.end(classify_loss(error))
        except RuntimeError as error:  # uvloop's, for a transport that is closed and whose reader does not know it yet
            self.end(ConnectionCut(f"CONNECTION: {error}"))

    async def _read(self) -> None:
        """Read replies until the session ends; the body of the reading task."""
        try:
            while self.ended_as is None:
                if self._pending:
                    self._answer(await self._next_reply())
                    await self._answer_arrived()
                else:
                    self._work.clear()
                    await self._work.wait()
        except (RedisError, OSError) as error:
            self.end(classify_loss(error))
        finally:
            await disconnect(self._connection)

    async def _answer_arrived(self) -> None:
        """Take the replies that have arrived together with the last one."""
        take = self._arrived.take
        while self._pending and (reply := take()) is not NOTHING:
            if isinstance(reply, list):
                await self._arrived.pass_on(reply)
            else:
                self._answer(self._outcome(reply))

    async def _next_reply(self) -> Outcome | AskError:
        """What the next reply says. Raises RedisError or OSError when none comes."""
        try:
            reply = await self._connection.read_response()
        except RedisError as error:
            reply = error
        return self._outcome(reply)

    def _outcome(self, reply: object) -> Outcome | AskError:
        """What a reply to the oldest command says. Raises an error that is no reply to it."""
        waits = self._pending[0] is _Mark.WAIT
        if isinstance(reply, bytes) and not waits:  # XADD's only reply that is no error
            return Acknowledged({"entry_id": text(reply)}) if self._options.receipts else ACKNOWLEDGED
        if isinstance(reply, int) and waits:
            return ACKNOWLEDGED if reply >= self._options.wait_replicas else too_few(reply, self._options)
        if isinstance(reply, AskError):  # MovedError is one, too
            return reply
        if isinstance(reply, REPLIES):
            return classify(reply)
        raise reply if isinstance(reply, Exception) else InvalidResponse(f"{type(reply).__name__}, no reply to it")

    def _answer(self, reply: Outcome | AskError) -> None:
        """Give the oldest unanswered event its outcome; the sinks get all outcomes of one event-loop turn together."""
        if isinstance(reply, Unreachable):
            self.end(reply)  # with the events behind it: this server takes none of them
            return
        offer = self._pending.popleft()
        if isinstance(offer, _Mark):
            if offer is _Mark.WAIT:
                self._answer_wait(reply)
            return
        if isinstance(reply, AskError):
            self._redirect(offer, reply)
        elif self._wait and isinstance(reply, Acknowledged):
            self._silent_looks = 0
            self._stored.append(((offer[0], offer[1]), reply))
            return
        else:
            self._answered.append(((offer[0], offer[1]), reply))
        if not self._reporting:
            self._report_soon()

    def _answer_wait(self, reply: Outcome | AskError) -> None:
        """Acknowledge what was stored before a WAIT, or end the session: too few replicas have it."""
        if not isinstance(reply, Acknowledged):
            why = f"{reply.code}: {reply.reason}" if isinstance(reply, Transient) else str(reply)
            self.end(reply if isinstance(reply, Away) else Away(f"WAIT of REDIS_WAIT_REPLICAS: {why}", _TITLE))
            return
        self._most_pending = self._options.max_pending
        self._answered += self._stored
        self._stored.clear()
        self._report_soon()

    def _report_soon(self) -> None:
        self._reporting = True
        self._loop.call_soon(self._report)

    def _report(self) -> None:
        self._silent_looks, self._reporting = 0, False
        answered, self._answered = self._answered, []
        resolve(answered)
        self._room.set()


def wait(options: RedisOptions) -> bytes:
    """The command that waits until enough replicas have everything before it on this connection."""
    command: bytes = pack_command(("WAIT", options.wait_replicas, max(1, int(options.write_timeout * 1000))))  # type: ignore[arg-type]  # its stub has tuples of one
    return command


def too_few(replicas: int, options: RedisOptions) -> Away:
    """What becomes of events that fewer replicas have than are asked for."""
    return Away(
        f"NOREPLICAS: {replicas} replicas have it, fewer than REDIS_WAIT_REPLICAS={options.wait_replicas}", _TITLE
    )


def trimming(maxlen: int | None, patterns: Sequence[str], stream: str) -> tuple[str, ...]:
    """What makes XADD remove the oldest entries. ``~``: only whole nodes of the stream, so none is rewritten."""
    if maxlen is None or not matches(stream, patterns):
        return ()
    return ("MAXLEN", "~", str(maxlen))


def xadd(
    event: OutboxEvent, message: FormattedMessage | None = None, trim: tuple[str, ...] = ()
) -> tuple[str | bytes, ...]:
    """The command that appends an event to its stream (docs/reference/messages.md), with ``trimming``'s arguments."""
    return ("XADD", event.event_type, *trim, "*", *entry_fields(event, message))


def pieces(event: OutboxEvent, message: FormattedMessage | None = None, trim: tuple[str, ...] = ()) -> Iterator[bytes]:
    """The same command, packed, in pieces: the payload is one of them, so that it is not copied.

    hiredis holds three copies of it for a moment, and returns one.
    """
    arguments = xadd(event, message, trim)
    yield b"*%d\r\n" % len(arguments)
    for argument in arguments:
        value = argument.encode() if isinstance(argument, str) else argument
        yield b"$%d\r\n" % len(value)
        yield value
        yield b"\r\n"
