"""docs/reference/metrics.md names exactly the metrics that are served, each with its type, its labels and its help."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from relay.app.build import read_degraded
from relay.app.delivery_log import readings as log_readings
from relay.app.destinations import Destinations
from relay.app.subscriptions import readings as subscription_readings
from relay.engine.destination.destination import Times
from relay.engine.destination.drops import Drops
from relay.engine.destination.pace import TokenBucket
from relay.engine.destination.several import SeveralPublishers
from relay.eventstore.prometheus import PrometheusMeter
from relay.eventstore.states import SubscriptionState
from relay.routing.rules import Routes
from relay.settings.settings import Settings
from relay.telemetry.__main__ import renewed
from relay.telemetry.catalogue import CATALOGUE, DESTINATION_STATE, Section
from relay.telemetry.export import start_export
from relay.telemetry.measurements import Measurements
from relay.telemetry.prometheus import PrometheusTelemetry, exposition_of
from relay.telemetry.providers import Provider, Providers, Reading, Sample
from tests.support.paths import ROOT
from tests.support.servers.otlp import running_collector

TEXT = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
NOW = datetime(2026, 3, 10, tzinfo=UTC)
Rows = set[tuple[str, str, frozenset[str], str]]


def relay() -> Iterable[Reading]:
    """What every relay provides."""
    return (reading for reading in _measured().read() if reading[0].section is Section.RELAY)


def destinations() -> Iterable[Reading]:
    """What a relay with routes and several destinations provides, with what the engine knows of them."""
    built = Destinations(Settings.from_env({"STORAGE_URL": "postgres://127.0.0.1/db", "PUBLISHER_TYPE": "null"}))
    drops = Drops()
    drops.counts["user.signup"] += 1
    parts: Any = built
    paces = {"cache": TokenBucket(1.0, lambda: 0.0)}
    publisher = SeveralPublishers({"cache": built.publisher}, Routes([]), drops, Times(retry_interval=1.0), paces)
    parts.plan = SimpleNamespace(routes=Routes([]), destinations={"cache": None})
    parts.publisher, parts._drops = publisher, drops
    engine = (reading for reading in _measured().read() if reading[0].section is Section.DESTINATIONS)
    return [*built.read([*publisher.members.values()]), *engine]


def delivery_log() -> Iterable[Reading]:
    """What a relay with a delivery log provides."""
    counters: Any = SimpleNamespace(written=1, dropped=1, quarantined=1, ready_until=NOW, trouble="")
    return log_readings(counters)


def subscriptions() -> Iterable[Reading]:
    """What a relay with an event store provides."""
    return subscription_readings([SubscriptionState("balances", 1, True, NOW, None, 0, 0.0)], 1.0, "app", "bank")


PROVIDERS: dict[Section, Provider] = {
    Section.RELAY: relay,
    Section.DESTINATIONS: destinations,
    Section.BESIDE: lambda: read_degraded({}),
    Section.LOG: delivery_log,
    Section.STORE: subscriptions,
}


def _measured() -> Measurements:
    measurements = Measurements()
    measurements.away(["orders.created"])
    return measurements


def consumer() -> bytes:
    """What a subscription shows in its consumer's process."""
    registry = CollectorRegistry()
    meter = PrometheusMeter(registry)
    meter.active("balances", True)
    meter.delivered("balances", 1)
    meter.lag("balances", 0, 0.0)
    meter.blocked("balances", 0.0)
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
    """The rows of a section of the page, each with the label that all metrics of a relay have."""
    common = frozenset[str]() if title == Section.STORE else frozenset({"relay_id"})
    lines = re.findall(
        r"^\| `(\w+)` \| (\w+) \| (.*?) \| (.*) \|$", TEXT.split(f"## {title}\n")[1].split("\n## ")[0], re.MULTILINE
    )
    return {
        (name.removesuffix("_total"), kind, common | frozenset(re.findall(r"`(\w+)`", labels)), meaning)
        for name, kind, labels, meaning in lines
    }


def test_the_tables_are_up_to_date() -> None:
    assert renewed(TEXT) == TEXT, "run: python -m relay.telemetry"


@pytest.mark.parametrize("section", list(Section))
def test_a_section_holds_what_is_provided(section: Section) -> None:
    exposition = exposition_of(PROVIDERS[section], "relay-1").encode()
    if section is Section.STORE:
        exposition += consumer()
    assert described(section) == served(exposition)


def test_prometheus_otlp_and_the_page_have_the_same_names() -> None:
    pytest.importorskip("opentelemetry.sdk", reason="needs the extra otel")
    with running_collector() as collector:
        providers = Providers("relay-1", *PROVIDERS.values())
        export = start_export(providers, {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url})
        assert export is not None
        export.stop()
        over_otlp = set(collector.latest())

    telemetry = PrometheusTelemetry("relay-1")
    for provider in list(PROVIDERS.values())[1:]:
        telemetry.providers.add(provider)
    scraped = {name for name, *_ in served(telemetry.exposition()[0])}

    page = {name for section in Section for name, *_ in described(section)} - {name for name, *_ in served(consumer())}
    assert {name.removesuffix("_total") for name in over_otlp} == scraped == page
    assert over_otlp == {metric.name for metric in CATALOGUE}


def test_a_thousand_destinations_have_a_series_each_and_the_rest_share_one() -> None:
    states = [Sample((f"d{number}",), 4.0 if number == 1_500 else 1.0) for number in range(2_000)]
    [(_, samples)] = Providers("r", lambda: [(DESTINATION_STATE, states)]).read()

    assert len(samples) == 1_001
    assert samples[-1] == Sample(("other", "r"), 4.0)
