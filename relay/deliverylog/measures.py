"""Metrics of the log: the known names, the check of a query, and the step from counts to measures.

A driver only counts (``MeasureTally``); rates, averages, zero-filled slots and limits are computed here, for all
drivers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from relay.deliverylog.buckets import ROW_LIMIT, Slots, slots
from relay.deliverylog.errors import InvalidQuery, InvalidTimeRange, ResourceLimit
from relay.deliverylog.limits import check_values
from relay.deliverylog.paging import storable
from relay.deliverylog.query import MetricsQuery, Row
from relay.deliverylog.records import STATUSES
from relay.deliverylog.times import clamped, floored, from_ms

EVENT_DIMENSIONS = ("tenant_id", "topic", "destination_id")
ATTEMPT_DIMENSIONS = (
    "tenant_id",
    "destination_id",
    "destination_type",
    "topic",
    "status",
    "code",
    "manual",
    "attempt_number",
)


class Counts(NamedTuple):
    """What drivers count. For events only ``total``."""

    total: int = 0
    successful: int = 0
    failed: int = 0
    first_attempts: int = 0
    """Attempt number 1, not manual."""
    retries: int = 0
    """Attempt number above 1."""
    manual_retries: int = 0
    number_sum: int = 0


class MeasureTally(NamedTuple):
    """The counts of one slot (None without granularity) and one combination of dimension values."""

    slot: int | None
    dimensions: tuple[Any, ...]
    counts: Counts


Measure = Callable[[Counts, float], float]

EVENT_MEASURES: Mapping[str, Measure] = {
    "count": lambda counts, _: counts.total,
    "rate": lambda counts, seconds: counts.total / seconds,
}
ATTEMPT_MEASURES: Mapping[str, Measure] = {
    "count": lambda counts, _: counts.total,
    "successful_count": lambda counts, _: counts.successful,
    "failed_count": lambda counts, _: counts.failed,
    "error_rate": lambda counts, _: _ratio(counts.failed, counts.total),
    "first_attempt_count": lambda counts, _: counts.first_attempts,
    "retry_count": lambda counts, _: counts.retries,
    "manual_retry_count": lambda counts, _: counts.manual_retries,
    "avg_attempt_number": lambda counts, _: _ratio(counts.number_sum, counts.total),
    "rate": lambda counts, seconds: counts.total / seconds,
    "successful_rate": lambda counts, seconds: counts.successful / seconds,
    "failed_rate": lambda counts, seconds: counts.failed / seconds,
}


@dataclass(frozen=True, slots=True)
class Count:
    """What a driver counts: rows of [start, end) that pass, by dimensions and slots. Times as in a ``Scan``."""

    start: datetime
    end: datetime
    seconds: float
    """Length of the query's range."""
    measures: tuple[str, ...]
    dimensions: tuple[str, ...]
    filters: Mapping[str, tuple[Any, ...]]
    slots: Slots | None

    @property
    def most_combinations(self) -> int:
        """How many combinations of dimension values an answer has room for."""
        return ROW_LIMIT // (len(self.slots.begins) if self.slots else 1)

    def variant(self, bound: Callable[[datetime], Any]) -> tuple[set[str], dict[str, Any]]:
        """The tags and the values of a statement that counts so; ``bound`` makes the driver's value of a time."""
        tags = {f"by_{dimension}" for dimension in self.dimensions} | {f"filter_{name}" for name in self.filters}
        values = {name: list(alternatives) for name, alternatives in self.filters.items()}
        return tags, {"start": bound(self.start), "end": bound(self.end), **values}


