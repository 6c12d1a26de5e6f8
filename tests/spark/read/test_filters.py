"""Which conditions go to the database, and as what; the others go back to Spark unchanged."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql import datasource as d

from relay.postgres.sql import variant
from relay.spark.read.fields import OUTBOX
from relay.spark.read.filters import Conditions
from relay.spark.read.statements import parameters_of

PARAMETERS = parameters_of("read_events")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
TICK = timedelta(microseconds=1)
ID = UUID("0190a0b0-0000-7000-8000-00000000000f")
LAST = UUID("ffffffff-ffff-ffff-ffff-ffffffffffff")
STATUS, TYPE, KEY = ("status",), ("event_type",), ("partition_key",)
CREATED, DELIVERED, IDS = ("created_at",), ("delivered_at",), ("event_id",)


def pushed(*filters: d.Filter) -> tuple[dict[str, Any], list[d.Filter]]:
    conditions = Conditions(OUTBOX, PARAMETERS)
    rest = conditions.push(filters)
    return conditions.values, rest


@pytest.mark.parametrize(
    ("condition", "values"),
    [
        (d.EqualTo(STATUS, "DEAD"), {"status_in": ["DEAD"]}),
        (d.EqualNullSafe(STATUS, "DEAD"), {"status_in": ["DEAD"]}),
        (d.In(TYPE, ("a", "b")), {"event_type_in": ["a", "b"]}),
        (d.Not(d.In(TYPE, ("a", "b"))), {"event_type_not": ["a", "b"]}),
        (d.Not(d.EqualTo(KEY, "a")), {"partition_key_not": ["a"]}),
        (d.StringStartsWith(TYPE, "orders."), {"event_type_prefix": "orders."}),
        (d.IsNull(KEY), {"partition_key_null": True}),
        (d.IsNotNull(DELIVERED), {"delivered_at_null": False}),
        (d.IsNotNull(STATUS), {}),
        (d.GreaterThanOrEqual(CREATED, NOON), {"created_at_from": NOON}),
        (d.GreaterThan(CREATED, NOON), {"created_at_from": NOON + TICK}),
        (d.LessThan(DELIVERED, NOON), {"delivered_at_below": NOON}),
        (d.LessThanOrEqual(DELIVERED, NOON), {"delivered_at_below": NOON + TICK}),
        (d.EqualTo(CREATED, NOON), {"created_at_from": NOON, "created_at_below": NOON + TICK}),
        (d.EqualTo(IDS, str(ID)), {"event_id_in": [ID]}),
        (d.GreaterThan(IDS, str(ID)), {"event_id_from": UUID(int=ID.int + 1)}),
        (d.LessThan(IDS, str(ID)), {"event_id_below": ID}),
    ],
)
def test_conditions_for_the_database(condition: d.Filter, values: dict[str, Any]) -> None:
    assert pushed(condition) == (values, [])


@pytest.mark.parametrize(
    "condition",
    [
        d.GreaterThan(TYPE, "a"),
        d.StringEndsWith(TYPE, "a"),
        d.StringContains(TYPE, "a"),
        d.StringStartsWith(STATUS, "D"),
        d.EqualTo(STATUS, "a\x00"),
        d.EqualTo(STATUS, None),
        d.IsNull(STATUS),
        d.IsNull(("last_error",)),
        d.EqualTo(("attempts",), 3),
        d.EqualTo(("payload",), b"x"),
        d.EqualTo(("headers", "tenant"), "x"),
        d.EqualTo(("no_column",), "x"),
        d.EqualTo(IDS, str(ID).upper()),
        d.EqualTo(IDS, "no id"),
        d.GreaterThan(IDS, str(LAST)),
        d.In(IDS, (str(ID), "no id")),
        d.Not(d.EqualTo(CREATED, NOON)),
        d.Not(d.EqualTo(IDS, str(ID))),
        d.GreaterThan(CREATED, NOON.replace(tzinfo=None)),
        d.GreaterThan(CREATED, datetime.max.replace(tzinfo=UTC)),
    ],
)
def test_conditions_that_are_left_to_spark(condition: d.Filter) -> None:
    values, rest = pushed(condition)
    assert values == {}
    assert rest == [condition]
    assert rest[0] is condition


def test_conditions_on_one_column_hold_together() -> None:
    values, rest = pushed(
        d.GreaterThan(CREATED, NOON),
        d.GreaterThanOrEqual(CREATED, NOON + 5 * TICK),
        d.LessThan(CREATED, NOON + 9 * TICK),
        d.LessThanOrEqual(CREATED, NOON + 7 * TICK),
        d.In(STATUS, ("DEAD", "DELIVERED")),
        d.In(STATUS, ("DELIVERED", "PENDING")),
        d.Not(d.EqualTo(TYPE, "a")),
        d.Not(d.EqualTo(TYPE, "b")),
    )
    assert rest == []
    assert values == {
        "created_at_from": NOON + 5 * TICK,
        "created_at_below": NOON + 8 * TICK,
        "status_in": ["DELIVERED"],
        "event_type_not": ["a", "b"],
    }


def test_of_several_moments_the_range_is_taken_and_spark_looks_again() -> None:
    condition = d.In(CREATED, (NOON, NOON + 3 * TICK))
    assert pushed(condition) == ({"created_at_from": NOON, "created_at_below": NOON + 4 * TICK}, [condition])


def test_what_contradicts_itself_is_left_to_spark() -> None:
    missing, present = d.IsNull(KEY), d.IsNotNull(KEY)
    assert pushed(missing, present) == ({"partition_key_null": True}, [present])
    first, second = d.StringStartsWith(TYPE, "a"), d.StringStartsWith(TYPE, "ab")
    assert pushed(first, second) == ({"event_type_prefix": "a"}, [second])


def test_times_of_any_zone_are_one_moment() -> None:
    values, _ = pushed(d.LessThan(CREATED, NOON.astimezone(timezone(timedelta(hours=9)))))
    assert values == {"created_at_below": NOON}


def test_every_parameter_has_a_value() -> None:
    conditions = Conditions(OUTBOX, PARAMETERS)
    conditions.push([d.EqualTo(STATUS, "DEAD")])
    values = conditions.parameters()
    assert values.keys() == PARAMETERS
    assert {name for name, value in values.items() if value is not None} == {"status_in"}


@pytest.mark.parametrize("name", ["read_events", "read_deliveries"])
def test_the_sample_is_of_the_rows_that_are_read(name: str) -> None:
    ranges = {"range_from", "range_below", "page_from", "page_below"}
    assert parameters_of(name) - ranges == parameters_of(name, sample=True) - {"percent"}
    conditions = variant(f"spark/read:{name}").rpartition("WHERE")[2].splitlines()
    sampled = variant(f"spark/read:{name}", frozenset({"sample"}))
    left = [line for line in conditions if line.strip().removeprefix("AND ") not in sampled]
    assert [line for line in left if not any(each in line for each in ranges)] == []
