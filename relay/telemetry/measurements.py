"""The engine's measurements as plain numbers: written by the engine, and the first of the providers of metrics.

An update is a few additions, so that telemetry costs the same with and without scrapes. Every label
combination exists from the start, with 0: a rate over a series that appears with its first failure would miss it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from relay.core.clock import DatabaseClock
from relay.core.storage import Backlog, Upkeep
from relay.core.telemetry import EngineCounter, RelayState
from relay.core.tracecontext import TraceContext
from relay.telemetry import catalogue as metrics
from relay.telemetry.histogram import LATENCY_BOUNDS, SIZE_BOUNDS, ExemplarValue, Histogram
from relay.telemetry.providers import Reading, Sample, by_label, single
from relay.version import __version__

SUCCESS, FAILED = "success", "failed"
STORAGE_OPS = ("claim", "mark_delivered", "mark_failed", "release", "renew", "reap", "stats")

_MOST_AWAY = 100  # series of one metric whose label comes from the events
_NOTHING_YET = Backlog(0, 0, 0.0, 0.0, 0)


class Measurements:
    """Implements ``relay.core.telemetry.Telemetry``. Written by the event loop's thread, read by any."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self.database_clock = DatabaseClock(clock)
        """Measured by the storage."""
        self._delivered = self._failed = 0
        self._counts = dict.fromkeys(EngineCounter, 0)
        self._reaped_retried = self._reaped_dead = 0
        self._refused = dict.fromkeys(("claim", "settle", "renew", "reap"), 0)
        self._in_flight = 0
        self._pauses = 0
        self._away: Sequence[str] = ()
        self._last_claim = 0.0
        self._backlog = _NOTHING_YET
        self._oldest_delivered_age = 0.0
        self._horizon_held = 0.0
        self._ahead: Mapping[str, int] = {"locked_at": 0, "created_at": 0}
        self._backlog_at = 0.0
        self._state = RelayState.ERROR
        self._batch_size = Histogram(SIZE_BOUNDS)
        self._e2e = Histogram(LATENCY_BOUNDS)
        self._publisher = {status: Histogram(LATENCY_BOUNDS) for status in (SUCCESS, FAILED)}
        self._storage = {(op, ok): Histogram(LATENCY_BOUNDS) for op in STORAGE_OPS for ok in (True, False)}

    def claimed(self, events: int) -> None:
        """A claim returned; an empty one says nothing about batch sizes."""
        self._last_claim = self._clock()
        if events:
            self._batch_size.observe(events)

    def storage_op(self, op: str, ok: bool, seconds: float) -> None:
        histogram = self._storage.get((op, ok))
        if histogram is None:  # an operation that is not listed yet must not be lost
            histogram = self._storage[op, ok] = Histogram(LATENCY_BOUNDS)
        histogram.observe(seconds)

    def acknowledged(self, publish_seconds: Sequence[float], e2e_seconds: Sequence[float]) -> None:
        self._publisher[SUCCESS].observe_many(publish_seconds)
        self._e2e.observe_many(e2e_seconds)

    def exemplify(self, e2e_seconds: float, span: TraceContext) -> None:
        """Show the latency of an acknowledged event, with its span, as an exemplar."""
        self._e2e.exemplify(ExemplarValue(e2e_seconds, span.trace_id, span.span_id, self._clock()))

    def refused(self, publish_seconds: Sequence[float]) -> None:
        self._publisher[FAILED].observe_many(publish_seconds)

    def settled(self, delivered: int, failed: int) -> None:
        self._delivered += delivered
        self._failed += failed

    def count(self, what: EngineCounter, events: int) -> None:
        self._counts[what] += events

    def row_refused(self, doing: str) -> None:
        self._refused[doing] += 1

    def reaped(self, retried: int, buried: int) -> None:
        """Reclaimed leases; each counts as a failed attempt, whichever relay held it."""
        self._failed += retried + buried
        self._reaped_retried += retried
        self._reaped_dead += buried

    def in_flight(self, events: int) -> None:
        self._in_flight = events

    def backlog(self, backlog: Backlog) -> None:
        self._backlog = backlog
        self._backlog_at = self._clock()

    def oldest_due_age(self, seconds: float) -> None:
        self._backlog = self._backlog._replace(oldest_due_age=seconds)

    def upkeep(self, upkeep: Upkeep) -> None:
        """A fresh sample of how far prune and vacuum are behind; what was not read stays as it was."""
        self._horizon_held = upkeep.horizon_held
        if upkeep.oldest_delivered_age is not None:
            self._oldest_delivered_age = upkeep.oldest_delivered_age
        if upkeep.ahead is not None:
            self._ahead = upkeep.ahead

    def pauses(self, count: int) -> None:
        self._pauses = count

    def away(self, event_types: Sequence[str]) -> None:
        self._away = tuple(event_types[:_MOST_AWAY])

    def state(self, state: RelayState, reason: str) -> None:  # noqa: ARG002 - the reason is for readiness, not a number
        self._state = state

    def read(self) -> Iterator[Reading]:
        """The provider of the engine's metrics."""
        backlog = self._backlog
        publisher = [Sample((status,), histogram.read()) for status, histogram in self._publisher.items()]
        storage = [
            Sample((op, SUCCESS if ok else FAILED), histogram.read())
            for (op, ok), histogram in tuple(self._storage.items())
        ]
        yield metrics.EVENTS, by_label(success=self._delivered, failed=self._failed)
        yield metrics.BATCH_SIZE, [Sample((), self._batch_size.read())]
        yield metrics.E2E_LATENCY, [Sample((), self._e2e.read())]
        yield metrics.STORAGE_LATENCY, storage
        yield metrics.PUBLISHER_LATENCY, publisher
        yield metrics.PENDING, by_label(new=backlog.pending_new, retrying=backlog.pending_retrying)
        yield metrics.OLDEST_AGE, single(backlog.oldest_age)
        yield metrics.OLDEST_DUE_AGE, single(backlog.oldest_due_age)
        yield metrics.DEAD, single(backlog.dead)
        yield metrics.BACKLOG_AT, single(self._backlog_at)
        yield metrics.OLDEST_DELIVERED_AGE, single(self._oldest_delivered_age)
        yield metrics.HORIZON_HELD, single(self._horizon_held)
        yield metrics.CLOCK_OFFSET, single(self.database_clock.offset)
        yield metrics.TIMES_AHEAD, by_label(**self._ahead)
        yield metrics.IN_FLIGHT, single(self._in_flight)
        yield metrics.RELAY_STATE, single(self._state)
        yield metrics.PAUSED, single(self._pauses)
        yield metrics.DESTINATION_AWAY, [Sample((event_type,), 1.0) for event_type in self._away]
        yield metrics.LEASES_REAPED, by_label(retried=self._reaped_retried, dead=self._reaped_dead)
        yield from ((metric, single(self._counts[what])) for what, metric in metrics.COUNTED.items())
        yield metrics.ROWS_REFUSED, by_label(**self._refused)
        yield metrics.LAST_CLAIM, single(self._last_claim)
        yield metrics.BUILD, [Sample((__version__,), 1.0)]
