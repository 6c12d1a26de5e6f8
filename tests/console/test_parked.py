"""Parked streams of the event store in the API: listed, retried and skipped as by relay-cli, and recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import httpx
import pytest

from tests.console.conftest import ConsoleClient, client_of
from tests.console.stocking import STREAM, TENANT, stock_store
from tests.console.test_api import problem
from tests.support.fixtures.outbox import Outbox

PARKED = "/api/v1/store/parked"
SECOND = UUID(int=STREAM.int + 1)
PLACE = {"subscription": "balances", "tenant_id": str(TENANT), "stream_id": str(STREAM)}
_PARK = """
INSERT INTO event_parked (Name, TenantId, StreamId, Position, Version, Tries, Error, ParkedAt)
VALUES ('balances', %s, %s, 2, 2, 5, 'ValueError: no such account', '2026-03-10 12:00:00+00')
"""


@pytest.fixture
def stocked(recorded: Outbox) -> Outbox:
    """An outbox with a record of changes beside an event store with two parked streams."""
    stock_store(recorded.url)
    for stream in (STREAM, SECOND):
        recorded.database.run(_PARK, [TENANT, stream])
    return recorded


@pytest.fixture
def console(stocked: Outbox) -> Iterator[ConsoleClient]:
    client = client_of(stocked.url_of("console"))
    yield client
    asyncio.run(client.app.state.console.store.close())


def change(console: ConsoleClient, action: str, key: str, **body: Any) -> httpx.Response:
    return console.post(f"{PARKED}/{action}", json=body, headers={"Idempotency-Key": key})


def state_of(place: Outbox, stream: UUID) -> tuple[Any, ...]:
    """Version and whether it is due."""
    [row] = place.database.run("SELECT Version, Due FROM event_parked WHERE StreamId = %s", [stream])
    return row


def test_parked_streams_are_listed_with_their_errors(console: ConsoleClient) -> None:
    first = console.get(PARKED, params={"limit": 1}).json()
    assert first["complete"] is False
    assert first["items"] == [
        {
            **PLACE,
            "position": 2,
            "version": 2,
            "tries": 5,
            "error": "ValueError: no such account",
            "retrying": False,
            "parked_at": "2026-03-10T12:00:00.000000Z",
        }
    ]
    both = console.get(PARKED, params={"subscription": "balances"}).json()
    assert ([item["stream_id"] for item in both["items"]], both["complete"]) == ([str(STREAM), str(SECOND)], True)
    assert console.get(PARKED, params={"subscription": "other"}).json() == {"items": [], "complete": True}


def test_one_or_all_are_retried_and_the_change_is_recorded(console: ConsoleClient, stocked: Outbox) -> None:
    one = change(console, "retry", "1", **PLACE, reason="corrected").json()
    assert (one["action"], one["events"], one["state"], one["selection"]) == ("retry", 1, "complete", PLACE)
    assert (state_of(stocked, STREAM), state_of(stocked, SECOND)) == ((2, True), (2, False))
    again = change(console, "retry", "2", subscription="balances").json()
    assert (again["events"], state_of(stocked, SECOND)) == (2, (2, True))
    recorded = console.get("/api/v1/changes").json()["items"]
    assert [(each["action"], each["reason"]) for each in recorded] == [("retry", ""), ("retry", "corrected")]
    assert "balances" in console.get("/changes").text


def test_a_skip_gives_up_one_event_once_for_a_key(console: ConsoleClient, stocked: Outbox) -> None:
    first = change(console, "skip", "1", **PLACE, reason="a test").json()
    assert (first["action"], first["events"]) == ("skip", 1)
    assert state_of(stocked, STREAM) == (3, True)
    assert change(console, "skip", "1", **PLACE, reason="a test").json()["change_id"] == first["change_id"]
    assert state_of(stocked, STREAM) == (3, True)
    assert problem(change(console, "skip", "2", **PLACE)) == (409, "stream-not-parked")
    assert len(console.get("/api/v1/changes").json()["items"]) == 1


def test_what_is_asked_wrongly_changes_nothing(console: ConsoleClient, stocked: Outbox) -> None:
    unknown = {**PLACE, "stream_id": str(UUID(int=1))}
    half = {"subscription": "balances", "tenant_id": str(TENANT)}
    assert problem(change(console, "retry", "1", **unknown)) == (409, "stream-not-parked")
    assert problem(change(console, "skip", "2", **unknown)) == (409, "stream-not-parked")
    assert problem(change(console, "retry", "3", **half)) == (422, "invalid-request")
    assert problem(change(console, "skip", "4", **half)) == (422, "invalid-request")
    assert problem(console.post(f"{PARKED}/retry", json=PLACE)) == (400, "idempotency-key-missing")
    assert {state_of(stocked, stream) for stream in (STREAM, SECOND)} == {(2, False)}
    assert console.get("/api/v1/changes").json()["items"] == []


def test_a_missing_right_and_a_missing_store_are_named(stocked: Outbox) -> None:
    stocked.database.run("REVOKE UPDATE ON event_parked FROM openoutbox_console")
    console = client_of(stocked.url_of("console"))
    answer = change(console, "retry", "1", **PLACE)
    assert problem(answer) == (503, "table-unusable")
    assert "relay-cli store grant USER console" in answer.json()["detail"]
    assert "openoutbox_events" not in answer.json()["detail"]
    elsewhere = client_of(stocked.url_of("console"), EVENT_STORE_SCHEMA="elsewhere")
    stocked.database.run("CREATE SCHEMA elsewhere")
    stocked.database.run("GRANT USAGE ON SCHEMA elsewhere TO openoutbox_console")
    assert problem(change(elsewhere, "skip", "2", **PLACE)) == (503, "store-missing")
