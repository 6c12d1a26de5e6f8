"""One connection to Redis and what is unanswered on it; used by the Redis publisher only.

Commands are written as they come and replies are read by a task of their own; Redis answers in order, so the
oldest unanswered event is the one a reply belongs to. For the same reason a connection on which a reply did not
come in time is never used again: a late reply would be matched with another event.

A session ends once and is not used again. Its connection is aborted, since an orderly close would first send what is
still buffered.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from hiredis import pack_command
from redis.asyncio import Connection, ConnectionPool
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from relay.brokers.entries import Entry, resolve
from relay.brokers.redis.errors import REPLIES, classify, classify_loss
from relay.brokers.redis.headers import entry_fields
from relay.core.event import OutboxEvent
from relay.core.outcome import ACKNOWLEDGED, Acknowledged, ConnectionCut, Outcome, OutcomeSink, Permanent

_SLICE = 200  # commands written at once, before other work of the event loop gets its turn (about 2 ms)
_SLICE_BYTES = 1 << 20


class RedisSession:
    """A connection in use; ``connect`` makes one."""

    def __init__(
        self, connection: Connection, *, silence: float, max_pending: int, max_bulk: int, receipts: bool
    ) -> None:
        self.ended_as: Outcome | None = None
        """None until ``end``; then the outcome of every event that was still unanswered."""
        self._connection = connection
        # Kept from the start: redis-py drops its reference when it gives a connection up, and what the writer still
        # buffers could reach the server later.
        self._writer: asyncio.StreamWriter | None = getattr(connection, "_writer", None)
        self._silence = silence
        self._max_pending = max_pending
        self._max_bulk = max_bulk
        self._receipts = receipts
        self._pending: deque[Entry] = deque()
        self._answered: list[tuple[Entry, Outcome]] = []
        self._work = asyncio.Event()
        self._room = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._reader = self._loop.create_task(self._read())
        self._last_reply_at = 0.0
        """When the last reply came, or the first one became due; seconds on the event loop's clock."""
        self._watcher: asyncio.TimerHandle | None = None
        """Set while replies are due. One timer for all: a timeout per reply would cost more than the reply."""

    @classmethod
    async def connect(cls, pool: ConnectionPool, **limits: Any) -> RedisSession:  # noqa: ANN401  # as the constructor's
        """Connect and log in. Raises RedisError or OSError."""
        connection = pool.make_connection()  # type: ignore[no-untyped-call]
        try:
            await connection.connect()
        except BaseException:  # cancellation too: no half-open connection may be left behind
            with suppress(RedisError, OSError):
                await connection.disconnect(nowait=True)
            raise
        return cls(connection, **limits)

    async def offer(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> Sequence[OutboxEvent]:
        """Write every event, in order; waits while too many are unanswered or the connection is full.

        Returns those that it did not come to before the connection was cut.
        """
        at = 0
        while at < len(events):
            while len(self._pending) >= self._max_pending and self.ended_as is None:
                self._room.clear()
                await self._room.wait()
            if isinstance(self.ended_as, ConnectionCut):
                return events[at:]
            if self.ended_as is not None:
                sink([(event, self.ended_as) for event in events[at:]])
                return ()
            at = await self._write_slice(events, at, sink)
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
        resolve((entry, outcome) for entry in lost)
        self._work.set()  # the reading task may wait for events; it sees ``ended_as`` and returns

    async def gone(self) -> None:
        """Wait until the reading task of an ended session is over."""
        if self._reader is not asyncio.current_task():
            await asyncio.wait({self._reader})

    async def _write_slice(self, events: Sequence[OutboxEvent], start: int, sink: OutcomeSink) -> int:
        """Write some events from ``start`` on; the index of the first that is left."""
        commands: list[bytes] = []
        if not self._pending:
            self._last_reply_at = self._loop.time()
        at, size = start, 0
        stop = min(start + _SLICE, start + self._max_pending - len(self._pending), len(events))
        while at < stop and size < _SLICE_BYTES:
            event = events[at]
            at += 1
            if len(event.payload) > self._max_bulk:
                reason = f"{len(event.payload)} bytes of payload, over Redis' {self._max_bulk} for one string"
                sink([(event, Permanent("TOO_LARGE", reason))])
                continue
            commands.append(pack_command(xadd(event)))  # type: ignore[arg-type]  # its stub has tuples of one
            size += len(event.payload)
            self._pending.append((event, sink))
        if commands:
            self._work.set()
            if self._watcher is None:
                self._watcher = self._loop.call_later(self._silence, self._watch)
            await self._write(commands)
        await asyncio.sleep(0)
        return at

    def _watch(self) -> None:
        """End the session when replies are due and none has come for too long."""
        self._watcher = None
        if self.ended_as is not None or not self._pending:
            return
        left = self._last_reply_at + self._silence - self._loop.time()
        if left > 0:
            self._watcher = self._loop.call_later(left, self._watch)
        else:
            self.end(classify(RedisTimeoutError(f"no reply within {self._silence:g} s")))

    async def _write(self, commands: list[bytes]) -> None:
        try:
            await self._connection.send_packed_command(commands, check_health=False)
        except (RedisError, OSError) as error:
            self.end(classify_loss(error))

    async def _read(self) -> None:
        """Read replies until the session ends; the body of the reading task."""
        try:
            while self.ended_as is None:
                if self._pending:
                    self._answer(await self._next_outcome())
                else:
                    self._work.clear()
                    await self._work.wait()
        except (RedisError, OSError) as error:
            self.end(classify_loss(error))
        finally:
            with suppress(RedisError, OSError):
                await self._connection.disconnect(nowait=True)

    async def _next_outcome(self) -> Outcome:
        """What the next reply says. Raises RedisError or OSError when none comes."""
        try:
            entry_id = await self._connection.read_response()
        except REPLIES as error:
            return classify(error)
        return Acknowledged({"entry_id": _text(entry_id)}) if self._receipts else ACKNOWLEDGED

    def _answer(self, outcome: Outcome) -> None:
        """Give the oldest unanswered event its outcome; the sinks get all outcomes of one event-loop turn together."""
        if not self._answered:
            self._loop.call_soon(self._report)
        self._answered.append((self._pending.popleft(), outcome))

    def _report(self) -> None:
        self._last_reply_at = self._loop.time()
        answered, self._answered = self._answered, []
        resolve(answered)
        self._room.set()


def xadd(event: OutboxEvent) -> tuple[str | bytes, ...]:
    """The command that appends an event to its stream (CONTRACT section 3)."""
    return ("XADD", event.event_type, "*", *entry_fields(event))


async def ping(pool: ConnectionPool) -> None:
    """Log in on a connection of its own and send PING. Raises RedisError or OSError."""
    connection = pool.make_connection()  # type: ignore[no-untyped-call]
    try:
        await connection.connect()
        await connection.send_command("PING")
        await connection.read_response()
    finally:
        with suppress(RedisError, OSError):
            await connection.disconnect(nowait=True)


def _text(entry_id: bytes | str) -> str:
    return entry_id.decode() if isinstance(entry_id, bytes) else entry_id
