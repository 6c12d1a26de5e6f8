"""The event store in the console: its operations and its pages."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from tests.console.access.making import token, tokens_file
from tests.console.conftest import ConsoleClient, client_of
from tests.console.stocking import OTHER_TENANT, STREAM, TENANT, stock_store
from tests.console.test_api import problem
from tests.console.test_pages import text_of
from tests.support.fixtures.outbox import Outbox

STORE = "/api/v1/store"
EVENTS = f"{STORE}/tenants/{TENANT}/streams/{STREAM}/events"
NOBODY = UUID(int=1)
PAGES = ("/store", f"/store/tenants/{TENANT}", f"/store/tenants/{TENANT}/streams/{STREAM}")


@pytest.fixture
def stocked(outbox: Outbox) -> Outbox:
    """The outbox with an event store in its database."""
    stock_store(outbox.url)
    return outbox


@pytest.fixture
def console(stocked: Outbox) -> Iterator[ConsoleClient]:
    """A client of the console, with the rights of its role and no others."""
    client = client_of(stocked.url_of("console"))
    yield client
    asyncio.run(client.app.state.console.store.close())


def test_the_store_and_its_subscriptions(console: ConsoleClient) -> None:
    assert console.get(STORE).json() == {
        "schema_name": "public",
        "positions": "gapless",
        "notify": True,
        "newest": 9,
        "horizon": 9,
    }
    [subscription] = console.get(f"{STORE}/subscriptions").json()["items"]
    assert (subscription["name"], subscription["position"], subscription["lag_events"]) == ("balances", 2, 7)
    assert subscription["active"] is False
    page = text_of(console.get("/store"))
    assert "balances no holder 7" in page
    assert str(TENANT) in page


def test_tenants_and_streams_are_paged(console: ConsoleClient) -> None:
    first = console.get(f"{STORE}/tenants", params={"limit": 1}).json()
    assert first == {"items": [{"tenant_id": str(OTHER_TENANT)}], "next": str(OTHER_TENANT)}
    rest = console.get(f"{STORE}/tenants", params={"limit": 1, "cursor": first["next"]}).json()
    assert rest == {"items": [{"tenant_id": str(TENANT)}], "next": None}
    streams = console.get(f"{STORE}/tenants/{TENANT}/streams", params={"limit": 2}).json()
    assert [(item["version"], item["type"], item["sequence_num"]) for item in streams["items"]] == [
        (3, "MoneyWithdrawn", 3),
        (3, "MoneyWithdrawn", 6),
    ]
    rest = console.get(f"{STORE}/tenants/{TENANT}/streams", params={"cursor": streams["next"]}).json()
    assert [item["stream_id"] for item in rest["items"]] == [str(UUID(int=STREAM.int + 2))]
    assert rest["next"] is None
    assert console.get(f"{STORE}/tenants/{OTHER_TENANT}/streams").json() == {"items": [], "next": None}


def test_a_streams_events_are_paged_and_exact(console: ConsoleClient, stocked: Outbox) -> None:
    large = '{"n": 12345678901234567890123.5, "tiny": 1e-400}'
    stocked.database.run(
        "INSERT INTO Event (TenantId, StreamId, Version, Type, Meta, Data) VALUES (%s, %s, 4, 'Exact', '{}', %s)",
        [TENANT, STREAM, large],
    )
    answer = console.get(EVENTS, params={"limit": 2})
    assert '"n": 12345678901234567890123.5' in answer.text
    first = answer.json()
    assert [item["version"] for item in first["items"]] == [4, 3]
    rest = console.get(EVENTS, params={"cursor": first["next"]}).json()
    assert [(item["version"], item["data"], item["meta"]) for item in rest["items"]] == [
        (2, {"cents": 12_500}, {}),
        (1, {"owner": "Ada", "secret": "the body"}, {"by": "the metadata"}),
    ]
    assert rest["next"] is None
    assert console.get("/store", params={"tenant": str(TENANT)}).headers["location"] == PAGES[1]
    assert console.get(PAGES[1], params={"stream": str(STREAM)}).headers["location"] == PAGES[2]
    page = text_of(console.get(PAGES[2]))
    assert "4 · Exact" in page
    assert '"owner": "Ada"' in page


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (f"/tenants/{NOBODY}/streams", (404, "tenant-missing")),
        (f"/tenants/{NOBODY}/streams/{STREAM}/events", (404, "tenant-missing")),
        (f"/tenants/{TENANT}/streams/{NOBODY}/events", (404, "stream-missing")),
        ("/tenants/x/streams", (422, "invalid-request")),
        ("/tenants?cursor=x", (422, "invalid-request")),
        ("/tenants?limit=0", (422, "invalid-request")),
        (f"/tenants/{TENANT}/streams/{STREAM}/events?cursor=0", (422, "invalid-request")),
    ],
)
def test_errors_are_problems(console: ConsoleClient, path: str, expected: tuple[int, str]) -> None:
    assert problem(console.get(f"{STORE}{path}")) == expected


def test_each_role_sees_what_it_may(stocked: Outbox, tmp_path: Path) -> None:
    console = client_of(stocked.url_of("console"), CONSOLE_TOKENS_FILE=str(tokens_file(tmp_path)))
    for path in (*PAGES, STORE, EVENTS):
        assert console.get(path).status_code == 401
        for role in ("reader", "operator", "admin"):
            answer = console.get(path, headers={"Authorization": f"Bearer {token(f'{role}-token')}"})
            assert answer.status_code == 200
            if path in (PAGES[2], EVENTS):
                for secret in ("the body", "the metadata"):
                    assert (secret in answer.text) == (role != "reader"), (path, role)
    asyncio.run(console.app.state.console.store.close())


def test_without_a_store_the_answers_say_so(outbox: Outbox) -> None:
    console = client_of(outbox.url_of("console"))
    for path in ("", "/tenants", "/subscriptions", f"/tenants/{TENANT}/streams"):
        assert problem(console.get(f"{STORE}{path}")) == (503, "store-missing")
    page = console.get("/store")
    assert page.status_code == 200
    assert "relay-cli store migrate" in text_of(page)
    asyncio.run(console.app.state.console.store.close())


def test_without_the_rights_the_answer_names_the_grant(outbox: Outbox) -> None:
    stock_store(outbox.url, role="openoutbox_reader")
    console = client_of(outbox.url_of("console"))
    answer = console.get(f"{STORE}/tenants/{TENANT}/streams")
    assert problem(answer) == (503, "table-unusable")
    assert "relay-cli store grant USER console" in answer.json()["detail"]
    asyncio.run(console.app.state.console.store.close())
