"""Writes settled attempts to the log in batches, and never makes a delivery wait for it.

``record`` only appends to a bounded queue. A thread with an event loop of its own makes entries and writes them, so
neither a log that hangs nor the making of entries holds up the engine's loop. While the log does not take a batch,
that batch is kept and tried again; the queue fills up behind it, and what does not fit is dropped and counted. Once
something had to be dropped ``refuses`` says so until the writer has made room, and the engine makes no attempts to be
thrown away. Lost on the way are at most the queue and one batch, at a crash; the outbox itself is never touched, but
that the record of its replays is read, if there is one.

Life: ``start`` once, ``record`` from any thread, ``close`` once: it flushes for ``close_timeout`` and drops the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from relay.core.errors import OutboxError
from relay.core.event import EventId
from relay.core.outcome import Acknowledged
from relay.core.ports import ReplayRecord, SettledAttempt
from relay.core.verdict import Release
from relay.deliverylog.errors import DeliveryLogBusy, DeliveryLogError, DeliveryLogUnavailable
from relay.deliverylog.mapping import Naming, log_entry
from relay.deliverylog.model import LogEntry
from relay.deliverylog.store import DeliveryLog

_log = logging.getLogger("relay.deliverylog")

_PREPARE_EVERY = 3600.0  # seconds between two looks at the partitions of the months to come
_SLOW = 5.0  # seconds after which a write that has not returned shows as degraded
_YIELD_EVERY = 100  # entries made between two looks at what else the loop has to do


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderOptions:
    """How attempts are collected and written. What a variable sets has no default here: ``relay.settings`` holds it."""

    batch_size: int
    """Maximum number of entries in one write."""
    flush_interval: float
    """Seconds that an attempt waits for its batch to fill."""
    failed_only: bool
    """Whether only failed attempts are recorded."""
    queue_size: int
    """Maximum number of queued attempts; further ones are dropped."""
    close_timeout: float
    """Seconds for which ``close`` continues to write."""
    naming: Naming
    queue_bytes: int = 64 * 2**20
    """Maximum payload bytes of the queued attempts."""
    write_timeout: float = 30.0
    """Seconds after which a write has failed and is retried."""
    retry_interval: float = 1.0
    """Seconds between two attempts to write."""


def _payload_bytes(attempts: Sequence[SettledAttempt]) -> int:
    return sum([len(one.event.payload) for one in attempts])


class Recorder:
    """An ``AttemptRecorder`` that writes to a delivery log.

    ``replays`` tells, in the writing thread, which attempts follow a replay; it is closed with the store.
    """

    def __init__(
        self,
        open_store: Callable[[], Awaitable[DeliveryLog]],
        options: RecorderOptions,
        replays: ReplayRecord | None = None,
    ) -> None:
        self._open_store = open_store
        self._replays = replays
        self._options = options
        self._queue: deque[SettledAttempt] = deque()
        self._queued_bytes = 0
        self._full = False
        self._lock = threading.Lock()
        self._wake: Callable[[], object] | None = None
        self._limit: asyncio.Timeout | None = None
        self._thread: threading.Thread | None = None
        self._closing: float | None = None
        self._trouble = ""
        self._writing_since: float | None = None
        self.written = 0
        """Attempts handed to the log and taken by it (quarantined ones included)."""
        self.dropped = 0
        """Attempts that were not logged: queue full, or left over at the end."""

    def start(self) -> None:
        """Begin writing. The log need not be there yet."""
        self._thread = threading.Thread(target=self._run, name="delivery-log", daemon=True)
        self._thread.start()

    @property
    def wants_successes(self) -> bool:
        """Whether DELIVERY_LOG_RECORD is ``all``."""
        return not self._options.failed_only

    def refuses(self, count: int) -> bool:
        """Whether there is no room; ``count`` attempts that nobody need make are then counted as dropped."""
        if not self._full and self._closing is None:
            return False
        self._drop(count)
        return True

    def record(self, attempts: Sequence[SettledAttempt]) -> None:
        """Take note of attempts; drops and counts what the queue has no room for."""
        if self._options.failed_only:
            attempts = [one for one in attempts if type(one.outcome) is not Acknowledged]
        with self._lock:
            taken = [] if self._closing is not None else self._fitting(attempts)
            dropped = len(attempts) - len(taken)
            self._queue.extend(taken)
            self._queued_bytes += _payload_bytes(taken)
            self._full = dropped > 0 and len(self._queue) > 0  # the writer makes room when it takes some
            due = self._writing_since is None and len(self._queue) >= self._options.batch_size
        if dropped:
            self._drop(dropped)
        if due and self._wake is not None:
            self._wake()

    def _fitting(self, attempts: Sequence[SettledAttempt]) -> Sequence[SettledAttempt]:
        """The first of these that the queue has room for, by number and by bytes."""
        count = max(self._options.queue_size - len(self._queue), 0)
        room = self._options.queue_bytes - self._queued_bytes
        taken = attempts[:count]
        if _payload_bytes(taken) <= room:
            return taken
        sizes = itertools.accumulate(len(one.event.payload) for one in taken)
        return [one for one, until in zip(taken, sizes, strict=True) if until <= room]

    @property
    def trouble(self) -> str:
        """Why the log is degraded, in a few words; empty while it is well."""
        since = self._writing_since
        if not self._trouble and since is not None and time.monotonic() - since > _SLOW:
            return "the delivery log takes long to write"
        return self._trouble

    async def close(self) -> None:
        """Write what is queued for at most ``close_timeout`` seconds, drop and count the rest; never raises."""
        self._closing = time.monotonic() + self._options.close_timeout
        if self._thread is not None:
            if self._wake is not None:
                self._wake()
            await asyncio.to_thread(self._thread.join, self._options.close_timeout + 1)
        with self._lock:
            left = len(self._queue)
            self._queue.clear()
        if left:
            self._drop(left)

    def _drop(self, count: int) -> None:
        with self._lock:
            self.dropped += count

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except Exception:  # noqa: BLE001 - a thread has nobody to raise to; it is logged and shows as trouble
            self._trouble = "the delivery log's writer died"
            _log.exception("the delivery log's writer died; deliveries go on without it")

    async def _main(self) -> None:
        loop, due = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(due.set)
                if self._closing is not None:
                    loop.call_soon_threadsafe(self._hasten)

        self._wake = wake
        store = await self._opened(due)
        if store is None:
            return
        try:
            await self._write_on(store, due)
        finally:
            with contextlib.suppress(TimeoutError, OutboxError):
                await asyncio.wait_for(store.close(), 1)
            if self._replays is not None:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._replays.close(), 1)

    async def _opened(self, due: asyncio.Event) -> DeliveryLog | None:
        """The store, with its tables; None if the end came first."""
        while True:
            try:
                async with self._limited():
                    store = await self._open_store()
                    await self._with_tables(store)
            except (OutboxError, TimeoutError, OSError) as error:
                self._in_trouble(error)
            else:
                return store
            if await self._pause(due, self._options.retry_interval):
                return None

    async def _with_tables(self, store: DeliveryLog) -> None:
        try:
            await store.ping()
        except (DeliveryLogUnavailable, DeliveryLogBusy):
            await store.close()
            raise
        except DeliveryLogError:
            await store.migrate()
            _log.info("the delivery log's tables were made")

    async def _write_on(self, store: DeliveryLog, due: asyncio.Event) -> None:
        prepare_at = 0.0
        while True:
            if time.monotonic() >= prepare_at:
                prepare_at = time.monotonic() + _PREPARE_EVERY
                await self._prepare(store)
            ended = await self._pause(due, self._options.flush_interval, enough=self._options.batch_size)
            while self._queue:
                batch = self._take()
                if not await self._write(store, batch, due):
                    self._drop(len(batch))
                    return
                if not ended and len(self._queue) < self._options.batch_size:
                    break
            if ended and not self._queue:
                return

    async def _prepare(self, store: DeliveryLog) -> None:
        try:
            async with self._limited():
                await store.prepare_ahead()
        except (OutboxError, TimeoutError, OSError) as error:
            _log.warning("the delivery log's coming months were not prepared: %s", error)

    async def _write(self, store: DeliveryLog, batch: list[SettledAttempt], due: asyncio.Event) -> bool:
        """Write one batch, however often it takes; False if the end came first."""
        entries = await self._entries(batch)
        while True:
            last = self._closing is not None
            self._writing_since = time.monotonic()
            try:
                async with self._limited():
                    await store.insert_many(entries)
            except (OutboxError, TimeoutError, OSError) as error:
                self._in_trouble(error)
            else:
                self._trouble = ""
                self.written += len(batch)
                return True
            finally:
                self._writing_since = None
            if last:
                return False
            await self._pause(due, self._options.retry_interval)

    async def _entries(self, batch: list[SettledAttempt]) -> list[LogEntry]:
        first_replays = await self._first_replays(batch)
        entries = []
        for number, settled in enumerate(batch):
            if not isinstance(settled.verdict, Release):
                entries.append(log_entry(settled, self._options.naming, first_replays))
            if number % _YIELD_EVERY == 0:
                await asyncio.sleep(0)
        return entries

    async def _first_replays(self, batch: list[SettledAttempt]) -> Mapping[EventId, datetime]:
        event_ids = {one.event.event_id for one in batch if one.event.attempts == 0}
        if self._replays is not None and event_ids:
            with contextlib.suppress(TimeoutError):
                async with self._limited():
                    return await self._replays.first_replays(list(event_ids))
        return {}

    @contextlib.asynccontextmanager
    async def _limited(self) -> AsyncIterator[None]:
        """At most ``write_timeout``, and once the end is asked for no longer than ``close`` waits."""
        async with asyncio.timeout(self._time_left(self._options.write_timeout)) as self._limit:
            yield

    def _hasten(self) -> None:
        """The end was asked for: what is going on now must end in time too."""
        at = asyncio.get_running_loop().time() + self._time_left(self._options.write_timeout)
        if self._limit is not None and not self._limit.expired():
            with contextlib.suppress(RuntimeError):  # it has just ended
                self._limit.reschedule(min(self._limit.when() or at, at))

    def _take(self) -> list[SettledAttempt]:
        with self._lock:
            batch = [self._queue.popleft() for _ in range(min(self._options.batch_size, len(self._queue)))]
            self._queued_bytes -= _payload_bytes(batch)
            self._full = False
        return batch

    def _time_left(self, most: float) -> float:
        return most if self._closing is None else max(min(most, self._closing - time.monotonic()), 0)

    async def _pause(self, due: asyncio.Event, seconds: float, enough: int | None = None) -> bool:
        """Wait, or until ``enough`` attempts are queued or the end is asked for; whether the end is."""
        end = time.monotonic() + seconds
        while self._closing is None and (enough is None or len(self._queue) < enough):
            due.clear()
            left = end - time.monotonic()
            if left <= 0:
                break
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(due.wait(), left)
        return self._closing is not None

    def _in_trouble(self, error: Exception) -> None:
        reason = str(error) or "the delivery log did not answer in time"
        if reason != self._trouble:
            _log.warning("the delivery log does not take attempts: %s; deliveries go on", reason)
        self._trouble = reason
