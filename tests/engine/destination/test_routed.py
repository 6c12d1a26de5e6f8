"""A routed publisher: events go by the rules, outcomes come back with the events that the engine knows."""

from __future__ import annotations

import json
import logging

import pytest

from relay.core.errors import BrokerUnreachable, ConfigError
from relay.core.event import OutboxEvent
from relay.core.formats import cloudevents
from relay.core.outcome import ACKNOWLEDGED, Acknowledged, Outcome, Permanent, Transient
from relay.engine.destination.drops import Drops
from relay.engine.destination.routed import RoutedPublisher
from relay.routing.rules import Routes, Rule
from relay.routing.template import read_template
from tests.brokers.harness.base import Collector, make_event
from tests.support.doubles.memory_publisher import MemoryPublisher

RULES = [
    Rule(1, "drop.*", None, ""),
    Rule(2, "by.header", read_template("{header:region}.x", ""), ""),
    Rule(3, "a.*", read_template("b.{type}", ""), ""),
]


def routed(broker: MemoryPublisher, drops: Drops | None = None, prefix: str = "") -> RoutedPublisher:
    return RoutedPublisher(broker, Routes(RULES, prefix), drops or Drops())


async def outcomes(publisher: RoutedPublisher, *events: OutboxEvent) -> list[Outcome]:
    sink = Collector()
    await publisher.publish(events, sink)
    found = await sink.outcomes(events)
    assert {id(event) for event, _ in sink.resolutions} == {id(event) for event in events}
    return found


async def test_events_arrive_under_their_names_and_come_back_as_they_were() -> None:
    broker = MemoryPublisher()
    events = [make_event("a.one"), make_event("plain"), make_event("by.header", headers='{"region": "eu"}')]
    assert await outcomes(routed(broker, prefix="p."), *events) == [ACKNOWLEDGED] * 3
    assert [event.event_type for event in broker.messages] == ["p.b.a.one", "p.plain", "p.eu.x"]
    assert [event.payload for event in broker.messages] == [event.payload for event in events]


async def test_formats_announce_the_type_that_the_application_wrote() -> None:
    broker = MemoryPublisher()
    await outcomes(routed(broker), make_event("a.x"), make_event("plain"))
    assert [event.announced_type for event in broker.messages] == ["a.x", "plain"]
    structured = cloudevents.structured("/shop", cloudevents.NATS)
    assert json.loads(structured(broker.messages[0]).payload)["type"] == "a.x"


async def test_what_keeps_its_name_is_handed_over_as_it_is() -> None:
    broker, event = MemoryPublisher(), make_event("plain")
    await outcomes(routed(broker), event)
    assert broker.messages[0] is event


async def test_failures_come_back_too() -> None:
    broker = MemoryPublisher()
    broker.answer_with(lambda event: Permanent("NO", event.event_type))
    assert await outcomes(routed(broker), make_event("a.x")) == [Permanent("NO", "b.a.x")]


async def test_a_receipt_names_the_destination() -> None:
    broker = MemoryPublisher()
    broker.answer_with(lambda _: Acknowledged({"offset": 3}))
    assert await outcomes(routed(broker), make_event("a.x"), make_event("plain")) == [
        Acknowledged({"offset": 3, "destination": "b.a.x"}),
        Acknowledged({"offset": 3}),
    ]


async def test_a_dropped_event_is_acknowledged_counted_and_said_and_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    now = [0.0]
    broker, drops = MemoryPublisher(), Drops(lambda: now[0])
    publisher = routed(broker, drops)
    for _ in range(3):
        assert await outcomes(publisher, make_event("drop.x")) == [Acknowledged({"dropped_by_route": 1})]
    now[0] = 61.0
    await outcomes(publisher, make_event("drop.x"))
    assert not broker.offered
    assert drops.counts == {"drop.x": 4}
    said = [vars(record) for record in caplog.records if vars(record).get("action") == "events_dropped"]
    assert [record["events"] for record in said] == [1, 3]
    assert said[0]["message"] == "route 1 drops events of type drop.x: they count as delivered and are not sent"


async def test_without_the_header_of_its_name_an_event_fails_an_attempt_and_is_not_lost() -> None:
    broker = MemoryPublisher()
    [outcome] = await outcomes(routed(broker), make_event("by.header"))
    assert isinstance(outcome, Transient)
    assert outcome.code == "ROUTE_INCOMPLETE"
    assert "no header region" in outcome.reason
    assert not broker.offered


@pytest.mark.parametrize(("rules", "kept"), [(RULES, False), (RULES[::2], True)])
async def test_runs_are_kept_only_where_a_type_has_one_destination(rules: list[Rule], kept: bool) -> None:
    assert RoutedPublisher(MemoryPublisher(keeps_runs=True), Routes(rules), Drops()).keeps_runs is kept
    assert not RoutedPublisher(MemoryPublisher(), Routes(rules), Drops()).keeps_runs


async def test_a_twin_obeys_the_same_rules() -> None:
    broker, drops = MemoryPublisher(), Drops()
    twin = routed(broker, drops).twin()
    await outcomes(twin, make_event("a.x"), make_event("drop.x"))
    assert [event.event_type for event in broker.messages] == ["b.a.x"]
    assert drops.counts["drop.x"] == 1


async def test_a_probe_of_one_destination_is_a_probe_of_the_broker() -> None:
    broker = MemoryPublisher()
    broker.down()
    with pytest.raises(BrokerUnreachable):
        await routed(broker).probe_destination("b.a.x", 1.0)


async def test_opening_checks_what_the_broker_is_configured_with(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse() -> None:
        raise ConfigError("PUBLISHER_URL: not one")

    broker = MemoryPublisher()
    monkeypatch.setattr(broker, "open", refuse)
    with pytest.raises(ConfigError, match="PUBLISHER_URL"):
        await routed(broker).open()
