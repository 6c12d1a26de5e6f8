"""Random histories of a store: appends, readers, restores, failovers, resets, deletions, in any order.

The rules, whatever comes: a reader gets every event above its position once and in order, or the error that its
position went back; it gets that error where what it has read last is lost, and never else. A history that fails
repeats by its seed; each value of TEST_EXPLORE tries others.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import os
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import psycopg
import pytest

from relay.core.errors import StorageUnavailable
from relay.eventstore import ANY, Checkpoint, EventStore, NewEvent, PositionsWentBack
from tests.eventstore.conftest import OTHER_TENANT, TENANT
from tests.support.fixtures.postgres import Database, drop_database
from tests.support.restoring import back_up, restore

T = TypeVar("T")

EXPLORE = os.environ.get("TEST_EXPLORE")
SEEDS = [random.Random(EXPLORE).randrange(2**32) + number for number in range(25)] if EXPLORE else range(4)
STEPS = 60
STREAMS = [UUID(int=number) for number in range(1, 5)]
OPEN_STREAM = UUID(int=5)
"""Of the writer whose transaction stays open: other appends to its stream wait for it."""


class Event(NamedTuple):
    """One that is in the store, or was."""

    position: int
    tenant: UUID
    stream: UUID
    version: int
    name: str


@dataclass
class Timeline:
    """What the store holds, and what goes back with it."""

    events: list[Event] = field(default_factory=list)
    written: set[str] = field(default_factory=set)
    """The names of its events, those that were deleted too."""
    deleted: dict[tuple[UUID, UUID], int] = field(default_factory=dict)
    """Of each deleted stream the newest version."""
    dropped: set[UUID] = field(default_factory=set)
    stored: int = 0
    """The position of the subscription."""

    def after(self, position: int) -> list[str]:
        return [event.name for event in self.events if event.position > position]

    def excuses(self, event: Event) -> bool:
        """Whether a deletion explains that this event is missing."""
        return event.tenant in self.dropped or self.deleted.get((event.tenant, event.stream), 0) >= event.version


class Writer(NamedTuple):
    """One whose transaction is open."""

    connection: psycopg.AsyncConnection[Any]
    event: Event


class History:
    """One walk: each step changes the store and its timeline, or compares them."""

    def __init__(self, store: EventStore, database: Database, seed: int) -> None:
        self.store, self.database, self.random = store, database, random.Random(seed)
        self.timeline = Timeline()
        self.backup: tuple[Database, Timeline] | None = None
        self.writer: Writer | None = None
        self.count = 0
        self.last: Event | None = None
        """What the reader with a checkpoint of its own has read last."""
        self.checkpoint = Checkpoint(0)

    async def _again(self, work: Callable[[], Awaitable[T]]) -> T:
        """A restore ends the connections of the store: each costs one use."""
        for _ in range(20):
            with contextlib.suppress(StorageUnavailable):
                return await work()
        raise AssertionError("the database does not answer")

    async def _append(self, connection: psycopg.AsyncConnection[Any] | None = None) -> Event:
        tenant = self.random.choice((TENANT, OTHER_TENANT))
        stream = self.random.choice(STREAMS) if connection is None else OPEN_STREAM
        self.count += 1
        name = f"event {self.count}"
        done = await self._again(
            lambda: self.store.append(tenant, stream, [NewEvent("E", name)], ANY, connection=connection)
        )
        return Event(done.last_sequence_num, tenant, stream, done.version, name)

    def _committed(self, event: Event) -> None:
        self.timeline.events = sorted([*self.timeline.events, event])
        self.timeline.written.add(event.name)

    async def append(self) -> None:
        self._committed(await self._append())

    async def open_writer(self) -> None:
        """A transaction that stays open, while others append and commit."""
        if self.writer is None:
            connection = await self.database.connect_async(autocommit=False)
            self.writer = Writer(connection, await self._append(connection))

    async def commit_writer(self) -> None:
        if self.writer is not None:
            await self.writer.connection.commit()
            self._committed(self.writer.event)
            await self._forget_writer()

    async def _forget_writer(self) -> None:
        if self.writer is not None:
            await self.writer.connection.close()
            self.writer = None

    async def read(self) -> None:
        """The reader that keeps its own checkpoint, as a projection in another database does."""
        limit = self.random.choice((1, 3, 1000))
        lost = self.last is not None and self.last.name not in self.timeline.written
        excused = self.last is not None and self.timeline.excuses(self.last)
        try:
            page = await self._again(lambda: self.store.read_all(self.checkpoint, limit))
        except PositionsWentBack:
            assert lost, f"{self.last} is there, and was refused"
            self.last, self.checkpoint = None, Checkpoint(0)
            return
        assert not lost or excused, f"{self.last} is lost, and was taken"
        if lost:  # by a deletion that covers it, too: no reader can tell; it begins again
            self.last, self.checkpoint = None, Checkpoint(0)
            return
        names, expected = [event.data for event in page], self.timeline.after(self.checkpoint.position)
        if self.writer is None:
            assert names == expected[:limit]
        else:
            assert names == expected[: len(names)]
            assert all(event.sequence_num < self.writer.event.position for event in page)
        self.checkpoint = page.checkpoint
        if page:
            self.last = next(event for event in self.timeline.events if event.name == names[-1])

    async def consume(self) -> None:
        """A subscription, whose checkpoint is in the store and goes back with it."""
        if self.writer is not None:
            return
        expected, names = self.timeline.after(self.timeline.stored), list[object]()
        size = self.random.choice((2, 1000))
        subscription = self.store.subscribe("followed", batch_size=size, poll_interval=0.05)
        async with contextlib.aclosing(subscription) as batches:
            while len(names) < len(expected):
                batch = await asyncio.wait_for(anext(batches), 60)
                names += [event.data for event in batch]
                async with await self.database.connect_async(autocommit=False) as connection:
                    await batch.acknowledge(connection)
                self.timeline.stored = batch.position
        assert names == expected

    async def reset(self) -> None:
        newest = self.timeline.events[-1].position if self.timeline.events else 0
        with pytest.raises(PositionsWentBack):
            await self._again(lambda: self.store.reset_subscription("followed", newest + 1000))
        position = self.random.randint(0, newest)
        await self._again(lambda: self.store.reset_subscription("followed", position))
        # The last event up to there: one whose transaction is still open is above it, and comes.
        below = [event.position for event in self.timeline.events if event.position <= position]
        self.timeline.stored = max(below, default=0)

    async def delete(self) -> None:
        """A stream, or all of a tenant, which comes back empty."""
        await self._forget_writer()
        tenant, stream, timeline = (
            self.random.choice((TENANT, OTHER_TENANT)),
            self.random.choice(STREAMS),
            self.timeline,
        )
        if self.random.random() < 0.3:
            await self._again(lambda: self.store.drop_tenant(tenant, confirm=tenant))
            await self._again(lambda: self.store.provision_tenant(tenant))
            timeline.events = [event for event in timeline.events if event.tenant != tenant]
            timeline.dropped.add(tenant)
            return
        await self._again(lambda: self.store.delete_stream(tenant, stream, confirm=stream))
        versions = [event.version for event in timeline.events if (event.tenant, event.stream) == (tenant, stream)]
        if versions:
            timeline.deleted[tenant, stream] = max(versions)
        timeline.events = [event for event in timeline.events if (event.tenant, event.stream) != (tenant, stream)]

    async def back_up(self) -> None:
        await self._forget_writer()
        await self.forget_backup()
        self.backup = await asyncio.to_thread(back_up, self.database), copy.deepcopy(self.timeline)

    async def forget_backup(self) -> None:
        if self.backup is not None:
            await asyncio.to_thread(drop_database, self.backup[0])
            self.backup = None

    async def restore(self) -> None:
        """What came since the backup is lost: so it is after the failover to a standby that lags behind."""
        if self.backup is None:
            return
        await self._forget_writer()
        database, self.timeline = self.backup
        self.backup = None
        await asyncio.to_thread(restore, self.database, database)


@pytest.mark.parametrize("seed", SEEDS)
async def test_no_reader_skips_and_each_position_that_went_back_is_an_error(
    store: EventStore, database: Database, positions: str, seed: int
) -> None:
    history = History(store, database, seed)
    weights = {history.append: 12, history.read: 8, history.consume: 4, history.reset: 1, history.delete: 2}
    weights |= {history.back_up: 4, history.restore: 4}
    if positions == "settled":  # in a gapless store it would hold up the other writers
        weights |= {history.open_writer: 2, history.commit_writer: 3}
    try:
        for _ in range(STEPS):
            [step] = history.random.choices(list(weights), list(weights.values()))
            await step()
        await history.commit_writer()
        for _ in range(2):  # the first one may find that its position went back
            await history.read()
        await history.consume()
    finally:
        await history._forget_writer()
        await history.forget_backup()
