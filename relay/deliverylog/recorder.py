"""Writes settled attempts to the log in batches, and never delays a delivery.

``record`` only appends to a bounded queue. A thread with an event loop of its own builds the entries and writes them,
so neither a log that hangs nor the building of entries blocks the engine's loop. While the log refuses a batch, that
batch is retried; the queue fills up behind it, and attempts beyond its bounds are dropped and counted. After a drop
``refuses`` returns True until the writer has made room, so that the engine builds no attempts that would be dropped. A
crash loses at most the queue and one batch. Of the outbox's database only the record of replays is read, if it exists.

Call ``start`` once, ``record`` from any thread, ``close`` once: it writes for ``close_timeout`` and drops the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime

from relay.core.blame import MOST_ALIKE
from relay.core.durations import in_words
from relay.core.errors import OutboxError
from relay.core.event import EventId
from relay.core.optional_parts import ReplayRecord
from relay.core.outcome import Acknowledged
from relay.core.recorder import SettledAttempt
from relay.deliverylog.errors import DeliveryLogBusy, DeliveryLogError, DeliveryLogUnavailable
from relay.deliverylog.interface import DeliveryLog
from relay.deliverylog.log_options import RecorderOptions
from relay.deliverylog.mapping import log_entry
from relay.deliverylog.pace import Pace
from relay.deliverylog.records import LogEntry

_log = logging.getLogger("relay.deliverylog")

_PREPARE_EVERY = 3600.0  # seconds between two checks of the coming months' partitions
_SLOW = 5.0  # seconds after which an unfinished write counts as degraded
_LONGEST_PING = 2.0  # seconds
_LONGEST_MAINTENANCE = 60.0  # seconds for creating tables; connecting has a shorter timeout of its own
_MOST_PATIENCE = 4  # times write_timeout
_YIELD_EVERY = 100  # entries built before the loop may run other tasks
# Seconds for which this thread may hold the interpreter's lock while the engine's thread waits for it, which it does
# after each wait for the database or the broker. By default these are 0.005.
_SWITCH_INTERVAL = 0.0005


def _event_bytes(attempts: Sequence[SettledAttempt]) -> int:
    return sum([one.event.size for one in attempts])


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
        self._arrived = 0
        self._full = False
        self._lock = threading.Lock()
        self._wake: Callable[[], object] | None = None
        self._limit: asyncio.Timeout | None = None
        self._thread: threading.Thread | None = None
        self._closing: float | None = None
        self._trouble = ""
        self._writing_since: float | None = None
        self._write_timeout = options.write_timeout
        self.written = 0
        self.quarantined = 0
        """Attempts that the log could not store and has quarantined."""
        self.dropped = 0
        """Attempts that were not logged: the queue was full, or ``close`` ran out of time."""
        self.ready_until: datetime | None = None
        """Until when the log has tables for the coming months; None where it needs none, or while it is unknown."""

    def start(self) -> None:
        """Begin to write. The log may become available later."""
        sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_INTERVAL))
        self._thread = threading.Thread(target=self._run, name="delivery-log", daemon=True)
        self._thread.start()

    @property
    def wants_successes(self) -> bool:
        """Whether DELIVERY_LOG_RECORD is ``all``."""
        return not self._options.failed_only

    def refuses(self, count: int) -> bool:
        """Whether the queue is full; then ``count`` attempts count as dropped, and need not be built."""
        if not self._full and self._closing is None:
            return False
        with self._lock:
            self._arrived += count
            self.dropped += count
        return True

    def record(self, attempts: Sequence[SettledAttempt]) -> None:
        """Queue attempts; drops and counts those that exceed the queue's bounds."""
        if self._options.failed_only:
            attempts = [one for one in attempts if type(one.outcome) is not Acknowledged]
        with self._lock:
            self._arrived += len(attempts)
            taken = [] if self._closing is not None else self._fitting(attempts)
            dropped = len(attempts) - len(taken)
            self.dropped += dropped
            self._queue.extend(taken)
            self._queued_bytes += _event_bytes(taken)
            self._full = dropped > 0 and len(self._queue) > 0  # until the writer takes a batch
            due = self._writing_since is None and len(self._queue) >= self._options.batch_size
        if due and self._wake is not None:
            self._wake()

    def _fitting(self, attempts: Sequence[SettledAttempt]) -> Sequence[SettledAttempt]:
        """The first of these that fit into the queue, by number and by bytes."""
        count = max(self._options.queue_size - len(self._queue), 0)
        room = self._options.queue_bytes - self._queued_bytes
        taken = attempts[:count]
        if _event_bytes(taken) <= room:
            return taken
        sizes = itertools.accumulate(one.event.size for one in taken)
        return [one for one, until in zip(taken, sizes, strict=True) if until <= room]

    @property
    def trouble(self) -> str:
        """Why the log is degraded, and what to do; empty while it works."""
        since = self._writing_since
        if not self._trouble and since is not None and time.monotonic() - since > _SLOW:
            return f"a write to the delivery log has taken more than {in_words(_SLOW)}"
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
        except Exception:  # noqa: BLE001 - a thread has no caller; the error is logged and shown
            self._trouble = "the delivery log's writer failed; see the log for the error, and restart the relay"
            _log.exception("the delivery log's writer failed; deliveries continue without a log")

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
            # A task of its own: a drop waits for the readers of the month, and attempts must be written meanwhile.
            dropping = asyncio.create_task(self._drop_expired(store))
            try:
                await self._write_on(store, due)
            finally:
                dropping.cancel()
                await asyncio.wait([dropping], timeout=1)
        finally:
            with contextlib.suppress(TimeoutError, OutboxError):
                await asyncio.wait_for(store.close(), 1)
            if self._replays is not None:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._replays.close(), 1)

    async def _opened(self, due: asyncio.Event) -> DeliveryLog | None:
        """The store, with its tables; None when ``close`` came first."""
        while True:
            try:
                async with self._limited(_LONGEST_MAINTENANCE):
                    store = await self._open_store()
                    await self._with_tables(store)
            except (OutboxError, TimeoutError, OSError) as error:
                self._in_trouble(error)
            else:
                self._works("")
                return store
            if await self._pause(due, self._options.retry_interval):
                return None

    async def _with_tables(self, store: DeliveryLog) -> None:
        try:
            try:
                await store.ping()
            except (DeliveryLogUnavailable, DeliveryLogBusy):
                raise
            except DeliveryLogError:
                await store.migrate()
                _log.info("created the delivery log's tables")
        except BaseException:  # also a timeout: each retry opens a store, and none may be left open
            await store.close()
            raise

    async def _write_on(self, store: DeliveryLog, due: asyncio.Event) -> None:
        prepare_at = 0.0
        pace = Pace()
        while True:
            if time.monotonic() >= prepare_at:
                prepare_at = time.monotonic() + _PREPARE_EVERY
                await self._prepare(store)
            ended = await self._pause(due, self._options.flush_interval, enough=self._options.batch_size)
            while self._queue:
                batch, began = self._take(), time.monotonic()
                if not await self._write(store, batch, due):
                    self._drop(len(batch))
                    return
                rest = pace.rest(len(batch), time.monotonic() - began, self._arrived, self.dropped)
                ended = await self._pause(due, rest) or ended
                if not ended and len(self._queue) < self._options.batch_size:
                    break
            if ended and not self._queue:
                return

    async def _prepare(self, store: DeliveryLog) -> None:
        try:
            async with self._limited(_LONGEST_MAINTENANCE):
                await store.prepare_ahead()
        except (OutboxError, TimeoutError, OSError) as error:
            _log.warning(
                "cannot prepare the delivery log's coming months: %s; run relay-cli log maintain daily as its owner",
                error,
            )
        self.ready_until = store.ready_until

    async def _drop_expired(self, store: DeliveryLog) -> None:
        while True:
            try:
                for name in await store.drop_expired():
                    _log.info("dropped %s: older than DELIVERY_LOG_RETENTION_DAYS", name)
            except (OutboxError, OSError) as error:
                _log.warning(
                    "cannot drop what is older than DELIVERY_LOG_RETENTION_DAYS: %s; "
                    "run relay-cli log maintain daily as the log's owner",
                    error,
                )
            await asyncio.sleep(_PREPARE_EVERY)

    async def _write(self, store: DeliveryLog, batch: list[SettledAttempt], due: asyncio.Event) -> bool:
        """Write one batch, with as many attempts as it takes; False when ``close`` ran out of time first."""
        entries = await self._entries(batch)
        while True:
            last = self._closing is not None
            self._writing_since = time.monotonic()
            try:
                async with self._limited(self._write_timeout):
                    await store.insert_many(entries)
            except (OutboxError, TimeoutError, OSError) as error:
                self._in_trouble(error)
                refused = isinstance(error, DeliveryLogError) and error.refusal is not None
                if isinstance(error, TimeoutError) and not last and await self._answers(store):
                    self._write_timeout = min(self._write_timeout * 2, self._options.write_timeout * _MOST_PATIENCE)
            else:
                self._write_timeout = self._options.write_timeout
                self._works(store.last_quarantine)
                self.written += len(batch) - (store.quarantined - self.quarantined)
                self.quarantined = store.quarantined
                return True
            finally:
                self._writing_since = None
            if last:
                return False
            await self._pause(due, self._options.retry_interval)
            if refused:
                self._bring_controls(batch)
                entries = await self._entries(batch)

    def _bring_controls(self, batch: list[SettledAttempt]) -> None:
        """No attempt of this batch is written: the next ones in the queue come first now, and show what is to blame.

        As many of the batch as it has no room for go to the end of the queue.
        """
        with self._lock:
            fresh = [self._queue.popleft() for _ in range(min(MOST_ALIKE, len(self._queue)))]
            back = batch[: max(len(batch) + len(fresh) - self._options.batch_size, 0)]
            self._queue.extend(back)
            self._queued_bytes += _event_bytes(back) - _event_bytes(fresh)
        batch[:] = fresh + batch[len(back) :]

    async def _answers(self, store: DeliveryLog) -> bool:
        """Whether the database answers: then the overdue write was slow, and the network is well."""
        try:
            async with self._limited(min(_LONGEST_PING, self._options.write_timeout)):
                await store.ping()
        except (OutboxError, TimeoutError, OSError):
            return False
        return True

    async def _entries(self, batch: list[SettledAttempt]) -> list[LogEntry]:
        first_replays = await self._first_replays(batch)
        entries = []
        for number, settled in enumerate(batch):
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
    async def _limited(self, seconds: float | None = None) -> AsyncIterator[None]:
        """At most ``seconds``, by default ``write_timeout``, and after ``close`` no longer than that waits."""
        async with asyncio.timeout(self._time_left(seconds or self._options.write_timeout)) as self._limit:
            yield

    def _hasten(self) -> None:
        """``close`` was called: the running statement must end in time too."""
        at = asyncio.get_running_loop().time() + self._time_left(self._options.write_timeout)
        if self._limit is not None and not self._limit.expired():
            with contextlib.suppress(RuntimeError):  # the statement has just ended
                self._limit.reschedule(min(self._limit.when() or at, at))

    def _take(self) -> list[SettledAttempt]:
        with self._lock:
            batch = [self._queue.popleft() for _ in range(min(self._options.batch_size, len(self._queue)))]
            self._queued_bytes -= _event_bytes(batch)
            self._full = False
        return batch

    def _time_left(self, most: float) -> float:
        return most if self._closing is None else max(min(most, self._closing - time.monotonic()), 0)

    async def _pause(self, due: asyncio.Event, seconds: float, enough: int | None = None) -> bool:
        """Wait until the time is over, ``enough`` attempts are queued, or ``close`` was called; return the last."""
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
        setting, advice = getattr(error, "setting", ""), getattr(error, "advice", "")
        action = f"; check {setting}{advice and f': {advice}'}" if setting else ""
        if reason + action != self._trouble:
            more = "; ".join(text for text in (getattr(error, "reason", ""), advice) if text)
            _log.warning(
                "nothing is recorded by DELIVERY_LOG_URL: %s%s; deliveries continue",
                reason,
                f": {more}" if more else "",
                extra={"action": "delivery_log_degraded"},
            )
        self._trouble = reason + action  # the reason of the server may name hosts: the log line alone has it

    def _works(self, quarantined: str) -> None:
        """The log takes entries; ``quarantined`` says why the newest are quarantined, empty where none is."""
        if self._trouble and not quarantined:
            _log.info("the delivery log records again", extra={"action": "delivery_log_back"})
        self._trouble = quarantined
