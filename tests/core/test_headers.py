"""Headers travel as the database printed them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.core.headers import RAW_HEADERS, wire_headers

_strings = st.dictionaries(st.text(), st.text())
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(_strings)
def test_strings_travel_as_they_are(headers: dict[str, str]) -> None:
    assert wire_headers(json.dumps(headers, ensure_ascii=False)) == list(headers.items())


@given(st.dictionaries(st.text(), _json))
def test_other_values_travel_as_their_json_text(headers: dict[str, object]) -> None:
    expected = [(k, v if isinstance(v, str) else json.dumps(v, ensure_ascii=False)) for k, v in headers.items()]
    assert wire_headers(json.dumps(headers, ensure_ascii=False)) == expected


@pytest.mark.parametrize("text", ["[1, 2]", '"text"', "3", "null", "true"])
def test_what_is_no_object_becomes_one_raw_header(text: str) -> None:
    assert wire_headers(text) == [(RAW_HEADERS, text)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"n": 12345678901234567890123}', "12345678901234567890123"),
        ('{"n": 1.10}', "1.10"),
        ('{"n": ' + "7" * 5000 + "}", "7" * 5000),
        ('{"n": ' + "[" * 20_000 + "]" * 20_000 + "}", "[" * 20_000 + "]" * 20_000),
        ('{"n": {"a": [1, "}]\\"", null]}}', '{"a": [1, "}]\\"", null]}'),
    ],
)
def test_values_keep_every_digit_and_any_depth(text: str, value: str) -> None:
    assert wire_headers(text) == [("n", value)]


def test_an_empty_object_is_no_header() -> None:
    assert wire_headers("{}") == []
