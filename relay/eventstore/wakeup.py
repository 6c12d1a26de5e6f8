"""One connection that listens for new events and wakes the waiting subscriptions. Owned by the store.

A notification only shortens a wait: its content is not used, and a lost one costs a poll interval. When the
connection breaks, a new one is opened, and every subscription is woken once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from typing import Final

import psycopg

from relay.core.errors import StorageError
from relay.eventstore.database import Database, execute
from relay.eventstore.statements import EventStoreStatements

_log = logging.getLogger(__name__)
_PAUSE_AFTER_FAILURE: Final = 1.0  # seconds


def raise_if_cancelled() -> None:
    """Raise CancelledError in a cancelled task whose last await swallowed the cancellation.

    Seen with the driver on Python 3.11: a statement that completes as the task is cancelled swallows it.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


class Wakeup:
    """Provides asyncio events that are set when events may have been appended. Listens while a subscription waits."""

    def __init__(self, database: Database, statements: EventStoreStatements) -> None:
        self._database = database
        self._statements = statements
        self._waiters: set[asyncio.Event] = set()
        self._task: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def subscribed(self) -> Iterator[asyncio.Event]:
        """An asyncio event that is set from now on; clear it before a read, wait for it after."""
        waiter = asyncio.Event()
        self._waiters.add(waiter)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._listen(), name="eventstore-wakeup")
        try:
            yield waiter
        finally:
            self._waiters.discard(waiter)

    async def close(self) -> None:
        """Stop listening."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _listen(self) -> None:
        while True:
            try:
                connection = await self._database.dedicated()
                async with connection:
                    await execute(connection, self._statements.text("eventstore/notify:listen"))
                    self._wake()
                    async for _ in connection.notifies():
                        self._wake()
            except (psycopg.Error, StorageError) as error:
                _log.warning(
                    "event store: LISTEN failed: %s; subscriptions poll until it works again", type(error).__name__
                )
            raise_if_cancelled()
            await asyncio.sleep(_PAUSE_AFTER_FAILURE)

    def _wake(self) -> None:
        for waiter in self._waiters:
            waiter.set()
