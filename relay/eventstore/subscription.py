"""Durable subscriptions: batches of new events, for one instance of a name, or of a part of it, at a time.

Other instances try to claim the lease (``relay.eventstore.lease``) three times in its length, so a killed instance is
replaced within one and a third lease. An acknowledgement of an instance that has lost its lease changes nothing and
raises ``SubscriptionLost``, which rolls back the consumer's own work in the same transaction.

At least once: events that were not acknowledged are delivered again. Exactly once in effect, when the consumer
acknowledges on the connection of its own work.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal
from uuid import uuid4

import psycopg

from relay.core.backoff import RetryPolicy
from relay.core.checkpoint import START, Checkpoint
from relay.core.errors import ConfigError, PositionsWentBack, StorageBusy, StorageError, StorageUnavailable
from relay.eventstore.database import Connection, Database, translated
from relay.eventstore.errors import SubscriptionDeleted, SubscriptionLost
from relay.eventstore.groups import WHOLE, Part
from relay.eventstore.lease import SubscriptionClaim, SubscriptionLease
from relay.eventstore.meter import Meter
from relay.eventstore.model import StoredEvent, checked_position
from relay.eventstore.part import check_limit
from relay.eventstore.read import EventFilter, EventPage, Reader
from relay.eventstore.renewal import Renewals
from relay.eventstore.statements import EventStoreStatements
from relay.eventstore.wakeup import Wakeup, raise_if_cancelled

_log = logging.getLogger(__name__)

Start = Literal["beginning", "end"] | int
Undecodable = Literal["stop", "set aside"]

_ASKS_PER_LEASE: Final = 3
_SHORTEST_WAIT: Final = 0.002  # seconds; for events behind an open transaction, doubled up to the longest
_LONGEST_WAIT: Final = 0.1
_RECONNECT: Final = RetryPolicy(max_attempts=1, base_delay=0.1, max_delay=5.0, jitter=0.25)  # seconds; never gives up
_CHECKPOINT_WHEN_IDLE: Final = 5.0  # seconds between checkpoints while the filter passes no event


@dataclass(frozen=True, slots=True)
class SubscriptionOptions:
    """How a subscription reads. Times are seconds. Raises ConfigError or EventError for an invalid one."""

    batch_size: int
    """Maximum number of events in one batch."""
    event_filter: EventFilter
    start: Start
    """Where a new subscription begins: a position, after which the first event comes, or the beginning or end."""
    lease: float
    """How long an instance stays active after its last renewal."""
    poll_interval: float
    """Longest wait between two reads for new events."""
    meter: Meter
    undecodable: Undecodable
    part: Part

    def __post_init__(self) -> None:
        check_limit(self.batch_size)
        if self.lease <= 0 or self.poll_interval <= 0:
            raise ConfigError(
                f"lease and poll_interval: {self.lease!r} and {self.poll_interval!r}; both must be above 0 seconds"
            )
        if self.undecodable not in ("stop", "set aside"):
            raise ConfigError(f"undecodable: {self.undecodable!r}; choose 'stop' or 'set aside'")
        if self.start not in ("beginning", "end"):
            checked_position("start", self.start)


class SubscriptionBatch:
    """Events in the order of their positions. Iterate over it; requesting the next batch acknowledges this one."""

    def __init__(self, lease: SubscriptionLease, page: EventPage, read_from: int) -> None:
        self.events = page.events
        self.checkpoint = page.checkpoint
        """What acknowledging this batch stores; a consumer that keeps its own may pass it to ``read_all``."""
        self.position = page.checkpoint.position
        """Its position."""
        self._read_from = read_from
        self.set_aside = page.set_aside
        """Of the rows between them that cannot be decoded, which the subscription has passed over."""
        self._lease = lease
        self._holder = lease.holder
        self.acknowledged = False
        """Whether the consumer has acknowledged it in a transaction of its own, which may still roll back."""

    def __iter__(self) -> Iterator[StoredEvent]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    async def acknowledge(self, connection: Connection) -> None:
        """Store the checkpoint in the transaction that is open on ``connection``, with the consumer's own work.

        Commit before requesting the next batch: otherwise this one is delivered again. Raises
        ``SubscriptionLost`` when another instance has taken over, or when this batch was acknowledged already, and
        ``PositionsWentBack`` when the stored position is not the one from which the batch was read: roll back.
        """
        try:
            await self._lease.store(connection, self.checkpoint, self._read_from, self._holder)
        except psycopg.Error as error:
            raise translated(error, "acknowledge a batch") from error
        self.acknowledged = True


class Subscription:
    """One instance of a subscription. ``batches`` is what ``EventStore.subscribe`` returns."""

    def __init__(
        self,
        database: Database,
        statements: EventStoreStatements,
        reader: Reader,
        wakeup: Wakeup,
        renewals: Renewals,
        name: str,
        options: SubscriptionOptions,
    ) -> None:
        self._database = database
        self._statements = statements
        self._reader = reader
        self._wakeup = wakeup
        self._renewals = renewals
        self._name = name if options.part == WHOLE else f"{name} {options.part}"
        """For logs and measurements."""
        self._options = options
        self._lease = SubscriptionLease(database, statements, name, options.part, options.lease)
        self._blocked_since: float | None = None
        self._failures = 0
        """Failed attempts to read since the last page."""
        self._lease_lost = False
        self._slots_free = False
        """Other instances have left slots of this part, which it takes by claiming again."""
        self._outstanding: tuple[int, datetime] | None = None
        """The position before the batch that the consumer holds, and the time of its first event."""

    async def batches(self) -> AsyncGenerator[SubscriptionBatch, None]:
        """Batches as long as the consumer requests them; releases the lease when closed.

        A lost connection or a lost lease does not end it: it connects again, or waits to become active again. It ends
        with an error only for a reason that does not pass: ``SubscriptionDeleted``, ``UndecodableEvent``,
        ``PositionsWentBack``, a missing table or right (``SchemaError``), a statement that the database refuses
        (``StorageError``).
        """
        known = False
        with self._wakeup.subscribed() as woken:
            while True:
                failure: StorageError | None = None
                try:
                    if not known:  # once: a deleted subscription is not created again
                        await self._make_known()
                        known = True
                    claim = await self._become_active()
                    async with (
                        self._renewals.keeping(self._lease.renewal(), self._interval, self._lose(woken)),
                        self._watching(claim, woken),
                    ):
                        async for batch in self._active(claim, woken):
                            yield batch
                except SubscriptionLost:
                    _log.warning("subscription %s: another instance has taken over, or it was reset", self._name)
                    self._lease.holder = uuid4()
                except (StorageUnavailable, StorageBusy) as error:
                    failure = error  # the holder stays: its lease may still be valid
                finally:
                    self._outstanding = None
                    self._options.meter.active(self._name, is_active=False)
                    if failure is None:
                        with contextlib.suppress(StorageError):
                            await self._lease.release()
                if failure is not None:
                    await self._reconnect(failure)

    async def _reconnect(self, failure: StorageError) -> None:
        """Wait, longer after each failure in a row; connections that were lost are replaced when they are used."""
        self._failures += 1
        delay = _RECONNECT.delay(self._failures, random.random())
        _log.warning("subscription %s: %s; it connects again in %.1f s", self._name, failure, delay)
        await asyncio.sleep(delay)

    async def _active(self, claim: SubscriptionClaim, woken: asyncio.Event) -> AsyncIterator[SubscriptionBatch]:
        """Batches while the lease is held, and while no other slots are to be taken."""
        event_filter = replace(self._options.event_filter, slots=claim.slots)
        reached, stored = await self._checked(claim), claim.stored.position
        wait, stored_at, idle = _SHORTEST_WAIT, time.monotonic(), False
        while not self._slots_free:
            raise_if_cancelled()
            woken.clear()
            page = await self._page(reached, event_filter)
            self._failures = 0
            self._measure(page, reached.position)
            if page.events:
                if idle:  # nothing has checked the lease since the last batch: it may have been reset meanwhile
                    await self._lease.renew()
                    idle = False
                batch = SubscriptionBatch(self._lease, page, stored)
                self._outstanding = reached.position, page.events[0].log_date
                yield batch
                if await self._settle(batch, stored):
                    reached, stored = batch.checkpoint, batch.position
                self._outstanding = None
                wait, stored_at = _SHORTEST_WAIT, time.monotonic()
                continue
            reached, idle = page.checkpoint, True
            if self._lease_lost:
                raise self._lease.lost()
            if reached.position != stored and time.monotonic() - stored_at > _CHECKPOINT_WHEN_IDLE:
                await self._lease.acknowledge(reached, stored)
                stored, stored_at = reached.position, time.monotonic()
            if page.more:
                continue
            raise_if_cancelled()
            pause = wait if page.waiting else self._options.poll_interval
            wait = min(2 * wait, _LONGEST_WAIT) if page.waiting else _SHORTEST_WAIT
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):  # not wait_for(), which before 3.12 may swallow a cancellation
                    await woken.wait()

    async def _checked(self, claim: SubscriptionClaim) -> Checkpoint:
        """The claimed checkpoint, completed where it was stored as a position alone. Raises PositionsWentBack."""
        for other in claim.others:
            await self._reader.look(other)
        if claim.stored.tenant_id is None and claim.stored != START:
            return await self._reader.checkpoint(claim.stored.position)
        return claim.stored

    async def _page(self, after: Checkpoint, event_filter: EventFilter) -> EventPage:
        """The next page; says what it sets aside."""
        options = self._options
        set_aside = options.undecodable == "set aside"
        page = await self._reader.page(after, options.batch_size, event_filter, set_aside=set_aside)
        for error in page.set_aside:
            _log.error("subscription %s: set aside: %s", self._name, error)
        return page

    async def _settle(self, batch: SubscriptionBatch, read_from: int) -> bool:
        """Whether a batch that the consumer has processed is acknowledged, and not rolled back."""
        if not batch.acknowledged:
            await self._lease.acknowledge(batch.checkpoint, read_from)
        elif (position := await self._lease.position()) != batch.position:
            if position != read_from:
                raise PositionsWentBack(batch.position, position)
            return False
        self._options.meter.delivered(self._name, len(batch))
        return True

    async def _make_known(self) -> None:
        if await self._lease.exists():
            return
        match self._options.start:
            case "beginning":
                start = START
            case "end":
                start = await self._reader.checkpoint((await self._reader.look()).settled)
            case position:
                start = await self._reader.checkpoint(position)
        await self._lease.ensure(start)

    async def _become_active(self) -> SubscriptionClaim:
        """Wait until this is an active instance. Raises SubscriptionDeleted."""
        while True:
            claim = await self._lease.claim()
            raise_if_cancelled()
            if claim is not None:
                self._lease_lost = self._slots_free = False
                self._options.meter.active(self._name, is_active=True)
                return claim
            await asyncio.sleep(self._interval)

    @property
    def _interval(self) -> float:
        """Seconds between two looks at the lease."""
        return self._options.lease / _ASKS_PER_LEASE

    def _lose(self, woken: asyncio.Event) -> Callable[[], None]:
        """What to call when the lease is lost: wakes a waiting subscription.

        A working consumer learns of it from its acknowledgement.
        """

        def lose() -> None:
            self._lease_lost = True
            woken.set()

        return lose

    @contextlib.asynccontextmanager
    async def _watching(self, claim: SubscriptionClaim, woken: asyncio.Event) -> AsyncIterator[None]:
        task = asyncio.create_task(self._watch(claim, woken), name=f"eventstore-lease-{self._name}")
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _watch(self, claim: SubscriptionClaim, woken: asyncio.Event) -> None:
        """While the consumer works: look for slots that have become free, which wake it too, and measure the lag."""
        while not self._lease_lost:
            raise_if_cancelled()
            await asyncio.sleep(self._interval)
            try:
                if not claim.complete and not self._slots_free and await self._lease.more():
                    self._slots_free = True
                    woken.set()
                if self._outstanding is not None:
                    await self._measure_outstanding(*self._outstanding)
            except SubscriptionDeleted:
                self._lose(woken)()
            except StorageError as error:
                _log.warning("subscription %s: cannot measure the lag: %s", self._name, error)

    async def _measure_outstanding(self, position: int, oldest: datetime) -> None:
        """The lag behind a batch that the consumer has not acknowledged."""
        now = await self._reader.look()
        age = (now.read_at - oldest).total_seconds()
        self._options.meter.lag(self._name, max(now.newest - position, 0), max(age, 0.0))

    def _measure(self, page: EventPage, position: int) -> None:
        meter, now = self._options.meter, time.monotonic()
        age = (page.read_at - page.events[0].log_date).total_seconds() if page.events else 0.0
        meter.lag(self._name, max(page.newest - position, 0), max(age, 0.0))
        if not page.waiting or page.events:
            self._blocked_since = None
        elif self._blocked_since is None:
            self._blocked_since = now
        meter.blocked(self._name, 0.0 if self._blocked_since is None else now - self._blocked_since)
