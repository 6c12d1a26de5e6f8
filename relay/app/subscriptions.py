"""The event store's subscriptions in the daemon's /metrics: position and lag, whether their consumers run or not.

``relay.app.run`` imports this module only where EVENT_STORE_SCHEMA is set. It lists the subscriptions every 15 s over
one connection of its own. A store that does not answer costs its own metrics only: they stay as they were, and
``openoutbox_eventstore_listed_timestamp_seconds`` says since when.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import Final

from prometheus_client.registry import CollectorRegistry

from relay.core.errors import OutboxError
from relay.eventstore import EventStore
from relay.eventstore.prometheus import CheckpointCollector
from relay.postgres.url import database_name

_log = logging.getLogger("relay.eventstore")

INTERVAL: Final = 15.0
"""Seconds between two listings."""
_LONGEST_LISTING: Final = 30.0  # seconds


class SubscriptionLag:
    """Lists the subscriptions of one store, from ``start`` to ``close``."""

    def __init__(self, url: str, schema: str, interval: float = INTERVAL) -> None:
        """``url`` is of PostgreSQL; ``interval`` is in seconds. Raises ConfigError for an invalid URL."""
        self._url = url
        self._schema = schema
        self._interval = interval
        self._collector = CheckpointCollector(database_name(url), schema)
        self._task: asyncio.Task[None] | None = None
        self._trouble = ""

    def register(self, registry: CollectorRegistry) -> None:
        """Add the gauges to ``registry``."""
        registry.register(self._collector)

    def start(self) -> None:
        """Begin to list."""
        self._task = asyncio.create_task(self._watch())

    async def close(self) -> None:
        """End; never raises."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _watch(self) -> None:
        while True:
            try:
                async with asyncio.timeout(_LONGEST_LISTING):
                    async with await EventStore.connect(self._url, schema=self._schema, max_connections=1) as store:
                        self._collector.show(await store.list_subscriptions(), time.time())
                self._trouble = ""
            except (OutboxError, TimeoutError, OSError) as error:
                self._warn(str(error) or f"no answer in {_LONGEST_LISTING:g} s")
            await asyncio.sleep(self._interval)

    def _warn(self, trouble: str) -> None:
        """Once for each reason."""
        if trouble != self._trouble:
            _log.warning(
                "the subscriptions of the event store in schema %s cannot be listed: %s",
                self._schema,
                trouble,
                extra={"action": "subscriptions_unlisted"},
            )
        self._trouble = trouble
