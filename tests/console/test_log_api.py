"""The delivery log's operations: what they answer, whom they refuse, and that other requests go on meanwhile."""

from __future__ import annotations

import asyncio
import base64
import itertools
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from relay.console.storethread import MOST_REQUESTS
from relay.deliverylog import DeliveryLog, LogEntry
from tests.console.access.making import token, tokens_file
from tests.console.conftest import ADDRESS, ConsoleClient, client_of
from tests.console.test_api import problem
from tests.deliverylog.making import BASE, entry, event, ms
from tests.support.waiting import eventually, pace_async

LOG = "/api/v1/log"
COUNTED = "/metrics/events?start=2026-01-01&end=2026-01-02&measure=count"
NOWHERE = "postgres://nobody@127.0.0.1:1/none"  # the outbox, which these operations do not need
_numbers = itertools.count()


def write(console: ConsoleClient, entries: Sequence[LogEntry]) -> None:
    """Insert entries into the console's log."""
    asyncio.run(console.app.state.console.log.read(lambda log: log.insert_many(entries)))


@pytest.fixture(
    params=[
        "memory",
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("clickhouse", marks=[pytest.mark.clickhouse, pytest.mark.xdist_group("clickhouse")]),
    ]
)
def console(request: pytest.FixtureRequest) -> Iterator[ConsoleClient]:
    """A console with an empty log of each driver."""
    variables = {"DELIVERY_LOG_URL": "memory://"}
    if request.param == "postgres":
        variables["DELIVERY_LOG_URL"] = request.getfixturevalue("log_database").url
    elif request.param == "clickhouse":
        variables["DELIVERY_LOG_URL"] = f"chdb:///{request.getfixturevalue('chdb_folder')}"
        variables["DELIVERY_LOG_PREFIX"] = f"console{next(_numbers)}_"
    client = client_of(NOWHERE, **variables)
    if request.param == "clickhouse":
        asyncio.run(client.app.state.console.log.read(lambda log: log.migrate()))
    yield client
    asyncio.run(client.app.state.console.log.close())


@pytest.fixture
def memory() -> Iterator[ConsoleClient]:
    """A console with a log in memory: what does not depend on the driver."""
    client = client_of(NOWHERE, DELIVERY_LOG_URL="memory://")
    yield client
    asyncio.run(client.app.state.console.log.close())


def test_pages_filters_and_cursors(console: ConsoleClient) -> None:
    its = [event(f"e/{i}", BASE + ms(i), topic=f"x{i % 2}", data=b"\xff\x00") for i in range(5)]
    write(
        console,
        [entry(f"a{i}", BASE + ms(i), its[i], response_data={"offset": i}, code=f"E{i % 2}") for i in range(5)],
    )
    first = console.get(f"{LOG}/attempts", params={"limit": 2, "order": "asc"}).json()
    assert [item["id"] for item in first["items"]] == ["a0", "a1"]
    assert first["prev"] is None
    second = console.get(f"{LOG}/attempts", params={"limit": 2, "order": "asc", "next": first["next"]}).json()
    assert [item["id"] for item in second["items"]] == ["a2", "a3"]
    back = console.get(f"{LOG}/attempts", params={"limit": 2, "order": "asc", "prev": second["prev"]}).json()
    assert back["items"] == first["items"]
    coded = console.get(f"{LOG}/attempts", params={"code": "E1"}).json()
    assert [item["id"] for item in coded["items"]] == ["a3", "a1"]
    odd = console.get(f"{LOG}/events", params={"topic": ["x1", "x7"], "time_gt": "2026-03-10T12:00:00.001Z"}).json()
    assert [item["id"] for item in odd["items"]] == ["e/3"]
    assert not any("data_base64" in item for item in odd["items"])
    odd = console.get(f"{LOG}/events", params={"topic": "x1", "include": "data"}).json()
    assert all(base64.b64decode(item["data_base64"]) == b"\xff\x00" for item in odd["items"])
    assert "data_base64" not in console.get(f"{LOG}/events/e/3").json()
    one = console.get(f"{LOG}/events/e/3", params={"tenant_id": "t1", "include": "data"}).json()
    assert base64.b64decode(one["data_base64"]) == b"\xff\x00"
    assert one["time"] == "2026-03-10T12:00:00.003Z"
    attempt = console.get(f"{LOG}/attempts/a3").json()
    assert (attempt["response_data"], attempt["event"]["id"], attempt["status"]) == ({"offset": 3}, "e/3", "success")


