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
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal
from uuid import uuid4

from relay.core.checkpoint import START, Checkpoint
from relay.core.errors import ConfigError, PositionsWentBack, StorageBusy, StorageError, StorageUnavailable
from relay.core.tasks import beside
from relay.eventstore.batch import BatchContent, SubscriptionBatch
from relay.eventstore.database import Database, wait_out
from relay.eventstore.errors import SubscriptionDeleted, SubscriptionLost
from relay.eventstore.groups import WHOLE, Part
from relay.eventstore.lease import LAZILY, SubscriptionClaim, SubscriptionLease
from relay.eventstore.meter import Meter
from relay.eventstore.model import LARGEST_POSITION, checked_position
from relay.eventstore.parking import HeldStream, Parking
from relay.eventstore.read import EventFilter, EventPage, Reader
from relay.eventstore.renewal import Renewals
from relay.eventstore.statements import EventStoreStatements
from relay.eventstore.store_part import check_limit
from relay.eventstore.wakeup import Wakeup, raise_if_cancelled

_log = logging.getLogger(__name__)

Start = Literal["beginning", "end"] | int
Undecodable = Literal["stop", "set aside"]

_ASKS_PER_LEASE: Final = 3
_SHORTEST_WAIT: Final = 0.002  # seconds; for events behind an open transaction, doubled up to the longest
_LONGEST_WAIT: Final = 0.1
_BLOCKED_LONG: Final = 5.0  # seconds behind an open append after which the log names it
_CHECKPOINT_WHEN_IDLE: Final = 5.0  # seconds between checkpoints while the filter passes no event


@dataclass(frozen=True, slots=True)
class SubscriptionOptions:
    """How a subscription reads. Times are seconds. Raises ConfigError or EventError for an invalid one."""

    batch_size: int
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


