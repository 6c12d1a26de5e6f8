"""The endpoints over a real socket, as a probe, a dashboard or a scraper would ask."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import httpx
import pytest

from relay.core.destination import DestinationCondition
from relay.core.errors import ConfigError
from relay.core.status import Exposition, Health, Readiness, Stats
from relay.core.storage import Backlog
from relay.core.telemetry import RelayState
from relay.server import ServerOptions, StatusServer
from relay.server.routes import application
from relay.telemetry.prometheus import PrometheusTelemetry
from relay.version import __version__

PATHS = ("/", "/healthz", "/livez", "/readyz", "/stats", "/metrics")


@dataclass
class ScriptedView:
    """A relay in the state that a test sets, with real metrics."""

    problem: str = ""
    state: Readiness = field(default_factory=Readiness)
    latest: Stats | None = None
    telemetry: PrometheusTelemetry = field(default_factory=lambda: PrometheusTelemetry("relay-1"))

    def health(self) -> Health:
        return Health(self.problem)

    def readiness(self) -> Readiness:
        return self.state

    async def stats(self) -> Stats | None:
        return self.latest

    def metrics(self, accept: str) -> Exposition:
        return Exposition(*self.telemetry.exposition(accept))


@pytest.fixture
def view() -> ScriptedView:
    return ScriptedView()


@pytest.fixture
async def server(view: ScriptedView) -> AsyncIterator[StatusServer]:
    server = StatusServer(view, ServerOptions("127.0.0.1", 0))
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def http(server: StatusServer) -> AsyncIterator[httpx.AsyncClient]:
    host, port = server.address
    async with httpx.AsyncClient(base_url=f"http://{host}:{port}") as client:
        yield client


async def test_a_living_relay_is_healthy_and_a_broken_one_says_what_has_stopped(
    http: httpx.AsyncClient, view: ScriptedView
) -> None:
    assert (await http.get("/healthz")).status_code == 200

    view.problem = "the claim loop ended"
    answer = await http.get("/healthz")

    assert answer.status_code == 503
    assert answer.json() == {"status": "failed", "reason": "the claim loop ended"}


@pytest.mark.parametrize(
    ("state", "status", "body"),
    [
        (Readiness(), 200, {"ready": True, "storage": "ok", "broker": "ok"}),
        (
            Readiness(broker_problem="no answer within 2 s"),
            503,
            {"ready": False, "storage": "ok", "broker": "unreachable: no answer within 2 s"},
        ),
        (
            Readiness(storage_problem="refused postgres://u:hunter2@h/db"),
            503,
            {"ready": False, "storage": "unreachable: refused postgres://u:***@h/db", "broker": "ok"},
        ),
        (
            Readiness(storage_problem='relation "t" does not exist (SQLSTATE 42P01)', storage_refuses=True),
            503,
            {"ready": False, "storage": 'failing: relation "t" does not exist (SQLSTATE 42P01)', "broker": "ok"},
        ),
        (
            Readiness(degraded={"delivery_log": "17 entries dropped"}),
            200,
            {"ready": True, "storage": "ok", "broker": "ok", "delivery_log": "degraded: 17 entries dropped"},
        ),
    ],
)
async def test_readiness_names_what_does_not_answer(
    http: httpx.AsyncClient, view: ScriptedView, state: Readiness, status: int, body: dict[str, object]
) -> None:
    view.state = state

    answer = await http.get("/readyz")

    assert (answer.status_code, answer.json()) == (status, body)


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("127.0.0.1", True),
        ("::ffff:127.0.0.1", True),
        ("::1", True),
        ("203.0.113.9", False),
        ("::ffff:203.0.113.9", False),
    ],
)
async def test_a_client_of_another_machine_is_given_states_and_no_words(
    view: ScriptedView, address: str, local: bool
) -> None:
    words = "words of a server"
    view.state = Readiness(words, words, degraded={"destination cache": words}, pauses=(words,))
    away = {"cache": DestinationCondition("away", 60.0, words)}
    view.latest = Stats("relay-1", RelayState.PAUSED, 5, Backlog(1, 0, 0, 0, 0), 0.25, (words,), away)
    transport = httpx.ASGITransport(application(view), client=(address, 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://relay") as client:
        ready = await client.get("/readyz")
        stats = await client.get("/stats")
    assert (words in ready.text, words in stats.text) == (local, local)
    assert ready.status_code == 503
    assert all(ready.json()[name].startswith("unreachable") for name in ("storage", "broker"))
    assert ready.json()["destination cache"].startswith("degraded")
    assert stats.json()["destinations"]["cache"]["state"] == "away"
    assert len(stats.json()["paused"]) == 1


async def test_stats_hold_the_numbers_of_the_contract_and_ours(http: httpx.AsyncClient, view: ScriptedView) -> None:
    destinations = {"cache": DestinationCondition("away", 60.0, "no answer from redis://user:secret@cache")}
    view.latest = Stats(
        "relay-1", RelayState.PAUSED, 5, Backlog(10, 3, 12.3456, 4.5, 2), 0.25, destinations=destinations
    )

    answer = await http.get("/stats")

    assert answer.status_code == 200
    body = answer.json()
    cache = body["destinations"]["cache"]
    assert (cache["state"], "secret" in cache["reason"]) == ("away", False)
    assert 59 <= (datetime.now(UTC) - datetime.fromisoformat(cache["since"])).total_seconds() <= 90
    assert {name: body[name] for name in ("pending_count", "retrying_count", "oldest_age_sec")} == {
        "pending_count": 10,
        "retrying_count": 3,
        "oldest_age_sec": 12.346,
    }
    assert (body["dead_count"], body["in_flight_count"], body["relay_state"]) == (2, 5, 2)


async def test_stats_are_unavailable_before_the_first_sample(http: httpx.AsyncClient) -> None:
    answer = await http.get("/stats")

    assert answer.status_code == 503
    assert "not been read" in answer.json()["error"]


async def test_metrics_come_in_the_format_that_is_asked_for(http: httpx.AsyncClient) -> None:
    plain = await http.get("/metrics")
    openmetrics = await http.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})

    assert plain.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'openoutbox_relay_state{relay_id="relay-1"} 3.0' in plain.text
    assert openmetrics.headers["content-type"].startswith("application/openmetrics-text")
    assert openmetrics.text.endswith("# EOF\n")


@pytest.mark.parametrize("path", PATHS)
async def test_head_has_the_status_and_no_body(http: httpx.AsyncClient, path: str) -> None:
    head, full = await http.head(path), await http.get(path)

    assert head.status_code == full.status_code
    assert head.content == b""


@pytest.mark.parametrize("path", ["/nothing", "/healthz/", "/metrics/x"])
async def test_an_unknown_path_is_an_error_in_json(http: httpx.AsyncClient, path: str) -> None:
    answer = await http.get(path)

    assert answer.status_code == 404
    assert answer.json() == {"error": "no endpoint has this path; GET / lists them"}


async def test_the_root_lists_every_endpoint(http: httpx.AsyncClient) -> None:
    answer = await http.get("/")

    assert answer.status_code == 200
    assert answer.json()["version"] == __version__
    assert set(answer.json()["endpoints"]) == set(PATHS) - {"/"}


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("path", ["", "/", "/attempts?limit=2", "/events/a/b", "/openapi.json"])
async def test_the_delivery_logs_api_is_gone_and_its_paths_say_where(
    http: httpx.AsyncClient, method: str, path: str
) -> None:
    answer = await http.request(method, f"/api/v1/log{path}")

    assert answer.status_code == 410
    assert "run relay-cli console" in answer.json()["error"]


async def test_livez_is_healthz(http: httpx.AsyncClient, view: ScriptedView) -> None:
    view.problem = "the claim loop ended"

    live, healthy = await http.get("/livez"), await http.get("/healthz")

    assert (live.status_code, live.json()) == (healthy.status_code, healthy.json())


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
async def test_other_methods_are_refused(http: httpx.AsyncClient, method: str, path: str) -> None:
    answer = await http.request(method, path)

    assert answer.status_code == 405
    assert answer.json() == {"error": "only GET and HEAD are answered here"}
    assert {word.strip() for word in answer.headers["allow"].split(",")} == {"GET", "HEAD"}


async def test_a_port_in_use_is_a_clear_error(server: StatusServer, view: ScriptedView) -> None:
    port = server.address[1]

    with pytest.raises(ConfigError, match=rf"SERVER_PORT=127.0.0.1:{port} cannot be bound: .*in use"):
        await StatusServer(view, ServerOptions("127.0.0.1", port)).start()


async def test_a_host_that_is_not_ours_is_a_clear_error(view: ScriptedView) -> None:
    with pytest.raises(ConfigError, match=r"SERVER_PORT=192\.0\.2\.1:0 cannot be bound"):
        await StatusServer(view, ServerOptions("192.0.2.1", 0)).start()


async def test_all_interfaces_answer_on_both_protocols(view: ScriptedView) -> None:
    server = StatusServer(view, ServerOptions("", 0))
    await server.start()
    hosts = ["127.0.0.1", "[::1]"] if socket.has_dualstack_ipv6() else ["127.0.0.1"]

    async with httpx.AsyncClient() as client:
        answers = [await client.get(f"http://{host}:{server.address[1]}/healthz") for host in hosts]
    await server.stop()

    assert [answer.status_code for answer in answers] == [200] * len(hosts)


async def test_it_stops_while_a_client_holds_its_connection(server: StatusServer) -> None:
    reader, writer = await asyncio.open_connection(*server.address)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")

    await server.stop()
    await server.stop()

    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*server.address)


async def test_a_view_that_fails_is_an_error_in_json(
    http: httpx.AsyncClient, view: ScriptedView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "health", lambda: 1 / 0)

    answer = await http.get("/healthz")

    assert answer.status_code == 500
    assert answer.json() == {"error": "internal error; the log says more"}