def test_counts(console: ConsoleClient) -> None:
    write(console, [entry(f"a{i}", BASE + ms(i), topic=f"x{i % 2}") for i in range(5)])
    window = {"start": "2026-03-10T12:00:00Z", "end": (BASE + timedelta(hours=2)).isoformat()}
    counted = console.get(
        f"{LOG}/metrics/attempts",
        params={**window, "measure": ["count", "rate"], "granularity": "1h", "filter": ["topic=x1", "manual=false"]},
    )
    assert [(row["time"], row["count"]) for row in counted.json()["rows"]] == [
        ("2026-03-10T12:00:00.000Z", 2),
        ("2026-03-10T13:00:00.000Z", 0),
    ]
    events = console.get(f"{LOG}/metrics/events", params={**window, "measure": "count", "dimension": "topic"})
    assert events.json()["rows"] == [{"topic": "x0", "count": 3}, {"topic": "x1", "count": 2}]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/events?next=!", (400, "invalid-cursor")),
        ("/events?order=up", (422, "invalid-request")),
        ("/events?limit=many", (422, "invalid-request")),
        ("/events?time_gte=2026-03-10T12:00:00", (400, "invalid-query")),
        ("/events?tenant_id=%00", (400, "invalid-query")),
        ("/attempts?status=lost", (400, "invalid-query")),
        ("/attempts?next=a&prev=b", (400, "invalid-query")),
        ("/events/none", (404, "event-missing")),
        ("/attempts/none", (404, "attempt-missing")),
        ("/metrics/events?start=2026-01-01&end=2025-01-01&measure=count", (400, "invalid-query")),
        ("/metrics/events?start=2026-01-01&end=2026-01-02", (422, "invalid-request")),
        (
            "/metrics/events?start=2026-01-01&end=2026-02-02&measure=count&granularity=1s",
            (400, "answer-too-large"),
        ),
        ("/metrics/events?start=2026-01-01&end=2026-01-02&measure=count&filter=topic", (400, "invalid-query")),
        ("/attempts?tenant=acme", (422, "invalid-request")),
        ("/events/e?tenant=acme", (422, "invalid-request")),
        ("/events?include=everything", (422, "invalid-request")),
        ("/events?" + "&".join(f"topic=t{n}" for n in range(101)), (400, "answer-too-large")),
        (f"{COUNTED}&" + "&".join(f"filter=topic=t{n}" for n in range(101)), (400, "answer-too-large")),
    ],
)
def test_errors_are_problems(memory: ConsoleClient, path: str, expected: tuple[int, str]) -> None:
    assert problem(memory.get(f"{LOG}{path}")) == expected


def test_an_unknown_parameter_is_answered_with_the_known_ones(memory: ConsoleClient) -> None:
    detail = memory.get(f"{LOG}/attempts?tenant=acme").json()["detail"]
    assert detail.startswith("unknown parameter 'tenant'; choose from code, destination_id, destination_type, ")
    assert "time_gte" in detail


def test_nothing_can_be_written(memory: ConsoleClient) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert problem(memory.request(method, f"{LOG}/events")) == (405, "method-not-allowed")


