"""JSON text of whole columns, against Python's own reading of it."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay.spark.write.jsontext import json_array, json_column

KIND = pa.struct(
    [
        ("i", pa.int64()),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("l", pa.list_(pa.int32())),
        ("m", pa.map_(pa.string(), pa.struct([("x", pa.string())]))),
        ("n", pa.list_(pa.list_(pa.string()))),
    ]
)

texts = st.text(st.characters(codec="utf-8"), max_size=8)
values = st.fixed_dictionaries(
    {
        "i": st.none() | st.integers(-(2**63), 2**63 - 1),
        "s": st.none() | texts,
        "b": st.none() | st.booleans(),
        "l": st.none() | st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), max_size=3),
        "m": st.none()
        | st.dictionaries(texts, st.none() | st.fixed_dictionaries({"x": st.none() | texts}), max_size=3),
        "n": st.none() | st.lists(st.none() | st.lists(st.none() | texts, max_size=2), max_size=2),
    }
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=50)
@given(st.lists(st.none() | values, max_size=4), st.integers(0, 3))
def test_what_is_read_back_is_what_was_there(rows: list[dict[str, Any] | None], start: int) -> None:
    as_arrow = [row and {**row, "m": None if row["m"] is None else list(row["m"].items())} for row in rows]
    column = pa.array(as_arrow, KIND).slice(min(start, len(rows)))
    assert [json.loads(text) for text in json_column(column).to_pylist()] == rows[start:]


@settings(deadline=None, max_examples=100)
@given(st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False), max_size=4), st.booleans())
def test_a_double_is_read_back_as_the_same_double(values: list[float | None], small: bool) -> None:
    """``small``: whole and other numbers without an exponent, which take a path of their own."""
    values = [value and (value % 1e6 if small else value) for value in values]
    read = [json.loads(text) for text in json_column(pa.array(values, pa.float64())).to_pylist()]
    assert [(type(value), value) for value in read] == [(type(value), value) for value in values]


@pytest.mark.parametrize("whole", [0.0, -1.0, 9999999999.0, 1e10, 1e15, -1e15])
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_a_whole_double_is_no_integer(whole: float, kind: pa.DataType) -> None:
    column = pa.array([0.5, None, whole], kind)
    (_, _, text) = json_column(column).to_pylist()
    assert isinstance(json.loads(text), float)
    assert pa.scalar(json.loads(text), kind) == column[2]


def test_every_control_character_is_escaped() -> None:
    characters = [chr(code) for code in range(0x80)]
    column = json_column(pa.array([*characters, "".join(characters)]))
    assert [json.loads(text) for text in column.to_pylist()] == [*characters, "".join(characters)]


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (pa.float64(), 0.1, "0.1"),
        (pa.float64(), 1.0, "1.0"),
        (pa.float32(), -3e6, "-3000000.0"),
        (pa.float64(), 1e20, "1e+20"),
        (pa.float64(), float("nan"), '"NaN"'),
        (pa.float32(), float("-inf"), '"-Infinity"'),
        (pa.decimal128(38, 2), Decimal("12345678901234567890.10"), "12345678901234567890.10"),
        (pa.date32(), date(1999, 1, 2), '"1999-01-02"'),
        (pa.timestamp("us", "Europe/Berlin"), datetime(2026, 1, 1, tzinfo=UTC), '"2026-01-01T00:00:00.000000Z"'),
        (pa.timestamp("us"), datetime(1969, 12, 31, 23, 59, 59, 1), '"1969-12-31T23:59:59.000001"'),  # noqa: DTZ001 - without a zone on purpose
        (pa.binary(), b"\x00\xff", '"AP8="'),
        (pa.large_string(), 'a"\\\n\x01é', '"a\\"\\\\\\n\\u0001é"'),
        (pa.map_(pa.int32(), pa.null()), [(1, None)], '{"1":null}'),
        (pa.struct([]), {}, "{}"),
    ],
)
def test_how_each_kind_looks(kind: pa.DataType, value: object, text: str) -> None:
    assert json_column(pa.array([value, None], kind)).to_pylist() == [text, "null"]


def test_rows_become_arrays() -> None:
    columns = [pa.array(["t", None]), pa.array([1, 2])]
    assert json_array(columns).to_pylist() == ['["t",1]', "[null,2]"]
