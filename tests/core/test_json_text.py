"""JSON is shown as it is stored."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.core.json_text import indented, members, with_member, written

_VALUES = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@given(_VALUES)
def test_it_is_what_the_library_writes(value: object) -> None:
    assert indented(json.dumps(value)) == json.dumps(value, indent=2)


@given(st.dictionaries(st.text(), _VALUES))
def test_members_are_texts_and_what_is_written(fields: dict[str, object]) -> None:
    found = members(json.dumps(fields))
    assert found is not None
    assert {
        name: found[name] if isinstance(value, str) else json.loads(found[name]) for name, value in fields.items()
    } == fields
    assert json.loads(with_member('{"first":1}', "fields", json.dumps(fields))) == {"first": 1, "fields": fields}


def test_numbers_and_names_stay() -> None:
    text = r'{"a":0.1000000000000000055511151231257827,"a":1e400,"b":"\ud800"}'
    assert "".join((indented(text) or "").split()) == text
    assert members('{"a": 1.10, "b": "\\ud800", "c": {"d": [1, 2.0]}}') == {
        "a": "1.10",
        "b": r"\ud800",
        "c": '{"d": [1, 2.0]}',
    }
    written({"half": "\ud800"}).encode()


@pytest.mark.parametrize("text", ["", "NaN", "[1,", "{'a': 1}", "[" * 100_000])
def test_what_is_no_json(text: str) -> None:
    assert indented(text) is None
    assert members(text) is None
    assert members("[1]") is None
