"""The active span's context in an event's headers."""

from __future__ import annotations

import json
import sys

import psycopg
import pytest

from openoutbox import NewEvent, enqueue, insert_rows
from openoutbox.errors import ConfigError
from tests.support.fixtures.database import Database
from tests.support.spans import TRACEPARENT, active_span

pytest.importorskip("opentelemetry.trace", reason="needs the extra otel")


def headers(event: NewEvent, *, trace: bool = True) -> dict[str, object]:
    [text] = insert_rows([event], trace=trace)["headers"]
    parsed: dict[str, object] = json.loads(str(text))
    return parsed


def test_the_context_of_the_active_span_is_added() -> None:
    with active_span():
        assert headers(NewEvent("t", b"")) == {"traceparent": TRACEPARENT, "tracestate": "a=b"}
        added = headers(NewEvent("t", b"", headers={"n": 1, "x": {"traceparent": "y"}}))
    assert added == {"n": 1, "x": {"traceparent": "y"}, "traceparent": TRACEPARENT, "tracestate": "a=b"}
    with active_span(state=""):
        assert headers(NewEvent("t", b"")) == {"traceparent": TRACEPARENT}


def test_an_event_keeps_its_own() -> None:
    with active_span():
        assert headers(NewEvent("t", b"", headers={"traceparent": "own"})) == {"traceparent": "own"}


def test_nothing_is_added_without_a_span_or_the_option() -> None:
    assert headers(NewEvent("t", b"", headers={"a": "b"})) == {"a": "b"}
    with active_span():
        assert headers(NewEvent("t", b"", headers={"a": "b"}), trace=False) == {"a": "b"}


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.trace.propagation.tracecontext", None)
    with pytest.raises(ConfigError, match="opentelemetry-api is not installed"):
        insert_rows([NewEvent("t", b"")], trace=True)


def test_it_is_in_the_row(outbox: Database) -> None:
    with active_span(), psycopg.connect(outbox.url) as connection:
        enqueue(connection, NewEvent("t", b""), trace=True)
    assert outbox.run("SELECT headers ->> 'traceparent' FROM openoutbox_events") == [(TRACEPARENT,)]
