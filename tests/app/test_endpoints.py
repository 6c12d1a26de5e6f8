"""Webhooks by each of the three ways to configure them: one destination a host, in the same words."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from relay.app.destinations import Destinations
from relay.core.errors import BrokerUnreachable
from relay.core.event import OutboxEvent
from relay.core.outcome import ACKNOWLEDGED, Away, Outcome, Permanent, Transient, Unreachable
from relay.engine.destination.destination import troubles
from relay.localservers.process import free_port
from relay.settings.settings import Settings
from relay.telemetry.prometheus import exposition_of
from tests.brokers.harness.base import Collector, make_event
from tests.support.servers.tcp_proxy import Mode, TcpProxy
from tests.support.servers.webhooks import WebhookServer
from tests.support.waiting import patience, wait_until_async

pytestmark = pytest.mark.http

BASE = {
    "STORAGE_URL": "postgres://h/d",
    "HTTP_ALLOW_PRIVATE": "true",
    "PUBLISHER_CONNECT_RETRY_INTERVAL": "50ms",
    "HTTP_TIMEOUT": "300ms",
}


@pytest.fixture(scope="module")
def server() -> Iterator[WebhookServer]:
    """A receiver without TLS."""
    with WebhookServer() as receiver:
        yield receiver


@asynccontextmanager
async def opened(**variables: str) -> AsyncIterator[Destinations]:
    built = Destinations(Settings.from_env(BASE | variables))
    await built.publisher.open()
    try:
        yield built
    finally:
        await built.publisher.close()


def table(path: Path, **urls: str) -> dict[str, str]:
    """A table of one endpoint for each type."""
    rows = [f'[[endpoints]]\nevents = "{event_type}"\nurl = "{url}"\n' for event_type, url in urls.items()]
    path.write_text("\n".join(rows))
    return {"PUBLISHER_TYPE": "http", "HTTP_ENDPOINTS_FILE": str(path)}


async def outcomes(built: Destinations, events: list[OutboxEvent]) -> list[Outcome]:
    sink = Collector()
    await built.publisher.publish(events, sink)
    return await sink.outcomes(events)


async def test_a_host_that_is_down_holds_back_only_its_own_events(server: WebhookServer, tmp_path: Path) -> None:
    gone = f"127.0.0.1:{free_port()}"
    async with opened(**table(tmp_path / "t", down=f"http://{gone}/", up=server.url)) as built:
        found = await outcomes(built, [make_event("down" if n % 2 else "up") for n in range(20)])
        assert found[::2] == [ACKNOWLEDGED] * 10
        assert set(found[1::2]) == {
            Away(f"destination {gone}: http://{gone}: Connection refused", f"destination {gone}")
        }
        await built.publisher.probe(patience())  # one that answers is enough


async def test_when_none_answers_the_probe_fails_and_names_them(tmp_path: Path) -> None:
    ports = free_port(), free_port()
    urls = {"a": f"http://127.0.0.1:{ports[0]}/", "b": f"http://127.0.0.1:{ports[1]}/"}
    async with opened(**table(tmp_path / "t", **urls)) as built:
        with pytest.raises(BrokerUnreachable) as error:
            await built.publisher.probe(patience())
    assert all(f"destination 127.0.0.1:{port}: " in str(error.value) for port in ports)


async def test_a_type_without_an_endpoint_is_transient(server: WebhookServer, tmp_path: Path) -> None:
    async with opened(**table(tmp_path / "t", known=server.url)) as built:
        unknown, known = await outcomes(built, [make_event("unknown"), make_event("known")])
    assert isinstance(unknown, Transient)
    assert (unknown.code, known) == ("NO_ENDPOINT", ACKNOWLEDGED)


async def test_routes_stand_before_the_endpoints_and_endpoints_may_stand_in_a_destination(
    server: WebhookServer, tmp_path: Path
) -> None:
    (tmp_path / "routes").write_text(
        '[[route]]\ntype = "a.*"\nvia = "hooks"\nto = "shop.{type}"\n[[route]]\ntype = "b.*"\nvia = "hooks"\n'
    )
    endpoints = table(tmp_path / "t", **{"shop.a.*": server.url})["HTTP_ENDPOINTS_FILE"]
    (tmp_path / "d").write_text(f'[main]\ntype = "null"\n[hooks]\ntype = "http"\nhttp_endpoints_file = "{endpoints}"\n')
    files = {"DESTINATIONS_FILE": str(tmp_path / "d"), "ROUTES_FILE": str(tmp_path / "routes")}
    async with opened(**files) as built:
        taken, unknown, other = await outcomes(built, [make_event("a.x"), make_event("b.x"), make_event("c")])
        assert built.publisher.destination_of(make_event("a.x")) == f"hooks/127.0.0.1:{server.port}"
        assert built.logged is not None
        assert built.logged(make_event("a.x")) == (f"hooks/127.0.0.1:{server.port}", "http")
    assert (taken, other) == (ACKNOWLEDGED, ACKNOWLEDGED)
    assert isinstance(unknown, Transient)
    assert server.received("shop.a.x")


def listed(way: str, url: str, folder: Path) -> dict[str, str]:
    """Two destinations at one receiver; 422 is in the list of the one that ``status.422.1`` goes to."""
    rows = {"status.422.1": "http_permanent_statuses = [400, 422]\n", "status.422.2": ""}
    if way == "HTTP_ENDPOINTS_FILE":
        text = "".join(f'[[endpoints]]\nevents = "{one}"\nurl = "{url}"\n{more}' for one, more in rows.items())
        (folder / "t").write_text(text)
        return {"PUBLISHER_TYPE": "http", way: str(folder / "t")}
    (folder / "d").write_text("".join(f'[d{one[-1]}]\nurl = "{url}"\n{more}' for one, more in rows.items()))
    (folder / "r").write_text("".join(f'[[route]]\ntype = "{one}"\nvia = "d{one[-1]}"\n' for one in rows))
    return {way: str(folder / "d"), "ROUTES_FILE": str(folder / "r")}


@pytest.mark.parametrize("way", ["HTTP_ENDPOINTS_FILE", "DESTINATIONS_FILE"])
async def test_a_status_is_permanent_for_the_destination_alone_that_lists_it(
    way: str, server: WebhookServer, tmp_path: Path
) -> None:
    async with opened(**listed(way, server.url, tmp_path)) as built:
        final, other = await outcomes(built, [make_event("status.422.1"), make_event("status.422.2")])
    assert isinstance(final, Permanent)
    assert isinstance(other, Transient)
    assert (final.code, other.code, other.not_before) == ("HTTP_422", "HTTP_422", 2.0)


class Host:
    """One webhook host behind a proxy, and what is said of it."""

    def __init__(self, built: Destinations, name: str, proxy: TcpProxy) -> None:
        self.built, self.name, self.proxy = built, name, proxy

    def shown(self) -> tuple[int, list[str]]:
        """Its state in the metrics, and what /readyz names."""
        members = [*self.built.publisher.members.values()]
        text = exposition_of(lambda: self.built.read(members), "r")
        [line] = [one for one in text.splitlines() if one.startswith("openoutbox_destination_state{")]
        assert f'destination="{self.name}"' in line
        return int(float(line.rpartition(" ")[2])), list(troubles(members))

    async def comes_back(self) -> None:
        """It answers, and takes events."""
        self.proxy.set(Mode.FLOW)

        async def acknowledged() -> bool:
            return await outcomes(self.built, [make_event("a")]) == [ACKNOWLEDGED]

        await wait_until_async(acknowledged, what="an event to be taken")
        assert self.shown() == (1, [])


def one_host(way: str, url: str, folder: Path) -> tuple[dict[str, str], str]:
    """The variables, and the name of the destination."""
    (folder / "d").write_text(f'[hook]\nurl = "{url}"\n')
    return {
        "PUBLISHER_URL": ({"PUBLISHER_URL": url, "PUBLISHER_NAME": "hook"}, "hook"),
        "HTTP_ENDPOINTS_FILE": (table(folder / "t", **{"*": url}), url.split("/")[2]),
        "DESTINATIONS_FILE": ({"DESTINATIONS_FILE": str(folder / "d")}, "hook"),
    }[way]


@pytest.mark.parametrize("way", ["PUBLISHER_URL", "HTTP_ENDPOINTS_FILE", "DESTINATIONS_FILE"])
async def test_a_host_that_is_gone_or_takes_nothing_has_one_vocabulary(
    way: str, server: WebhookServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Log, /readyz and metric say the same, whichever variable names the host."""
    caplog.set_level(logging.INFO)
    with TcpProxy(server.port) as proxy:
        variables, name = one_host(way, f"http://127.0.0.1:{proxy.port}/x", tmp_path)
        async with opened(**variables) as built:
            host = Host(built, name, proxy)
            assert host.shown() == (1, [])
            proxy.set(Mode.REFUSE)
            [gone] = await outcomes(built, [make_event("a")])
            assert isinstance(gone, Unreachable), "no other destination answers"
            assert host.shown() == (4, [f"destination {name}"])
            await host.comes_back()
            proxy.set(Mode.SILENCE)
            found = await outcomes(built, [make_event("a") for _ in range(40)])
            assert {type(one) for one in found} == {Transient, Away}, "only what was sent uses an attempt"
            assert host.shown() == (3, [f"destination {name}"])
            await host.comes_back()
    said = [vars(record)["action"] for record in caplog.records if vars(record).get("destination") == name]
    assert said == ["destination_away", "destination_back", "destination_blocked", "destination_back"]


async def test_events_that_come_one_by_one_find_a_host_that_takes_nothing(server: WebhookServer) -> None:
    with TcpProxy(server.port) as proxy:
        async with opened(PUBLISHER_URL=f"http://127.0.0.1:{proxy.port}/x") as built:
            proxy.set(Mode.SILENCE)
            found = [await outcomes(built, [make_event("a")]) for _ in range(6)]
    assert [type(one) for [one] in found] == [Transient] * 5 + [Away]
