"""Metrics, on every driver, against a slow and obvious counting in Python."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import combinations, permutations
from typing import Any

import pytest

from relay.deliverylog import (
    DeliveryLog,
    DeliveryLogError,
    Granularity,
    InvalidQuery,
    InvalidTimeRange,
    LogEntry,
    MetricsQuery,
    ResourceLimit,
)
from relay.deliverylog.measures import ATTEMPT_DIMENSIONS, ATTEMPT_MEASURES, EVENT_DIMENSIONS, EVENT_MEASURES
from tests.deliverylog.making import BASE, entry, event, ms

SPANS = {"s": timedelta(minutes=4), "m": timedelta(hours=5), "h": timedelta(days=4), "d": timedelta(days=80)}
LONG = timedelta(days=1000)
GRANULARITIES = [("s", 1), ("s", 60), ("m", 7), ("h", 24), ("d", 1), ("d", 31), ("w", 3), ("M", 1), ("M", 5), ("M", 12)]
"""Some of each unit: where every other bucket begins is in ``test_buckets``, for all drivers."""


def obvious_start(time: datetime, unit: str, value: int) -> datetime:
    """The begin of a bucket, found by walking from the unit's origin."""
    if unit == "M":
        begin = datetime(1970, 1, 1, tzinfo=UTC)
        while (following := _months_later(begin, value)) <= time:
            begin = following
        return begin
    origin = datetime(1970, 1, 4, tzinfo=UTC) if unit == "w" else datetime(1970, 1, 1, tzinfo=UTC)
    width = timedelta(**{{"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}[unit]: value})
    return time - (time - origin) % width


def obvious_next(begin: datetime, unit: str, value: int) -> datetime:
    if unit == "M":
        return _months_later(begin, value)
    return begin + timedelta(**{{"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}[unit]: value})


def _months_later(begin: datetime, value: int) -> datetime:
    month = begin.month - 1 + value
    return begin.replace(year=begin.year + month // 12, month=month % 12 + 1)


def obvious(entries: Iterable[LogEntry], begin: datetime, end: datetime, seconds: float) -> dict[str, float]:
    attempts = [one.attempt for one in entries if begin <= one.attempt.time < end]
    count = len(attempts)
    good = len([one for one in attempts if one.status == "success"])
    return {
        "count": count,
        "successful_count": good,
        "failed_count": count - good,
        "error_rate": (count - good) / count if count else 0.0,
        "first_attempt_count": len([one for one in attempts if one.attempt_number == 1 and not one.manual]),
        "retry_count": len([one for one in attempts if one.attempt_number > 1]),
        "manual_retry_count": len([one for one in attempts if one.manual]),
        "avg_attempt_number": sum(one.attempt_number for one in attempts) / count if count else 0.0,
        "rate": count / seconds,
        "successful_rate": good / seconds,
        "failed_rate": (count - good) / seconds,
    }


def entries_over(start: datetime, span: timedelta, count: int, seed: int = 1) -> list[LogEntry]:
    rng = random.Random(seed)
    entries = []
    for i in range(count):
        time = start + timedelta(milliseconds=rng.randrange(int(span.total_seconds() * 1000)))
        if i % 10 == 0:  # exactly on an edge
            time = obvious_start(time, rng.choice("smhdwM"), 1)
            time = max(time, start)
        its = event(
            f"e{i}", time, tenant_id=f"t{i % 3}", topic=f"x{i % 2}", matched_destination_ids=["d1", f"d{i % 4}"]
        )
        entries.append(
            entry(
                f"a{i}",
                time,
                its,
                destination_id=f"d{i % 4}",
                destination_type=rng.choice(["kafka", "nats"]),
                status=rng.choice(["success", "failed"]),
                code=rng.choice([None, "200", "500"]),
                manual=rng.random() < 0.2,
                attempt_number=rng.randrange(0, 5),
            )
        )
    return entries


def _under_tenant(tenant_id: str, one: LogEntry) -> LogEntry:
    its = replace(one.event, id=f"{tenant_id}-{one.event.id}", tenant_id=tenant_id)
    return LogEntry(its, replace(one.attempt, id=f"{tenant_id}-{one.attempt.id}"))


async def test_a_granularity_of_each_unit_against_walking(store: DeliveryLog) -> None:
    start = datetime(2021, 2, 27, 23, 58, 17, 345000, tzinfo=UTC)
    sets = {span: entries_over(start, span, 120, seed=n) for n, span in enumerate([*SPANS.values(), LONG])}
    for n, entries in enumerate(sets.values()):  # tenants of their own keep the ranges apart
        await store.insert_many([_under_tenant(f"s{n}", one) for one in entries])
    for unit, value in GRANULARITIES:
        span = SPANS.get(unit, LONG)
        n, entries = list(sets).index(span), sets[span]
        end = start + span - timedelta(milliseconds=777)
        result = await store.attempt_metrics(
            MetricsQuery(
                start=start,
                end=end,
                measures=list(ATTEMPT_MEASURES),
                filters={"tenant_id": [f"s{n}"]},
                granularity=Granularity(value, unit),
            )
        )
        slot, expected = obvious_start(start, unit, value), []
        while slot < end:
            following = obvious_next(slot, unit, value)
            seconds = (following - slot).total_seconds()
            expected.append({"time": slot, **obvious(entries, max(slot, start), min(following, end), seconds)})
            slot = following
        assert result.rows == [pytest.approx(row) if "time" not in row else row for row in expected], (unit, value)
        assert (result.row_count, result.row_limit, result.truncated) == (len(expected), 100_000, False)
        assert result.query_time_ms >= 0
        events = await store.event_metrics(
            MetricsQuery(
                start=start, end=end, measures=["count"], filters={"tenant_id": f"s{n}"},
                granularity=Granularity(value, unit),
            )
        )  # fmt: skip
        assert [row["count"] for row in events.rows] == [row["count"] for row in expected]


async def test_weeks_begin_on_sunday(store: DeliveryLog) -> None:
    result = await store.event_metrics(
        MetricsQuery(start=BASE, end=BASE + timedelta(days=15), measures=["count"], granularity=Granularity(1, "w"))
    )
    assert [row["time"].strftime("%a %H:%M") for row in result.rows] == ["Sun 00:00"] * 3


@pytest.mark.parametrize("dimension", ATTEMPT_DIMENSIONS)
async def test_every_dimension_of_attempts(store: DeliveryLog, dimension: str) -> None:
    entries = entries_over(BASE, timedelta(hours=3), 90)
    await store.insert_many(entries)
    end = BASE + timedelta(hours=3)
    values = sorted({getattr(one.attempt, dimension) for one in entries}, key=lambda v: (v is not None, v or 0))
    measures = list(ATTEMPT_MEASURES)
    total = await store.attempt_metrics(MetricsQuery(start=BASE, end=end, measures=measures, dimensions=[dimension]))
    of = {value: [one for one in entries if getattr(one.attempt, dimension) == value] for value in values}
    seconds = (end - BASE).total_seconds()
    assert total.rows == [{dimension: value, **obvious(of[value], BASE, end, seconds)} for value in values]
    series = await store.attempt_metrics(
        MetricsQuery(start=BASE, end=end, measures=["count"], dimensions=[dimension], granularity=Granularity(60, "m"))
    )
    assert [(row["time"], row[dimension]) for row in series.rows] == [
        (BASE + timedelta(hours=hour), value) for hour in range(3) for value in values
    ]
    for row in series.rows:
        assert row["count"] == obvious(of[row[dimension]], row["time"], row["time"] + timedelta(hours=1), 1)["count"]
    for value in values:
        if value is not None:
            only = await store.attempt_metrics(
                MetricsQuery(start=BASE, end=end, measures=["count"], filters={dimension: [value]})
            )
            assert only.rows == [{"count": len(of[value])}]


@pytest.mark.parametrize("kind", ["events", "attempts"])
async def test_every_pair_and_triple_of_dimensions_in_every_order(store: DeliveryLog, driver: str, kind: str) -> None:
    """The embedded ClickHouse takes 10 to 100 ms for a query: it gets each triple of attempts in one order."""
    entries = entries_over(BASE, timedelta(hours=1), 40)
    await store.insert_many(entries)
    known = EVENT_DIMENSIONS if kind == "events" else ATTEMPT_DIMENSIONS
    metrics = store.event_metrics if kind == "events" else store.attempt_metrics
    slow = driver == "clickhouse" and kind == "attempts"
    triples = combinations(known[::-1], 3) if slow else permutations(known, 3)
    for dimensions in [*permutations(known, 2), *triples]:
        query = MetricsQuery(start=BASE, end=BASE + timedelta(hours=1), measures=["count"], dimensions=dimensions)
        rows = (await metrics(query)).rows
        counted = {tuple(row[name] for name in dimensions): row["count"] for row in rows}
        assert counted == Counter(values for one in entries for values in _values(one, kind, dimensions)), dimensions


def _values(one: LogEntry, kind: str, dimensions: Sequence[str]) -> list[tuple[Any, ...]]:
    """The dimension values under which an entry counts: an event once for each of its destinations."""
    if kind == "attempts":
        return [tuple(getattr(one.attempt, name) for name in dimensions)]
    matched = set(one.event.matched_destination_ids) if "destination_id" in dimensions else {""}
    fields = {"tenant_id": one.event.tenant_id, "topic": one.event.topic}
    return [tuple({**fields, "destination_id": one_of}[name] for name in dimensions) for one_of in matched]


async def test_events_count_once_for_each_matched_destination(store: DeliveryLog) -> None:
    entries = entries_over(BASE, timedelta(hours=1), 40)
    again = [entry(f"again-{one.attempt.id}", one.attempt.time + ms(1), one.event) for one in entries]
    await store.insert_many([*entries, *again])
    end = BASE + timedelta(hours=2)

    async def counted(dimensions: list[str], filters: dict[str, Any]) -> dict[Any, int]:
        query = MetricsQuery(start=BASE, end=end, measures=["count", "rate"], dimensions=dimensions, filters=filters)
        rows = (await store.event_metrics(query)).rows
        assert all(row["rate"] == row["count"] / 7200 for row in rows)
        return {tuple(row[name] for name in dimensions): row["count"] for row in rows}

    assert await counted([], {}) == {(): 40}
    for dimension in ("tenant_id", "topic"):
        values = [getattr(one.event, dimension) for one in entries]
        assert await counted([dimension], {}) == {(value,): values.count(value) for value in set(values)}
    matched = [d for one in entries for d in set(one.event.matched_destination_ids)]
    assert await counted(["destination_id"], {}) == {(d,): matched.count(d) for d in set(matched)}
    assert await counted(["destination_id"], {"destination_id": ["d2"]}) == {("d2",): matched.count("d2")}
    assert await counted([], {"destination_id": ["d2", "d3"]}) == {(): matched.count("d2") + matched.count("d3")}
    both = [(one.event.topic, d) for one in entries for d in set(one.event.matched_destination_ids)]
    assert await counted(["topic", "destination_id"], {"tenant_id": ["t0", "t1", "t2"], "topic": "x1"}) == {
        pair: both.count(pair) for pair in set(both) if pair[0] == "x1"
    }


async def test_empty_answers_are_zero_and_never_null(store: DeliveryLog) -> None:
    end = BASE + timedelta(hours=2)
    plain = await store.attempt_metrics(MetricsQuery(start=BASE, end=end, measures=list(ATTEMPT_MEASURES)))
    assert plain.rows == [dict.fromkeys(ATTEMPT_MEASURES, 0)]
    slots = await store.event_metrics(
        MetricsQuery(start=BASE, end=end, measures=list(EVENT_MEASURES), granularity=Granularity(30, "m"))
    )
    assert [{k: row[k] for k in EVENT_MEASURES} for row in slots.rows] == [dict.fromkeys(EVENT_MEASURES, 0)] * 4
    none = await store.attempt_metrics(MetricsQuery(start=BASE, end=end, measures=["count"], dimensions=["topic"]))
    assert none.rows == []


async def test_an_attempt_written_twice_counts_once_as_it_is_now(store: DeliveryLog) -> None:
    await store.insert_many([entry("a", status="failed", code="500")])
    await store.insert_many([entry("a", status="success", code="200")])
    result = await store.attempt_metrics(
        MetricsQuery(start=BASE, end=BASE + ms(1), measures=["count", "failed_count"], dimensions=["code"])
    )
    assert result.rows == [{"code": "200", "count": 1, "failed_count": 0}]
    events = await store.event_metrics(MetricsQuery(start=BASE, end=BASE + ms(1), measures=["count"]))
    assert events.rows == [{"count": 1}]


async def test_what_cannot_be_counted_is_refused_by_name(store: DeliveryLog) -> None:
    good: dict[str, Any] = {"start": BASE, "end": BASE + timedelta(days=1), "measures": ["count"]}
    cases: list[tuple[dict[str, Any], type[DeliveryLogError], str]] = [
        ({"end": BASE}, InvalidTimeRange, "before"),
        ({"end": BASE - ms(1)}, InvalidTimeRange, "before"),
        ({"start": BASE.replace(tzinfo=None)}, InvalidTimeRange, "zone"),
        ({"measures": ["speed"]}, InvalidQuery, "speed"),
        ({"measures": []}, InvalidQuery, "measure"),
        ({"dimensions": ["color"]}, InvalidQuery, "color"),
        ({"filters": {"weight": ["1"]}}, InvalidQuery, "weight"),
        ({"filters": {"topic": ["a\x00"]}}, InvalidQuery, "topic"),
        ({"granularity": Granularity(61, "s")}, InvalidQuery, "61"),
        ({"granularity": Granularity(0, "m")}, InvalidQuery, "0"),
        ({"granularity": Granularity(1, "y")}, InvalidQuery, "y"),
        ({"granularity": Granularity(13, "M")}, InvalidQuery, "13"),
        ({"granularity": Granularity(1, "s"), "end": BASE + timedelta(days=2)}, ResourceLimit, "100000"),
    ]
    for change, error, named in cases:
        for count in (store.attempt_metrics, store.event_metrics):
            with pytest.raises(error, match=named):
                await count(MetricsQuery(**{**good, **change}))
    for filters in ({"manual": "yes"}, {"attempt_number": "1"}, {"status": "lost"}):
        with pytest.raises(InvalidQuery):
            await store.attempt_metrics(MetricsQuery(**good, filters=filters))
    with pytest.raises(InvalidQuery, match="status"):
        await store.event_metrics(MetricsQuery(**good, dimensions=["status"]))
    assert set(EVENT_DIMENSIONS) < set(ATTEMPT_DIMENSIONS)


async def test_more_combinations_than_an_answer_has_room_for(store: DeliveryLog) -> None:
    await store.insert_many([entry(f"a{i}", BASE, topic=f"x{i}") for i in range(8)])
    query = MetricsQuery(
        start=BASE,
        end=BASE + timedelta(hours=5),
        measures=["count"],
        dimensions=["topic"],
        granularity=Granularity(1, "s"),
    )
    with pytest.raises(ResourceLimit, match="topic"):
        await store.attempt_metrics(query)
    with pytest.raises(ResourceLimit, match="topic"):
        await store.event_metrics(query)