@dataclass(slots=True)
class SubscriptionProgress:
    """How far an active instance is."""

    reached: Checkpoint
    """What it has delivered or passed over."""
    stored: int
    """The position of the checkpoint in the store."""
    stored_at: float
    """When it was stored, by the clock of this process."""


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
        self._reader = reader
        self._wakeup = wakeup
        self._renewals = renewals
        self._name = name if options.part == WHOLE else f"{name} {options.part}"
        """For logs and measurements."""
        self._options = options
        self._lease = SubscriptionLease(database, statements, name, options.part, options.lease)
        self._parking = Parking(database, statements, name)
        self._blocked_since: float | None = None
        self._named_at: int | None = None
        """The horizon at which the log has named who keeps it there."""
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
                        beside(self._watch(claim, woken), f"eventstore-lease-{self._name}"),
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
                    self._failures += 1
                    await wait_out(failure, self._name, self._failures)

    async def _active(self, claim: SubscriptionClaim, woken: asyncio.Event) -> AsyncIterator[SubscriptionBatch]:
        """Batches while the lease is held, and while no other slots are to be taken."""
        event_filter = replace(self._options.event_filter, slots=claim.slots)
        progress = SubscriptionProgress(await self._checked(claim), claim.stored.position, time.monotonic())
        await self._parking.begin(claim.slots)
        wait, idle = _SHORTEST_WAIT, False
        while not self._slots_free:
            raise_if_cancelled()
            woken.clear()
            batch, page = await self._next(progress, event_filter)
            self._failures = 0
            if batch is not None:
                if idle:  # nothing has checked the lease since the last batch: it may have been reset meanwhile
                    await self._lease.renew()
                if batch.events:
                    self._outstanding = progress.reached.position, batch.events[0].log_date
                    yield batch
                await self._settle(batch, progress)
                self._outstanding = None
                wait, idle = _SHORTEST_WAIT, False
            if page is None:
                continue
            idle = True
            if time.monotonic() - progress.stored_at > _CHECKPOINT_WHEN_IDLE:
                await self._store_reached(progress)
            wait = await self._wait_for_more(page, wait, woken)

    async def _wait_for_more(self, page: EventPage, wait: float, woken: asyncio.Event) -> float:
        """Wait until there may be more to read; returns how long to wait the next time behind an open transaction."""
        if self._lease_lost:
            raise self._lease.lost()
        if page.more:
            return wait
        raise_if_cancelled()
        pause = wait if page.waiting else self._options.poll_interval
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):  # not wait_for(), which before 3.12 may swallow a cancellation
                await woken.wait()
        return min(2 * wait, _LONGEST_WAIT) if page.waiting else _SHORTEST_WAIT

    async def _next(
        self, progress: SubscriptionProgress, event_filter: EventFilter
    ) -> tuple[SubscriptionBatch | None, EventPage | None]:
        """What to deliver or to store next; without it, the page that had nothing."""
        if held := await self._parking.due(self._options.poll_interval):
            return await self._retried(held, progress), None
        replay_until = self._parking.replay_until
        page = await self._page(progress.reached, event_filter, replay_until or LARGEST_POSITION)
        self._measure(page, progress.reached.position)
        await self._name_who_blocks(page)
        if replay_until and not page.more and page.head >= replay_until:
            self._parking.replay_until = 0
            page = replace(page, more=True)
        events, faults = await self._parking.passed(page.events, page.set_aside)
        for error in faults:
            _log.error("subscription %s: set aside: %s", self._name, error)
        if not events and not faults:
            progress.reached = page.checkpoint
            return None, page
        is_replayed = replay_until > 0
        content = BatchContent(events, page.checkpoint, progress.stored, tuple(faults), is_replayed)
        return SubscriptionBatch(self._lease, self._parking, content), None

    async def _retried(self, held: HeldStream, progress: SubscriptionProgress) -> SubscriptionBatch:
        """The next events of a parked stream, up to the checkpoint, which no other batch moves meanwhile."""
        await self._store_reached(progress)
        types = self._options.event_filter.types
        events, faults = await self._parking.events(held, progress.stored, self._options.batch_size, types)
        content = BatchContent(events, progress.reached, progress.stored, faults, retried=held)
        return SubscriptionBatch(self._lease, self._parking, content)

    async def _store_reached(self, progress: SubscriptionProgress) -> None:
        """Store how far the pages without an event have come."""
        if progress.reached.position != progress.stored:
            await self._lease.acknowledge(progress.reached, progress.stored)
            progress.stored, progress.stored_at = progress.reached.position, time.monotonic()

    async def _checked(self, claim: SubscriptionClaim) -> Checkpoint:
        """The claimed checkpoint, completed where it was stored as a position alone. Raises PositionsWentBack."""
        for other in claim.others:
            await self._reader.look(other)
        if claim.stored.tenant_id is None and claim.stored != START:
            return await self._reader.checkpoint(claim.stored.position)
        return claim.stored

    async def _page(self, after: Checkpoint, event_filter: EventFilter, until: int) -> EventPage:
        """The next page; what cannot be decoded ends it, unless it is to be set aside, or behind what is."""
        is_set_aside = self._options.undecodable == "set aside"
        return await self._reader.page(
            after,
            self._options.batch_size,
            event_filter,
            passes=lambda error: is_set_aside or self._parking.holds(error),
            until=until,
        )

    async def _settle(self, batch: SubscriptionBatch, progress: SubscriptionProgress) -> None:
        """Acknowledge a batch that the consumer has processed, unless it has done so itself, or has rolled back."""
        if batch.is_lost:
            raise self._lease.lost()
        if not batch.acknowledged:
            await self._acknowledge(batch)
        elif not batch.retried and (position := await self._lease.position()) != batch.position:
            if position != batch.read_from:
                raise PositionsWentBack(batch.position, position)
            return
        if batch.changes_parking:
            await self._parking.load()
        if not batch.retried:
            progress.reached, progress.stored = batch.checkpoint, batch.position
        progress.stored_at = time.monotonic()
        self._options.meter.delivered(self._name, len(batch))

    async def _acknowledge(self, batch: SubscriptionBatch) -> None:
        run = self._database.transaction if batch.changes_parking else self._database.run
        await run(
            f"acknowledge subscription {self._name}",
            lambda connection: batch.store(connection, synchronous_commit=LAZILY),
        )

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

    async def _name_who_blocks(self, page: EventPage) -> None:
        """Once for each horizon, after some seconds."""
        since = self._blocked_since
        if since is None or self._named_at == page.head or time.monotonic() - since < _BLOCKED_LONG:
            return
        self._named_at = page.head
        with contextlib.suppress(StorageError):
            who = await self._reader.holders(page.head)
            waited = time.monotonic() - since
            _log.warning(
                "subscription %s: waits behind position %d for %.0f s, for an open append: %s; end that transaction",
                self._name,
                page.head,
                waited,
                who,
            )

    def _measure(self, page: EventPage, position: int) -> None:
        meter, now = self._options.meter, time.monotonic()
        age = (page.read_at - page.events[0].log_date).total_seconds() if page.events else 0.0
        meter.lag(self._name, max(page.newest - position, 0), max(age, 0.0))
        if not page.waiting or page.events:
            self._blocked_since = None
        elif self._blocked_since is None:
            self._blocked_since = now
        meter.blocked(self._name, 0.0 if self._blocked_since is None else now - self._blocked_since)
