"""docs/guide/routing.md as it stands: its files are accepted, and do what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from relay.routing.rules import Dropped, Routes, Sent, SentToAll
from relay.settings.destinations_file import read_destinations
from relay.settings.routes_file import read_routes
from relay.settings.settings import Settings
from tests.brokers.harness.base import make_event
from tests.support.paths import ROOT

TEXT = (ROOT / "docs/guide/routing.md").read_text(encoding="utf-8")
ROUTES, DESTINATIONS, VIA, SEVERAL = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("routes", ROUTES), ("destinations", DESTINATIONS), ("via", VIA), ("several", SEVERAL)):
        (tmp_path / name).write_text(text.replace("/run/secrets", str(tmp_path)))
    (tmp_path / "rabbitmq-url").write_text("amqp://h")
    return tmp_path


def test_the_routes_do_what_the_page_says(folder: Path) -> None:
    routes = Routes(read_routes(str(folder / "routes"), [], "tenant_id"))

    def name(event_type: str, headers: str = "{}") -> str:
        decision = routes.decide(make_event(event_type, headers=headers))
        assert isinstance(decision, Sent)
        return decision.name

    assert name("orders.created") == "shop.orders.created"
    assert name("invoice.created", '{"tenant_id": "acme", "region": "eu"}') == "billing.acme.eu"
    assert name("other") == "other"
    assert isinstance(routes.decide(make_event("debug.x")), Dropped)


def test_the_destinations_are_what_the_page_says(folder: Path) -> None:
    variables = {"STORAGE_URL": "postgres://127.0.0.1/db", "DESTINATIONS_FILE": str(folder / "destinations")}
    main, legacy = read_destinations(Settings.from_env(variables)).values()
    assert (main.publisher_type, main.kafka_compression) == ("kafka", "zstd")
    assert (legacy.publisher_type, legacy.rabbitmq_exchange) == ("rabbitmq", "events")
    routes = Routes(read_routes(str(folder / "via"), ["main", "legacy"], "tenant_id"), default="main")
    assert routes.decide(make_event("legacy.x"))[:2] == ("legacy", "legacy.x")
    assert routes.decide(make_event("x"))[:2] == ("main", "x")
    routes = Routes(read_routes(str(folder / "several"), ["main", "legacy"], "tenant_id"))
    decision = routes.decide(make_event("orders.paid"))
    assert isinstance(decision, SentToAll)
    assert [one[:2] for one in decision.sent] == [("main", "shop.orders.paid"), ("legacy", "orders")]
