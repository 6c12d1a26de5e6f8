"""Applies events one by one with a handler, tries a failing one again, and sets its stream aside at last.

A batch is applied in one transaction, which also stores the checkpoint: the effect of an event and its acknowledgement
commit together. When the handler fails, all of it is rolled back, and the events are applied again one by one, each in
a transaction of its own, until the failing one has used up its tries. Then its stream is parked
(``relay.eventstore.parking``), and the others go on.

A lost connection or a database that does not answer is not the event's fault: it costs no try.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Final

from relay.core.backoff import RetryPolicy
from relay.core.errors import StorageBusy, StorageUnavailable
from relay.eventstore.batch import SubscriptionBatch
from relay.eventstore.database import NO_DEADLINE, Connection, Database, wait_out
from relay.eventstore.errors import SubscriptionLost
from relay.eventstore.model import StoredEvent

_log = logging.getLogger(__name__)

Handler = Callable[[StoredEvent, Connection], Awaitable[None]]
"""Applies one event, with the connection whose transaction stores the checkpoint too."""

DEFAULT_RETRY: Final = RetryPolicy(max_attempts=5, base_delay=0.5, max_delay=30.0, jitter=0.15)
"""Tries of a failing event, and seconds between them."""


class _HandlerFailed(Exception):
    """The handler has raised for an event; the cause is its error."""

    def __init__(self, event: StoredEvent, error: Exception) -> None:
        super().__init__(str(error))
        self.event = event
        self.error = error


class Processing:
    """Applies the batches of one subscription."""

    def __init__(self, database: Database, name: str, handler: Handler, retry: RetryPolicy) -> None:
        self._database = database
        self._name = name
        self._handler = handler
        self._retry = retry

    async def run(self, batches: AsyncGenerator[SubscriptionBatch, None]) -> None:
        """Apply them all; returns never, and raises what ends the subscription."""
        async with aclosing(batches):
            async for batch in batches:
                try:
                    await self._batch(batch)
                except SubscriptionLost:
                    batch.is_lost = True

    async def _batch(self, batch: SubscriptionBatch) -> None:
        try:
            await self._applied(batch)
        except _HandlerFailed as failed:
            for part in batch.split():
                tries = 1 if part.events[0] == failed.event else 0
                await self._alone(part, tries, failed.error)
            batch.acknowledged = True

    async def _alone(self, batch: SubscriptionBatch, tries: int, error: Exception) -> None:
        """Apply one event, as often as it may fail; then park its stream. ``tries`` were made already."""
        while True:
            if self._retry.exhausted(tries):
                event = batch.events[0]
                place = f"stream {event.stream_id} of tenant {event.tenant_id}, position {event.sequence_num}"
                _log.error("subscription %s: set aside after %d tries: %s: %s", self._name, tries, place, error)
                batch.park(event, error, tries)
                await self._applied(batch)  # of which the handler sees nothing
                return
            if tries:
                await asyncio.sleep(self._retry.delay(tries, random.random()))
            try:
                await self._applied(batch)
            except _HandlerFailed as failed:
                tries, error = tries + 1, failed.error
            else:
                return

    async def _applied(self, batch: SubscriptionBatch) -> None:
        """Apply a batch and acknowledge it in one transaction, however often the connection is lost meanwhile."""

        async def work(connection: Connection) -> None:
            for event in batch:
                try:
                    await self._handler(event, connection)
                except Exception as error:
                    if connection.closed or isinstance(error, StorageUnavailable):
                        raise
                    raise _HandlerFailed(event, error) from error
            await batch.acknowledge(connection)

        failures = 0
        while True:
            try:
                # No deadline: the handler may take its time.
                return await self._database.transaction(f"process {self._name}", work, NO_DEADLINE)
            except (StorageUnavailable, StorageBusy) as error:
                failures += 1
                await wait_out(error, self._name, failures)
