"""Announcements carry the context of the span in which the application appends."""

from __future__ import annotations

import asyncio
import sys

import psycopg
import pytest

from relay.core.errors import ConfigError
from relay.eventstore import ANY, EventStore, NewEvent, append_sync
from tests.eventstore.conftest import STREAM, TENANT
from tests.support.fixtures.postgres import Database
from tests.support.spans import TRACEPARENT, active_span

pytest.importorskip("opentelemetry.trace", reason="needs the extra otel")

ANNOUNCED = {"A": "topic"}
CONTEXTS = """
SELECT headers ->> 'version', headers ->> 'traceparent', headers ->> 'tracestate'
FROM openoutbox_events
ORDER BY headers ->> 'version'
"""


async def test_announcements_carry_the_context_of_the_active_span(store: EventStore, outbox_database: Database) -> None:
    await store.append(TENANT, STREAM, [NewEvent("A"), NewEvent("B")], ANY, ANNOUNCED, trace=True)
    with active_span():
        await store.append(TENANT, STREAM, [NewEvent("A")], ANY, ANNOUNCED)
        await store.append(TENANT, STREAM, [NewEvent("A")], ANY, ANNOUNCED, trace=True)

    def append() -> None:
        with active_span(), psycopg.connect(outbox_database.url) as connection:
            append_sync(connection, TENANT, STREAM, [NewEvent("A")], ANY, ANNOUNCED, trace=True)

    await asyncio.to_thread(append)
    assert outbox_database.run(CONTEXTS) == [
        ("1", None, None),
        ("3", None, None),
        ("4", TRACEPARENT, "a=b"),
        ("5", TRACEPARENT, "a=b"),
    ]
    assert all(event.meta == {} for event in await store.read_stream(TENANT, STREAM))


async def test_without_opentelemetry_nothing_is_appended(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.trace.propagation.tracecontext", None)
    with pytest.raises(ConfigError, match="opentelemetry-api is not installed"):
        await store.append(TENANT, STREAM, [NewEvent("A")], ANY, trace=True)
    assert await store.read_all() == []
