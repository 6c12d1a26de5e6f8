"""A relay whose events go to two destinations each: DELIVERED when both have acknowledged, and none gets it twice."""

from __future__ import annotations

from collections import Counter
from typing import cast

import pytest

from relay.core.event import EventId, OutboxEvent, Status
from relay.core.outcome import ACKNOWLEDGED, ConnectionCut, Outcome, Permanent, Transient
from relay.engine.away import LONGEST_HOLD
from relay.engine.destination.destination import Times
from relay.engine.destination.drops import Drops
from relay.engine.destination.several import SeveralPublishers
from relay.outbox.outbox_options import KeyOrder
from relay.routing.rules import Routes, Rule, Target
from relay.routing.template import read_template
from tests.support.doubles.faulty_storage import Fault
from tests.support.doubles.memory_publisher import MemoryPublisher
from tests.support.doubles.virtual_relay import VirtualRelay
from tests.support.fixtures.engine import MakeEngine

TYPE = read_template("{type}", "")
BOTH = Rule(1, "both", TYPE, "main", (Target("audit", TYPE),))


class Scene:
    """A relay, and what its two brokers have."""

    def __init__(self, engine: MakeEngine, *, keeps_runs: bool = False, **options: object) -> None:
        self.main = MemoryPublisher(keeps_runs=keeps_runs)
        self.audit = MemoryPublisher(keeps_runs=keeps_runs)
        times = Times(retry_interval=5.0, probe_timeout=1.0)
        routes = Routes([BOTH], default="main")
        publisher = SeveralPublishers({"main": self.main, "audit": self.audit}, routes, Drops(), times)
        self.relay: VirtualRelay = engine(cast("MemoryPublisher", publisher), connect_retry_interval=5.0, **options)

    def insert(self, count: int = 1, **fields: object) -> list[EventId]:
        return self.relay.insert(count, "both", **fields)

    def statuses(self, event_ids: list[EventId]) -> Counter[tuple[str, int, str | None]]:
        rows = map(self.relay.row, event_ids)
        return Counter((str(row.status), row.attempts, row.acknowledged_by) for row in rows)


@pytest.fixture
def scene(engine: MakeEngine) -> Scene:
    return Scene(engine)


def had(broker: MemoryPublisher, event_type: str = "both") -> list[EventId]:
    """What a broker has, in order."""
    return [event.event_id for event in broker.messages if event.event_type == event_type]


def refused(_: OutboxEvent) -> Outcome:
    return Transient("LEADER", "changed")


def test_it_is_delivered_when_both_have_acknowledged(scene: Scene) -> None:
    events = scene.insert(20)
    scene.audit.hold()
    scene.relay.run(1.0)
    assert had(scene.main) == events
    assert scene.statuses(events) == {("DELIVERING", 0, None): 20}
    while scene.audit.held:
        scene.relay.do(scene.audit.answer)
        scene.relay.run(0.1)
    assert scene.statuses(events) == {("DELIVERED", 0, None): 20}
    assert sorted(had(scene.audit)) == sorted(events)


def test_after_a_failure_only_the_one_that_failed_gets_it_again(scene: Scene) -> None:
    scene.audit.answer_with(refused)
    events = scene.insert(5)
    scene.relay.run(1.0)
    assert scene.statuses(events) == {("PENDING", 1, "main"): 5}
    assert scene.relay.row(events[0]).last_error == "LEADER: destination audit: changed; acknowledged by main"
    scene.audit.answer_with(lambda _: ACKNOWLEDGED)
    scene.relay.run(70.0)
    assert scene.statuses(events) == {("DELIVERED", 1, None): 5}
    assert had(scene.main) == had(scene.audit) == events


def test_without_the_column_both_get_it_again_after_a_failure(scene: Scene) -> None:
    scene.relay.table.fan_out = False
    scene.audit.answer_with(refused)
    events = scene.insert(3)
    scene.relay.run(1.0)
    scene.audit.answer_with(lambda _: ACKNOWLEDGED)
    scene.relay.run(70.0)
    assert scene.statuses(events) == {("DELIVERED", 1, None): 3}
    assert (had(scene.main), had(scene.audit)) == (events * 2, events)


def test_while_one_is_away_the_other_gets_every_event_and_nothing_is_claimed_without_a_pause(scene: Scene) -> None:
    scene.audit.down()
    events: list[EventId] = []
    for _ in range(60):
        events += scene.insert(3)
        scene.relay.insert(1, "plain")
        scene.relay.run(1.0)
    assert had(scene.main) == events, "each of them once, although the other destination lacks all"
    assert scene.relay.delivered("plain") == 60
    assert scene.statuses(events) == {("PENDING", 0, "main"): 180}
    assert scene.relay.telemetry.latest_away == ["both"]
    claimed = scene.relay.telemetry.counts["released"]
    assert claimed < 2.5 * len(events), f"{claimed} events were given back"
    scene.audit.up()
    scene.relay.until(lambda: scene.relay.delivered("both") == 180, seconds=LONGEST_HOLD + 6.0)
    assert had(scene.main) == events
    assert sorted(had(scene.audit)) == sorted(events)


def test_a_new_event_that_both_acknowledge_ends_the_hold_of_those_before(scene: Scene) -> None:
    scene.audit.down()
    events = scene.insert(3)
    scene.relay.run(60.0)
    scene.audit.up()
    scene.relay.run(6.0)  # its own probe finds it
    events += scene.insert(1)
    scene.relay.until(lambda: scene.relay.delivered("both") == 4, seconds=2.0)
    assert sorted(had(scene.audit)) == sorted(events)


