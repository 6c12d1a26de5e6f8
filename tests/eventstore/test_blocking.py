"""A consumer that blocks its event loop for longer than the lease keeps it: two instances do not deliver in turns."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator

import pytest

from relay.eventstore import EventStore
from relay.eventstore.database import Database as StoreDatabase
from relay.eventstore.decoding import decode_body
from relay.eventstore.renewal import Renewals
from tests.eventstore.test_subscription import fill
from tests.support.fixtures.postgres import Database
from tests.support.waiting import eventually, pace, patience

LEASE = 0.6  # seconds
LONGER = 4 * LEASE
EVENTS = 3


class Instance:
    """One instance of the subscription, on an event loop and a thread of its own."""

    def __init__(self, url: str, handle: Callable[[], None]) -> None:
        self._url, self._handle = url, handle
        self._loop = asyncio.new_event_loop()
        self.bodies: list[object] = []
        self._task = self._loop.create_task(self._consume())
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()

    def _run(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._task)
        self._loop.close()

    async def _consume(self) -> None:
        async with await EventStore.connect(self._url) as store:
            subscription = store.subscribe("busy", batch_size=1, lease=LEASE, poll_interval=0.1)
            async with contextlib.aclosing(subscription) as batches:
                async for batch in batches:
                    self.bodies += [event.data for event in batch]
                    self._handle()


@contextlib.contextmanager
def two_instances(url: str, handle: Callable[[], None]) -> Iterator[tuple[Instance, Instance]]:
    instances = Instance(url, handle), Instance(url, handle)
    try:
        yield instances
    finally:
        for instance in instances:
            instance.close()


async def delivered_by_one(store: EventStore, instances: tuple[Instance, Instance]) -> None:
    await eventually(lambda: any(one.bodies for one in instances))
    await store.wait_until("busy", EVENTS, timeout=patience(EVENTS * LONGER * 4))
    assert sorted(map(len, (one.bodies for one in instances))) == [0, EVENTS]


async def test_a_handler_that_blocks_the_loop_keeps_the_lease(gapless_store: EventStore, database: Database) -> None:
    await fill(gapless_store, 1, EVENTS)
    with two_instances(database.url, lambda: pace(LONGER)) as instances:
        await delivered_by_one(gapless_store, instances)


async def test_a_page_that_is_long_to_decode_keeps_the_lease(
    gapless_store: EventStore, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slowly(text: str | bytes) -> object:
        body = decode_body(text)
        if isinstance(body, int):
            pace(LONGER)
        return body

    await fill(gapless_store, 1, EVENTS)
    monkeypatch.setattr("relay.eventstore.event_store.decode_body", slowly)
    with two_instances(database.url, lambda: None) as instances:
        await delivered_by_one(gapless_store, instances)


async def test_a_renewal_that_fails_by_a_fault_of_ours_gives_the_lease_up_and_says_so(
    gapless_store: EventStore, caplog: pytest.LogCaptureFixture
) -> None:
    async def renew(_database: StoreDatabase) -> None:
        raise ZeroDivisionError

    renewals, lost = Renewals(gapless_store._database), asyncio.Event()
    async with renewals.keeping(renew, 0.01, lost.set):
        await asyncio.wait_for(lost.wait(), patience())
    await renewals.close()
    assert "is no longer renewed" in caplog.text