def plan_count(query: MetricsQuery, measures: Mapping[str, Measure], dimensions: Sequence[str]) -> Count:
    """Check a query. Raises InvalidTimeRange, InvalidQuery for an unknown name, ResourceLimit for too many slots."""
    start, end = floored(query.start, "start"), floored(query.end, "end")
    if query.start >= query.end or start >= end:
        raise InvalidTimeRange(f"start {query.start.isoformat()} must lie before end {query.end.isoformat()}")
    if not query.measures:
        raise InvalidQuery(f"no measure was named; choose from {', '.join(measures)}")
    _known("measure", query.measures, measures)
    _known("dimension", query.dimensions or (), dimensions)
    _known("filter", query.filters or {}, dimensions)
    return Count(
        start=clamped(start),
        end=clamped(end),
        seconds=(end - start).total_seconds(),
        measures=tuple(dict.fromkeys(query.measures)),
        dimensions=tuple(dict.fromkeys(query.dimensions or ())),
        filters=_filters(query.filters or {}),
        slots=slots(start, end, query.granularity) if query.granularity else None,
    )


def tallies_of(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], count: Count, slot_ms: Callable[[Any], int]
) -> list[MeasureTally]:
    """The tallies of a driver's rows, whose columns are called ``slot``, as the dimensions and as the ``Counts``.

    Every value is found by its column's name: a statement has its dimensions in an order of its own. ``slot_ms`` turns
    the driver's value of a slot into milliseconds.
    """
    index = {name: position for position, name in enumerate(columns)}
    dimensions = [index[name] for name in count.dimensions]
    fields = [index[name] for name in Counts._fields if name in index]
    slot = index.get("slot")
    return [
        MeasureTally(
            None if slot is None else slot_ms(row[slot]),
            tuple([row[position] for position in dimensions]),
            Counts(*[row[position] for position in fields]),
        )
        for row in rows
    ]


def too_many_combinations(count: Count) -> ResourceLimit:
    """The error for dimensions with more combinations than an answer has room for."""
    return ResourceLimit(
        f"{', '.join(count.dimensions)} have more than {count.most_combinations} combinations in this range, and an "
        f"answer has at most {ROW_LIMIT} rows; filter, or choose a coarser granularity"
    )


def rows(count: Count, tallies: Sequence[MeasureTally], measures: Mapping[str, Measure]) -> list[Row]:
    """The answer: every slot present for every combination seen, ordered by slot and combination."""
    counts_of = {(tally.slot, tally.dimensions): tally.counts for tally in tallies}
    combinations = sorted({tally.dimensions for tally in tallies}, key=_sortable)
    if not count.dimensions:
        combinations = [()]
    begins: Sequence[int | None] = count.slots.begins if count.slots else (None,)
    answer: list[Row] = []
    for (index, begin), combination in itertools.product(enumerate(begins), combinations):
        seconds = count.slots.seconds(index) if count.slots else count.seconds
        counts = counts_of.get((begin, combination), _NOTHING)
        row: Row = {} if begin is None else {"time": from_ms(begin)}
        row.update(zip(count.dimensions, combination, strict=True))
        row.update((name, measures[name](counts, seconds)) for name in count.measures)
        answer.append(row)
    return answer


_NOTHING = Counts()


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _sortable(combination: tuple[Any, ...]) -> tuple[tuple[bool, Any], ...]:
    return tuple((value is not None, "" if value is None else value) for value in combination)


def _known(kind: str, names: Iterable[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise InvalidQuery(f"unknown {kind} {name!r}; choose from {', '.join(known)}")


def _filters(filters: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    checked: dict[str, tuple[Any, ...]] = {}
    for name, value in filters.items():
        values = value if isinstance(value, (list, tuple, set, frozenset)) else [] if value is None else [value]
        check_values(name, len(values))
        if values:
            checked[name] = tuple(dict.fromkeys(_value(name, value) for value in values))
    return checked


def _value(name: str, value: object) -> object:
    match name:
        case "manual":
            good = isinstance(value, bool)
        case "attempt_number":
            good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31
        case "status":
            good = value in STATUSES
        case _:
            good = isinstance(value, str) and storable(value)
    if not good:
        raise InvalidQuery(f"the filter {name} holds {value!r}, which is not a valid {name}")
    return value
