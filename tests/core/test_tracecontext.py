"""A traceparent is read and replaced as W3C Trace Context says; what is malformed is left alone."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.core.headers import replace_header, wire_headers
from relay.core.tracecontext import TraceContext, parse_traceparent, sampled_parent, with_context

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
VALID = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(
    ("value", "flags"),
    [(VALID, 1), (f"00-{TRACE}-{SPAN}-03", 3), (f"00-{TRACE}-{SPAN}-ff", 3), (f"01-{TRACE}-{SPAN}-01-later", 1)],
)
def test_a_sampled_context_is_read(value: str, flags: int) -> None:
    assert parse_traceparent(value, "a=b") == TraceContext(TRACE, SPAN, flags, "a=b")
    assert sampled_parent(json.dumps({"traceparent": value, "tracestate": "a=b"})) == (TRACE, SPAN, flags, "a=b")


@pytest.mark.parametrize(
    "value",
    [
        f"00-{TRACE}-{SPAN}-00",
        f"00-{TRACE}-{SPAN}-02",
        "",
        "00",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"00-{TRACE}-{SPAN}-1",
        f" {VALID}",
        f"{VALID}\n",
        f"00_{TRACE}_{SPAN}_01",
    ],
)
def test_what_is_unsampled_or_malformed_has_no_context(value: str) -> None:
    assert parse_traceparent(value) is None
    assert sampled_parent(json.dumps({"traceparent": value})) is None


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"a": "b"},
        {"Traceparent": VALID},
        {"traceparent": None},
        {"traceparent": [VALID]},
        {"traceparent": {"traceparent": VALID}},
        {"a": {"traceparent": VALID}},
        {"a": f'say "traceparent": "{VALID}"'},
        [VALID],
        VALID,
    ],
)
def test_only_a_text_of_that_name_counts(headers: object) -> None:
    assert sampled_parent(json.dumps(headers)) is None


def test_a_nested_one_hides_none() -> None:
    unsampled = f"00-{TRACE}-{SPAN}-00"
    assert sampled_parent(json.dumps({"a": {"traceparent": unsampled}, "traceparent": VALID})) == (TRACE, SPAN, 1, "")
    assert sampled_parent(json.dumps({"a": {"traceparent": VALID}, "traceparent": unsampled})) is None


@given(
    st.dictionaries(
        st.sampled_from(["traceparent", "tracestate", "a", "{", '"traceparent": "', "\\"]),
        st.sampled_from([VALID, f"00-{TRACE}-{SPAN}-00", "a=b", "{", '"', "\\", f'"traceparent": "{VALID}"'])
        | st.dictionaries(st.just("traceparent"), st.just(VALID)),
    )
)
def test_a_look_at_the_text_finds_what_reading_all_headers_finds(headers: dict[str, object]) -> None:
    text = json.dumps(headers)
    members = dict(wire_headers(text))
    assert sampled_parent(text) == parse_traceparent(members.get("traceparent", ""), members.get("tracestate", ""))


def test_nothing_but_the_header_is_replaced() -> None:
    headers = (
        f'{{"a": {{"traceparent": "{VALID}"}}, "n": 1.10, "m": 12345678901234567890123, "b": "{VALID}", '
        f'"traceparent": "{VALID}", "tracestate": "x=1"}}'
    )
    context = TraceContext(TRACE, "b" * 16, 1, "x=1")
    changed = with_context(headers, context)
    assert changed == headers.replace(f'"traceparent": "{VALID}", ', f'"traceparent": "{context.traceparent}", ')
    assert sampled_parent(changed) == context
    assert with_context(changed, parse_traceparent(VALID, "x=1") or context) == headers


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.dictionaries(st.text(), st.text())), st.text())
def test_one_header_is_replaced_and_the_others_stay(headers: dict[str, object], value: str) -> None:
    text = json.dumps(headers)
    for name in headers:
        expected = [(one, value if one == name else old) for one, old in wire_headers(text)]
        assert wire_headers(replace_header(text, name, value)) == expected
    if "absent" not in headers:
        assert replace_header(text, "absent", value) == text


@pytest.mark.parametrize("text", ["[1]", "null", "{", '{"a" 1}', ""])
def test_what_is_no_object_stays_as_it_is(text: str) -> None:
    assert replace_header(text, "a", "b") == text
