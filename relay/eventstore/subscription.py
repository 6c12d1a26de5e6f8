"""Durable subscriptions: batches of new events, for one instance of a name at a time.

One row a name holds the checkpoint and the lease of the active instance. Others try to claim the lease three times in
its length, so a killed instance is replaced within one and a third lease. The lease is also the fence: an
acknowledgement of an instance that has lost it changes nothing and raises ``SubscriptionLost``, which rolls back the
consumer's own work in the same transaction.

At least once: events that were not acknowledged are delivered again. Exactly once in effect, when the consumer
acknowledges on the connection of its own work.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Final, Literal
from uuid import UUID, uuid4

import psycopg

from relay.core.errors import StorageError
from relay.eventstore.database import Connection, Database, Row, execute, translated
from relay.eventstore.errors import SubscriptionLost
from relay.eventstore.meter import Meter
from relay.eventstore.model import StoredEvent
from relay.eventstore.read import EventFilter, EventPage, Reader
from relay.eventstore.statements import EventStoreStatements
from relay.eventstore.wakeup import Wakeup, raise_if_cancelled

_log = logging.getLogger(__name__)

Start = Literal["beginning", "end"] | int
Undecodable = Literal["stop", "set aside"]

_ASKS_PER_LEASE: Final = 3
_SHORTEST_WAIT: Final = 0.002  # seconds; for events behind an open transaction, doubled up to the longest
_LONGEST_WAIT: Final = 0.1
_CHECKPOINT_WHEN_IDLE: Final = 5.0  # seconds between checkpoints while the filter passes no event


@dataclass(frozen=True, slots=True)
class SubscriptionOptions:
    """How a subscription reads. Times are seconds."""

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


class SubscriptionBatch:
    """Events in the order of their positions. Iterate over it; requesting the next batch acknowledges this one."""

    def __init__(self, subscription: Subscription, page: EventPage) -> None:
        self.events = page.events
        self.position = page.position
        """The checkpoint that acknowledging this batch stores."""
        self.set_aside = page.set_aside
        """Of the rows between them that cannot be decoded, which the subscription has passed over."""
        self._subscription = subscription
        self.acknowledged = False
        """Whether the consumer has acknowledged it in a transaction of its own, which may still roll back."""

    def __iter__(self) -> Iterator[StoredEvent]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    async def acknowledge(self, connection: Connection) -> None:
        """Store the checkpoint in the transaction that is open on ``connection``, with the consumer's own work.

        Commit before requesting the next batch: otherwise this one is delivered again. Raises
        ``SubscriptionLost`` when another instance has taken over: roll back.
        """
        try:
            await self._subscription.store(connection, self.position)
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
        name: str,
        options: SubscriptionOptions,
    ) -> None:
        self._database = database
        self._statements = statements
        self._reader = reader
        self._wakeup = wakeup
        self._name = name
        self._options = options
        self._holder: UUID = uuid4()
        self._blocked_since: float | None = None

    async def batches(self) -> AsyncGenerator[SubscriptionBatch, None]:
        """Batches as long as the consumer requests them; releases the lease when closed."""
        await self._make_known()
        with self._wakeup.subscribed() as woken:
            while True:
                position = await self._become_active()
                try:
                    async with self._renewing():
                        async for batch in self._active(position, woken):
                            yield batch
                except SubscriptionLost:
                    _log.warning("subscription %s: another instance has taken over, or it was reset", self._name)
                finally:
                    self._options.meter.active(self._name, is_active=False)
                    with contextlib.suppress(StorageError):
                        await self._run("release", {})
                self._holder = uuid4()

    async def store(self, connection: Connection, position: int) -> None:
        """Write the checkpoint on that connection; raises SubscriptionLost when this is not the active instance."""
        values = self._values({"position": position, "synchronous_commit": None})
        if not await execute(connection, self._statements.text("eventstore/subscriptions:acknowledge"), values):
            raise SubscriptionLost(self._lost)

    @property
    def _lost(self) -> str:
        return f"subscription {self._name}: this instance is no longer the active one; roll back"

    async def _active(self, position: int, woken: asyncio.Event) -> AsyncIterator[SubscriptionBatch]:
        """Batches while the lease is held."""
        wait, stored, stored_at = _SHORTEST_WAIT, position, time.monotonic()
        while True:
            raise_if_cancelled()
            woken.clear()
            page = await self._page(position)
            self._measure(page, position)
            if page.events:
                batch = SubscriptionBatch(self, page)
                yield batch
                position = stored = await self._settle(batch)
                wait, stored_at = _SHORTEST_WAIT, time.monotonic()
                continue
            position = page.position
            if position != stored and time.monotonic() - stored_at > _CHECKPOINT_WHEN_IDLE:
                await self._acknowledge(position)
                stored, stored_at = position, time.monotonic()
            raise_if_cancelled()
            pause = wait if page.waiting else self._options.poll_interval
            wait = min(2 * wait, _LONGEST_WAIT) if page.waiting else _SHORTEST_WAIT
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):  # not wait_for(), which before 3.12 may swallow a cancellation
                    await woken.wait()

    async def _page(self, position: int) -> EventPage:
        """The next page; says what it sets aside."""
        options = self._options
        set_aside = options.undecodable == "set aside"
        page = await self._reader.page(position, options.batch_size, options.event_filter, set_aside=set_aside)
        for error in page.set_aside:
            _log.error("subscription %s: set aside: %s", self._name, error)
        return page

    async def _settle(self, batch: SubscriptionBatch) -> int:
        """The position to continue from after a batch that the consumer has processed."""
        if batch.acknowledged:
            rows = await self._run("position", {})
            if not rows:
                raise SubscriptionLost(self._lost)
            reached: int = rows[0][0]  # before the batch's when the consumer has rolled back
        else:
            await self._acknowledge(batch.position)
            reached = batch.position
        if reached >= batch.position:
            self._options.meter.delivered(self._name, len(batch))
        return reached

    async def _acknowledge(self, position: int) -> None:
        # A server crash may lose it (synchronous_commit=off): the batch is then delivered again.
        if not await self._run("acknowledge", {"position": position, "synchronous_commit": "off"}):
            raise SubscriptionLost(self._lost)

    async def _make_known(self) -> None:
        start = self._options.start
        if start == "end":
            start = await self._reader.end()
        position = 0 if start == "beginning" else start
        await self._run("ensure", {"position": position})

    async def _become_active(self) -> int:
        """Wait until this is the active instance; the checkpoint to begin at."""
        while True:
            rows = await self._run("claim", {})
            raise_if_cancelled()
            if rows:
                self._options.meter.active(self._name, is_active=True)
                position: int = rows[0][0]
                return position
            await asyncio.sleep(self._options.lease / _ASKS_PER_LEASE)

    @contextlib.asynccontextmanager
    async def _renewing(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._renew(), name=f"eventstore-lease-{self._name}")
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _renew(self) -> None:
        """Renew the lease while the consumer works. The next acknowledgement reports a lost lease."""
        while True:
            raise_if_cancelled()
            await asyncio.sleep(self._options.lease / _ASKS_PER_LEASE)
            try:
                await self._run("renew", {})
            except StorageError as error:
                _log.warning("subscription %s: cannot renew the lease: %s", self._name, error)

    def _measure(self, page: EventPage, position: int) -> None:
        meter, now = self._options.meter, time.monotonic()
        age = (page.read_at - page.events[0].log_date).total_seconds() if page.events else 0.0
        meter.lag(self._name, max(page.newest - position, 0), max(age, 0.0))
        if not page.waiting or page.events:
            self._blocked_since = None
        elif self._blocked_since is None:
            self._blocked_since = now
        meter.blocked(self._name, 0.0 if self._blocked_since is None else now - self._blocked_since)

    def _values(self, more: dict[str, object]) -> dict[str, object]:
        return {"name": self._name, "holder": self._holder, "lease": self._options.lease, **more}

    async def _run(self, step: str, more: dict[str, object]) -> list[Row]:
        statement = self._statements.text(f"eventstore/subscriptions:{step}")
        return await self._database.run(f"{step} subscription {self._name}", statement, self._values(more))
