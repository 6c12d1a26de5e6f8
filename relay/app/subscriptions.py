"""The event store's subscriptions as metrics: position and lag, whether their consumers run or not.

``relay-cli store subscriptions --prometheus`` prints them, and the daemon provides them.

``relay.app.run`` imports this module only where EVENT_STORE_SCHEMA is set. It lists the subscriptions every 15 s over
one connection of its own. A store that does not answer costs its own metrics only: they stay as they were, and
``openoutbox_eventstore_listed_timestamp_seconds`` says since when.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Final

from relay.core.durations import in_words
from relay.core.errors import OutboxError
from relay.eventstore import EventStore
from relay.eventstore.states import SubscriptionState
from relay.postgres.url import database_name
from relay.telemetry import catalogue as metrics
from relay.telemetry.catalogue import Metric
from relay.telemetry.providers import Reading, Sample

_log = logging.getLogger("relay.eventstore")

INTERVAL: Final = 15.0
"""Seconds between two listings."""
_LONGEST_LISTING: Final = 30.0  # seconds


_MEASURES: Final[tuple[tuple[Metric, Callable[[list[SubscriptionState]], float]], ...]] = (
    (metrics.CHECKPOINT_ACTIVE, lambda states: any(state.active for state in states)),
    (metrics.CHECKPOINT_POSITION, lambda states: min(state.position for state in states)),
    (metrics.CHECKPOINT_LAG_EVENTS, lambda states: sum(state.lag_events for state in states)),
    (metrics.CHECKPOINT_LAG_SECONDS, lambda states: max(state.lag_seconds for state in states)),
)


def readings(
    states: Iterable[SubscriptionState], listed_at: float | None, database: str, schema: str
) -> Iterator[Reading]:
    """The subscriptions of one store as they were listed at ``listed_at``, seconds since 1970; None for never.

    The label ``part`` is empty for a subscription that is not consumed in parts, for example ``0/2`` for a part of one
    that is, and ``none`` for its slots that no instance holds.
    """
    series: dict[tuple[str, str], list[SubscriptionState]] = {}
    for state in states:
        part = "" if state.slots is None else "none" if state.part is None else f"{state.part[0]}/{state.part[1]}"
        series.setdefault((state.name, part), []).append(state)
    for metric, measure in _MEASURES:
        yield (
            metric,
            [Sample((database, schema, *labels), float(measure(listed))) for labels, listed in series.items()],
        )
    parked = {state.name: float(state.parked) for series_states in series.values() for state in series_states}
    yield metrics.PARKED_STREAMS, [Sample((database, schema, name), count) for name, count in parked.items()]
    yield metrics.LISTED_AT, [] if listed_at is None else [Sample((database, schema), listed_at)]


class SubscriptionLag:
    """Lists the subscriptions of one store, from ``start`` to ``close``."""

    def __init__(self, url: str, schema: str, interval: float = INTERVAL) -> None:
        """``url`` is of PostgreSQL; ``interval`` is in seconds. Raises ConfigError for an invalid URL."""
        self._url = url
        self._schema = schema
        self._interval = interval
        self._readings = partial(readings, database=database_name(url), schema=schema)
        self._listed: tuple[list[SubscriptionState], float | None] = ([], None)
        self._task: asyncio.Task[None] | None = None
        self._trouble = ""

    def read(self) -> Iterator[Reading]:
        """The provider of the subscriptions' metrics."""
        return self._readings(*self._listed)

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
                        self._listed = (await store.list_subscriptions(), time.time())
                self._trouble = ""
            except (OutboxError, TimeoutError, OSError) as error:
                self._warn(str(error) or f"no answer in {in_words(_LONGEST_LISTING)}")
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
