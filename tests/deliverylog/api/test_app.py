"""The log's HTTP API: what it answers, whom it refuses, and that it keeps to its own OpenAPI document."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from relay.deliverylog import DeliveryLog, DeliveryLogUnavailable
from relay.deliverylog.api.access import MOST_REQUESTS
from relay.deliverylog.api.app import build_api
from relay.deliverylog.memory import MemoryDeliveryLog
from tests.deliverylog.conftest import Reopen
from tests.deliverylog.making import BASE, entry, event, ms
from tests.support.waiting import eventually

TOKEN = "secret-token"
COUNTED = "/metrics/events?start=2026-01-01&end=2026-01-02&measure=count"
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}
TOKENS = {TOKEN: None, "token-of-one": "one", "token-of-none": ""}


@pytest.fixture
async def client(store: DeliveryLog) -> AsyncIterator[httpx.AsyncClient]:
    async def opened() -> DeliveryLog:
        return store

    transport = httpx.ASGITransport(build_api(opened, TOKENS))
    async with httpx.AsyncClient(transport=transport, base_url="http://log/api/v1/log", headers=AUTHORIZED) as client:
        yield client


async def test_pages_filters_and_cursors(store: DeliveryLog, client: httpx.AsyncClient) -> None:
    its = [event(f"e/{i}", BASE + ms(i), topic=f"x{i % 2}", data=b"\xff\x00") for i in range(5)]
    await store.insert_many(
        [entry(f"a{i}", BASE + ms(i), one, response_data={"offset": i}) for i, one in enumerate(its)]
    )
    first = (await client.get("/attempts", params={"limit": 2, "order": "asc"})).json()
    assert [item["id"] for item in first["items"]] == ["a0", "a1"]
    assert first["prev"] is None
    second = (await client.get("/attempts", params={"limit": 2, "order": "asc", "next": first["next"]})).json()
    assert [item["id"] for item in second["items"]] == ["a2", "a3"]
    back = (await client.get("/attempts", params={"limit": 2, "order": "asc", "prev": second["prev"]})).json()
    assert back["items"] == first["items"]
    odd = (await client.get("/events", params={"topic": ["x1", "x7"], "time_gt": "2026-03-10T12:00:00.001Z"})).json()
    assert [item["id"] for item in odd["items"]] == ["e/3"]
    assert not any("data_base64" in item for item in odd["items"])
    odd = (await client.get("/events", params={"topic": "x1", "include": "data"})).json()
    assert all(base64.b64decode(item["data_base64"]) == b"\xff\x00" for item in odd["items"])
    assert "data_base64" not in (await client.get("/events/e/3")).json()
    one = (await client.get("/events/e/3", params={"tenant_id": "t1", "include": "data"})).json()
    assert base64.b64decode(one["data_base64"]) == b"\xff\x00"
    assert one["time"] == "2026-03-10T12:00:00.003Z"
    attempt = (await client.get("/attempts/a3")).json()
    assert (attempt["response_data"], attempt["event"]["id"], attempt["status"]) == ({"offset": 3}, "e/3", "success")
    window = {"start": "2026-03-10T12:00:00Z", "end": (BASE + timedelta(hours=2)).isoformat()}
    counted = await client.get(
        "/metrics/attempts",
        params={**window, "measure": ["count", "rate"], "granularity": "1h", "filter": ["topic=x1", "manual=false"]},
    )
    assert [(row["time"], row["count"]) for row in counted.json()["rows"]] == [
        ("2026-03-10T12:00:00.000Z", 2),
        ("2026-03-10T13:00:00.000Z", 0),
    ]
    events = await client.get("/metrics/events", params={**window, "measure": "count", "dimension": "topic"})
    assert events.json()["rows"] == [{"topic": "x0", "count": 3}, {"topic": "x1", "count": 2}]


@pytest.fixture
def driver() -> str:
    """What follows does not depend on the driver."""
    return "memory"


class TestRefusals:
    """Errors, the same whatever driver is behind them."""

    @pytest.fixture
    def reopen(self) -> Reopen:
        async def opened() -> DeliveryLog:
            return MemoryDeliveryLog()

        return opened

    async def test_an_unknown_parameter_is_answered_with_the_known_ones(self, client: httpx.AsyncClient) -> None:
        message = (await client.get("/attempts?tenant=acme")).json()["message"]
        assert message.startswith("unknown parameter 'tenant'; choose from destination_id, destination_type, ")
        assert "tenant_id" in message

    @pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
    async def test_the_scheme_is_in_any_case(self, client: httpx.AsyncClient, scheme: str) -> None:
        answer = await client.get("/events", headers={"Authorization": f"{scheme} {TOKEN}"})
        assert answer.status_code == 200

    @pytest.mark.parametrize("header", [None, "Bearer wrong", TOKEN, f"bearer {TOKEN}x", "Bearer ", f"Basic {TOKEN}"])
    async def test_without_the_token_nothing_is_answered(self, client: httpx.AsyncClient, header: str | None) -> None:
        client.headers.pop("Authorization")
        for path in ("/events", "/attempts/x", "/metrics/events", "/openapi.json", "/nowhere"):
            answer = await client.get(path, headers={} if header is None else {"Authorization": header})
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")

    @pytest.mark.parametrize(
        ("path", "status", "kind"),
        [
            ("/events?next=!", 400, "InvalidCursor"),
            ("/events?order=up", 400, "InvalidQuery"),
            ("/events?limit=many", 400, "InvalidQuery"),
            ("/events?time_gte=2026-03-10T12:00:00", 400, "InvalidTimeRange"),
            ("/events?tenant_id=%00", 400, "InvalidQuery"),
            ("/attempts?status=lost", 400, "InvalidQuery"),
            ("/attempts?next=a&prev=b", 400, "InvalidQuery"),
            ("/events/none", 404, "not_found"),
            ("/attempts/none", 404, "not_found"),
            ("/metrics/events?start=2026-01-01&end=2025-01-01&measure=count", 400, "InvalidTimeRange"),
            ("/metrics/events?start=2026-01-01&end=2026-01-02", 400, "InvalidQuery"),
            ("/metrics/events?start=2026-01-01&end=2026-02-02&measure=count&granularity=1s", 400, "ResourceLimit"),
            ("/metrics/events?start=2026-01-01&end=2026-01-02&measure=count&filter=topic", 400, "InvalidQuery"),
            ("/attempts?tenant=acme", 400, "InvalidQuery"),
            ("/events/e?tenant=acme", 400, "InvalidQuery"),
            ("/events?include=everything", 400, "InvalidQuery"),
            ("/events?" + "&".join(f"topic=t{n}" for n in range(101)), 400, "ResourceLimit"),
            (f"{COUNTED}&" + "&".join(f"filter=topic=t{n}" for n in range(101)), 400, "ResourceLimit"),
        ],
    )
    async def test_errors_say_what_was_wrong(
        self, client: httpx.AsyncClient, path: str, status: int, kind: str
    ) -> None:
        answer = await client.get(path)
        assert (answer.status_code, answer.json()["error"]) == (status, kind)
        assert answer.json()["message"]

    async def test_nothing_can_be_written(self, client: httpx.AsyncClient) -> None:
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            assert (await client.request(method, "/events")).status_code == 405

    async def test_a_log_that_is_away_is_unavailable(self) -> None:
        async def away() -> DeliveryLog:
            raise DeliveryLogUnavailable("the delivery log's database does not answer")

        transport = httpx.ASGITransport(build_api(away, TOKENS))
        async with httpx.AsyncClient(
            transport=transport, base_url="http://log/api/v1/log", headers=AUTHORIZED
        ) as client:
            answer = await client.get("/events")
        assert (answer.status_code, answer.json()["error"]) == (503, "DeliveryLogUnavailable")

    def test_an_empty_token_is_no_token(self) -> None:
        async def never() -> DeliveryLog:
            raise AssertionError

        with pytest.raises(ValueError, match="token"):
            build_api(never, {"": None})
        with pytest.raises(ValueError, match="token"):
            build_api(never, {})


class TestTenantTokens:
    """A token that is tied to a tenant reads that tenant, whatever the request says."""

    @pytest.fixture
    def reopen(self) -> Reopen:
        async def opened() -> DeliveryLog:
            return STORE

        return opened

    @pytest.mark.parametrize(("token", "tenant", "count"), [("token-of-one", "t1", 15), (TOKEN, None, 30)])
    async def test_it_reads_its_tenant_alone(self, token: str, tenant: str | None, count: int) -> None:
        transport = httpx.ASGITransport(build_api(the_store, {TOKEN: None, "token-of-one": "t1"}))
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://log/api/v1/log", headers=headers) as client:
            for path in ("/events", "/attempts"):
                items = (await client.get(path)).json()["items"]
                assert len(items) == count
                assert {item["tenant_id"] for item in items} == ({tenant} if tenant else {"t0", "t1"})
            metrics = await client.get(f"{WINDOW}&measure=count")
            assert metrics.json()["rows"] == [{"count": count}]
            assert (await client.get("/attempts/a1")).status_code == 200
            assert (await client.get("/attempts/a0")).status_code == (404 if tenant else 200)
            for path in ("/events?tenant_id=t0", "/attempts/a0?tenant_id=t0", f"{WINDOW}&measure=count&{FOREIGN}"):
                answer = await client.get(path)
                assert answer.status_code == (403 if tenant else 200), path

    async def test_a_tenant_without_a_name_is_a_tenant(self, client: httpx.AsyncClient) -> None:
        headers = {"Authorization": "Bearer token-of-none"}
        assert (await client.get("/events", headers=headers)).json()["items"] == []


WINDOW = "/metrics/attempts?start=2026-03-10&end=2026-03-11"
FOREIGN = "filter=tenant_id=t0"


async def test_a_request_too_many_is_refused_at_once() -> None:
    waiting = asyncio.Event()
    admitted = []

    async def slow() -> DeliveryLog:
        admitted.append(1)
        await waiting.wait()
        return STORE

    transport = httpx.ASGITransport(build_api(slow, TOKENS))
    async with httpx.AsyncClient(transport=transport, base_url="http://log/api/v1/log", headers=AUTHORIZED) as client:
        running = [asyncio.create_task(client.get("/events")) for _ in range(MOST_REQUESTS)]
        await eventually(lambda: len(admitted) == MOST_REQUESTS)
        answer = await client.get("/events")
        assert (answer.json()["error"], answer.headers["retry-after"]) == ("busy", "1")
        waiting.set()
        assert [task.status_code for task in await asyncio.gather(*running)] == [200] * MOST_REQUESTS
        assert (await client.get("/events")).status_code == 200


def filled_memory() -> MemoryDeliveryLog:
    store = MemoryDeliveryLog()
    asyncio.run(store.insert_many([entry(f"a{i}", BASE + ms(i), tenant_id=f"t{i % 2}") for i in range(30)]))
    return store


STORE = filled_memory()


async def the_store() -> DeliveryLog:
    return STORE


schema = schemathesis.openapi.from_asgi("/api/v1/log/openapi.json", build_api(the_store, TOKENS), headers=AUTHORIZED)


@schema.parametrize()
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_api_keeps_to_its_document(case: Case[Any]) -> None:
    # A cursor, a range that ends before it begins or a filter's name cannot be expressed by a schema; and what is
    # a number in a schema is text in a query string, so that "wrong type" means nothing there.
    case.call_and_validate(headers=AUTHORIZED, excluded_checks=[positive_data_acceptance, negative_data_rejection])