def test_with_both_away_for_a_type_it_is_held_as_a_whole(engine: MakeEngine) -> None:
    third = MemoryPublisher()
    one, two = MemoryPublisher(), MemoryPublisher()
    routes = Routes([Rule(1, "both", TYPE, "one", (Target("two", TYPE),))], default="third")
    times = Times(retry_interval=5.0, probe_timeout=1.0)
    publisher = SeveralPublishers({"third": third, "one": one, "two": two}, routes, Drops(), times)
    relay = engine(cast("MemoryPublisher", publisher), connect_retry_interval=5.0)
    one.down()
    two.down()
    relay.run(1.0)
    relay.insert(50, "both")
    relay.insert(5, "plain")
    relay.run(30.0)
    assert relay.delivered("plain") == 5
    assert relay.telemetry.counts["released"] <= 50 * 6
    one.up()
    relay.until(lambda: len(had(one)) == 50, seconds=LONGEST_HOLD + 10.0)
    relay.run(1.0)
    assert {row.acknowledged_by for row in relay.table.rows.values() if row.event_type == "both"} == {"one"}
    two.up()
    relay.until(lambda: relay.delivered("both") == 50, seconds=LONGEST_HOLD + 10.0)
    assert len(had(one)) == len(had(two)) == 50


def test_refused_for_good_by_one_is_dead_once_the_other_has_it_and_its_replay_goes_to_the_one(scene: Scene) -> None:
    scene.main.answer_with(lambda _: Permanent("TOO_LARGE", "1 MB"))
    scene.audit.answer_with(refused)
    [event] = scene.insert()
    scene.relay.run(1.0)
    assert scene.statuses([event]) == {("PENDING", 1, None): 1}
    scene.audit.answer_with(lambda _: ACKNOWLEDGED)
    scene.relay.run(70.0)
    assert scene.statuses([event]) == {("DEAD", 2, "audit"): 1}
    assert scene.relay.row(event).last_error == "TOO_LARGE: destination main: 1 MB; acknowledged by audit"
    scene.main.answer_with(lambda _: ACKNOWLEDGED)
    row = scene.relay.row(event)
    row.status, row.attempts, row.last_error, row.available_at = Status.PENDING, 0, None, scene.relay.table.now
    scene.relay.run(2.0)
    assert scene.statuses([event]) == {("DELIVERED", 0, None): 1}
    assert (had(scene.main), had(scene.audit)) == ([event], [event])


def test_an_event_that_one_destination_cuts_the_connection_on_is_found_and_the_other_gets_all_once(
    scene: Scene,
) -> None:
    events = scene.insert(40)
    bad = events[17]
    scene.audit.answer_with(lambda event: ConnectionCut("reset") if event.event_id == bad else ACKNOWLEDGED)
    scene.relay.run(10.0)
    assert scene.statuses(events) == {("DELIVERED", 0, None): 39, ("PENDING", 1, "main"): 1}
    assert str(scene.relay.row(bad).last_error).startswith("CONNECTION_CUT: ")
    assert "destination audit: reset" in str(scene.relay.row(bad).last_error)
    assert sorted(had(scene.main)) == sorted(events)


def test_a_stop_writes_down_what_one_has(scene: Scene) -> None:
    scene.audit.answer_with(lambda _: None)
    events = scene.insert(4)
    scene.relay.run(1.0)
    assert had(scene.main) == events
    scene.relay.do(scene.relay.relay.stop)
    scene.relay.run(20.0)
    assert scene.statuses(events) == {("PENDING", 0, "main"): 4}


def test_names_outlive_a_settle_that_fails(scene: Scene) -> None:
    scene.audit.answer_with(refused)
    scene.relay.fail("settle", Fault.AWAY, Fault.BUSY)
    events = scene.insert(5)
    scene.relay.run(10.0)
    assert scene.statuses(events) == {("PENDING", 1, "main"): 5}


@pytest.mark.parametrize("keeps_runs", [False, True])
def test_order_per_key_holds_at_each_destination(engine: MakeEngine, keeps_runs: bool) -> None:
    scene = Scene(engine, keeps_runs=keeps_runs, key_order=KeyOrder.SKIP)
    events = scene.insert(8, partition_key="k")
    failing = {events[2]: 2, events[5]: 1}

    def answer(event: OutboxEvent) -> Outcome:
        failing[event.event_id] = failing.get(event.event_id, 0) - 1
        return refused(event) if failing[event.event_id] >= 0 else ACKNOWLEDGED

    scene.audit.answer_with(answer)
    scene.relay.run(600.0)
    assert scene.relay.delivered("both") == 8
    assert had(scene.main) == had(scene.audit) == events


def test_in_order_a_destination_that_is_away_holds_its_keys_and_no_other(engine: MakeEngine) -> None:
    scene = Scene(engine, key_order=KeyOrder.SKIP)
    scene.audit.down()
    events = scene.insert(4, partition_key="k")
    scene.relay.insert(4, "plain", partition_key="other")
    scene.relay.run(60.0)
    assert scene.relay.delivered("plain") == 4
    scene.audit.up()
    scene.relay.run(LONGEST_HOLD + 10.0)
    assert had(scene.main) == had(scene.audit) == events
