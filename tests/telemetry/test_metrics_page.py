"""docs/reference/metrics.md names exactly the metrics that are served, each with its type, its labels and its help."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from relay.app.delivery_log import LogCollector
from relay.app.destinations import RoutingCollector
from relay.eventstore.prometheus import CheckpointCollector, PrometheusMeter
from relay.eventstore.states import SubscriptionState
from relay.routing.drops import Drops
from relay.telemetry.__main__ import renewed
from relay.telemetry.prometheus import PrometheusTelemetry
from tests.support.paths import ROOT

TEXT = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
NOW = datetime(2026, 3, 10, tzinfo=UTC)
Rows = set[tuple[str, str, frozenset[str], str]]


def relay() -> bytes:
    """A scrape of every relay's own registry."""
    telemetry = PrometheusTelemetry("relay-1")
    telemetry.away(["orders.created"])
    return telemetry.exposition()[0]


def routing() -> bytes:
    """What a relay with routes and several destinations adds."""
    drops = Drops()
    drops.counts["user.signup"] += 1
    several: Any = SimpleNamespace(members={"cache": SimpleNamespace(reason="")})
    return scrape(RoutingCollector(drops, several, "relay-1"))


def delivery_log() -> bytes:
    """What a relay with a delivery log adds."""
    counters: Any = SimpleNamespace(written=1, dropped=1, quarantined=1, ready_until=NOW)
    return scrape(LogCollector(counters, "relay-1"))


def subscriptions() -> bytes:
    """Those of subscriptions, in the daemon and in a consumer."""
    collector = CheckpointCollector("app", "bank")
    collector.show([SubscriptionState("balances", 1, True, NOW, None, 0, 0.0)], 1.0)
    registry = CollectorRegistry()
    meter = PrometheusMeter(registry)
    meter.active("balances", True)
    meter.delivered("balances", 1)
    meter.lag("balances", 0, 0.0)
    meter.blocked("balances", 0.0)
    return scrape(collector) + generate_latest(registry)


def scrape(collector: Collector) -> bytes:
    """The collector's metrics as Prometheus reads them."""
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry)


def served(exposition: bytes) -> Rows:
    """Name, type, labels and help of each metric, without the client's own."""
    return {
        (
            family.name,
            family.type,
            frozenset(label for sample in family.samples for label in sample.labels) - {"le"},
            family.documentation,
        )
        for family in text_string_to_metric_families(exposition.decode())
        if not family.name.startswith("process_") and not family.name.endswith("_created")
    }


def described(title: str) -> Rows:
    """The rows of a section of the page."""
    lines = re.findall(
        r"^\| `(\w+)` \| (\w+) \| (.*?) \| (.*) \|$", TEXT.split(f"## {title}\n")[1].split("\n## ")[0], re.MULTILINE
    )
    return {
        (name.removesuffix("_total"), kind, frozenset(re.findall(r"`(\w+)`", labels)), meaning)
        for name, kind, labels, meaning in lines
    }


def test_the_table_of_the_relays_metrics_is_up_to_date() -> None:
    assert renewed(TEXT) == TEXT, "run: python -m relay.telemetry"


@pytest.mark.parametrize(
    ("title", "exposition"),
    [("The relay", relay), ("Routing", routing), ("Delivery log", delivery_log), ("Event store", subscriptions)],
)
def test_a_section_holds_what_is_served(title: str, exposition: Callable[[], bytes]) -> None:
    assert described(title) == served(exposition())