def test_payloads_headers_and_responses_are_for_those_who_may_see_them(tmp_path: Path) -> None:
    variables = {"DELIVERY_LOG_URL": "memory://", "CONSOLE_TOKENS_FILE": str(tokens_file(tmp_path))}
    console = client_of(NOWHERE, **variables)
    its = event("e1", data=b"the payload", metadata={"name": "the header"})
    write(console, [entry("a1", of=its, response_data={"reason": "the response"}, code="E1")])
    data = base64.b64encode(b"the payload").decode()
    for path in ("/events", "/events/e1", "/attempts", "/attempts/a1"):
        assert problem(console.get(f"{LOG}{path}")) == (401, "unauthorized")
        texts = {
            role: console.get(
                f"{LOG}{path}?include=data", headers={"Authorization": f"Bearer {token(f'{role}-token')}"}
            ).text
            for role in ("reader", "operator")
        }
        assert "the header" in texts["operator"]
        assert data in texts["operator"]
        assert '"metadata":null' in texts["reader"]
        assert '"data_base64":null' in texts["reader"]
        assert "the header" not in texts["reader"]
        if "attempts" in path:
            assert "the response" in texts["operator"]
            assert '"response_data":null' in texts["reader"]
            assert '"code":"E1"' in texts["reader"]
    asyncio.run(console.app.state.console.log.close())


@pytest.mark.parametrize(
    "path", ["/events", "/attempts/a", "/metrics/attempts?start=2026-01-01&end=2026-01-02&measure=count"]
)
def test_without_a_log_the_answer_says_how_to_get_one(path: str) -> None:
    answer = client_of(NOWHERE).get(f"{LOG}{path}")
    assert problem(answer) == (503, "log-missing")
    assert "set DELIVERY_LOG_URL" in answer.json()["detail"]


def test_a_log_that_does_not_answer_is_unavailable() -> None:
    console = client_of(NOWHERE, DELIVERY_LOG_URL=NOWHERE)
    assert problem(console.get(f"{LOG}/events")) == (503, "log-unavailable")
    asyncio.run(console.app.state.console.log.close())


def test_a_request_too_many_is_refused_at_once(memory: ConsoleClient) -> None:
    async def run() -> None:
        log = memory.app.state.console.log
        release = asyncio.Event()
        running: list[int] = []

        async def hold(_: DeliveryLog) -> None:
            running.append(1)
            await release.wait()

        held = [asyncio.create_task(log.read(hold)) for _ in range(MOST_REQUESTS)]
        await eventually(lambda: len(running) == MOST_REQUESTS)
        async with client(memory) as requests:
            answer = await requests.get(f"{LOG}/events")
            assert problem(answer) == (429, "busy")
            assert answer.headers["retry-after"] == "1"
            for task in held:
                task.cancel()
            await asyncio.wait(held)
            assert (await requests.get(f"{LOG}/events")).status_code == 200

    asyncio.run(run())


def test_a_long_answer_holds_no_other_request(memory: ConsoleClient) -> None:
    """A count with 100,000 rows takes seconds of Python; the loop that serves requests goes on meanwhile."""
    window = {"start": "2026-03-10T00:00:00Z", "end": "2026-03-11T03:46:40Z"}
    query = {**window, "granularity": "1s", "measure": ["count", "error_rate", "rate"]}
    gaps: list[float] = []

    async def tick() -> None:
        last = time.monotonic()
        while True:
            await pace_async(0.001)
            gaps.append(time.monotonic() - last)
            last += gaps[-1]

    async def run() -> tuple[httpx.Response, float]:
        async with client(memory) as requests:
            await requests.get(f"{LOG}/events")  # starts the thread and opens the log
            ticking = asyncio.create_task(tick())
            began = time.monotonic()
            answer = await requests.get(f"{LOG}/metrics/attempts", params=query)
            ticking.cancel()
            return answer, time.monotonic() - began

    answer, seconds = asyncio.run(run())
    assert answer.status_code == 200
    assert answer.content.count(b'"time"') == 100_000
    assert max(gaps) < seconds / 2, f"the loop stood still for {max(gaps):.3f} of {seconds:.3f} s"


def client(console: ConsoleClient) -> httpx.AsyncClient:
    """For several requests at once."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(console.app), base_url=ADDRESS)
