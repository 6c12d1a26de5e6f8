"""A histogram that is fed whole batches: one bisection and one addition a value, and no lock."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import NamedTuple

LATENCY_BOUNDS = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0),
)
"""Seconds: from a local statement to an event that waited through an outage."""

SIZE_BOUNDS = (1.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0)
"""Events in one claim."""


class ExemplarValue(NamedTuple):
    """One observed value and the span that it belongs to."""

    value: float
    trace_id: str
    span_id: str
    observed_at: float
    """Seconds since 1970."""


class Distribution(NamedTuple):
    """A histogram's content at one moment: values up to each bound (the last has none), not cumulated."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float
    exemplars: Mapping[int, ExemplarValue] = {}  # never written to
    """The latest example of some of the counts, by their index in ``counts``."""

    @property
    def total(self) -> int:
        """How many values there are in all."""
        return sum(self.counts)


class Histogram:
    """Values counted by upper bound, inclusive. Written by one thread; ``read`` may be called from any."""

    __slots__ = ("_bounds", "_counts", "_exemplars", "_sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0
        self._exemplars: dict[int, ExemplarValue] = {}

    def observe(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def observe_many(self, values: Sequence[float]) -> None:
        """Count a batch of values."""
        bounds, counts = self._bounds, self._counts
        for value in values:
            counts[bisect_left(bounds, value)] += 1
        self._sum += sum(values)

    def exemplify(self, exemplar: ExemplarValue) -> None:
        """Show a value that is counted apart as the example of its bucket."""
        self._exemplars[bisect_left(self._bounds, exemplar.value)] = exemplar

    def read(self) -> Distribution:
        """What has been counted so far."""
        return Distribution(self._bounds, tuple(self._counts), self._sum, self._exemplars.copy())
