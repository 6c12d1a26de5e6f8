"""A destination that is connected and takes nothing costs its own events alone, and is said once."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import TypeVar, cast

import pytest

from relay.core.destination import DestinationState
from relay.core.outcome import ACKNOWLEDGED, TimedOut
from relay.core.status import Exposition
from relay.engine.destination.destination import Destination, Times, troubles
from relay.engine.destination.drops import Drops
from relay.engine.destination.several import SeveralPublishers
from relay.engine.status import RelayStatus
from relay.outbox.outbox_options import KeyOrder
from relay.routing.rules import Routes, Rule, Target
from relay.routing.template import read_template
from tests.support.doubles.memory_publisher import MemoryPublisher
from tests.support.doubles.virtual_relay import VirtualRelay
from tests.support.fixtures.engine import MakeEngine

TYPE = read_template("{type}", "")
ROUTES = Routes(
    [Rule(1, "queue*", TYPE, "queue"), Rule(2, "both", TYPE, "cache", (Target("queue", TYPE),))], default="cache"
)
ALARM = "low on memory"
T = TypeVar("T")


class Scene:
    """A relay with a destination that flows, and one that is blocked."""

    def __init__(self, engine: MakeEngine, key_order: KeyOrder | None = None) -> None:
        self.cache, self.queue = MemoryPublisher(), MemoryPublisher(capacity=50)
        times = Times(retry_interval=5.0, probe_timeout=1.0)
        self.publisher = SeveralPublishers({"cache": self.cache, "queue": self.queue}, ROUTES, Drops(), times)
        options = {"connect_retry_interval": 5.0, "batch_size": 20, "max_in_flight": 160, "batch_bytes": 1 << 20}
        self.relay: VirtualRelay = engine(cast("MemoryPublisher", self.publisher), key_order=key_order, **options)

    def insert(self, count: int, event_type: str) -> None:
        for number in range(count):
            self.relay.insert(1, event_type, partition_key=f"{event_type}-{number}")


@pytest.fixture(params=[None, KeyOrder.SKIP], ids=["none", "key"])
def scene(request: pytest.FixtureRequest, engine: MakeEngine) -> Scene:
    return Scene(engine, request.param)


@pytest.mark.parametrize("silent", [False, True])
def test_the_others_flow_while_one_takes_nothing(scene: Scene, silent: bool) -> None:
    """``silent``: its server does not say so."""
    scene.queue.hold()
    scene.queue.blocked = "" if silent else ALARM
    scene.insert(400, "queue")
    scene.relay.run(1.0)
    scene.insert(400, "cache")
    assert scene.relay.until(lambda: scene.relay.delivered("cache") == 400, seconds=20.0) < 5.0
    assert {row.attempts for row in scene.relay.table.rows.values()} == {0}


def test_a_burst_for_both_leaves_places_to_the_others(scene: Scene) -> None:
    scene.queue.hold()
    scene.insert(400, "queue")
    scene.relay.run(1.0)
    scene.insert(60, "both")
    scene.insert(100, "cache")
    assert scene.relay.until(lambda: scene.relay.delivered("cache") == 100, seconds=8.0) < 5.0


def test_one_whose_oldest_events_run_out_of_time_is_late_with_the_newer_ones_too(scene: Scene) -> None:
    scene.queue.hold()
    scene.insert(30, "both")
    scene.relay.run(2.0)
    scene.relay.insert(100, "queue", payload=b"x" * (1 << 16))
    scene.relay.until(lambda: len(scene.queue.held) > 30)
    scene.queue.hang()
    both = [event.event_id for event in scene.queue.held if event.event_type == "both"]
    scene.relay.do(lambda: scene.queue.answer(TimedOut("TIMED_OUT", "no answer"), *both))
    scene.relay.run(0.1)  # the probe that decides is under way
    scene.queue.up()
    scene.insert(100, "cache")
    assert scene.relay.until(lambda: scene.relay.delivered("cache") == 100, seconds=8.0) < 2.0


@pytest.mark.parametrize("method", ["abandon", "forget"])
def test_one_that_raises_what_no_publisher_should_is_let_go_all_the_same(
    engine: MakeEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    scene = Scene(engine)
    broken = scene.queue if method == "abandon" else scene.publisher.members["queue"]
    right, left = getattr(broken, method), [1]

    def fail(*arguments: str) -> object:
        if left and left.pop():
            raise RuntimeError("a package of another project")
        return right(*arguments)

    monkeypatch.setattr(broken, method, fail)
    scene.queue.hold()
    scene.queue.blocked = ALARM
    scene.insert(100, "queue")
    scene.relay.run(60.0)
    assert not left, "it was called"
    assert scene.relay.delivered("queue") == 0
    scene.queue.blocked = ""
    scene.queue.answer_with(lambda _: ACKNOWLEDGED)
    scene.relay.until(lambda: scene.relay.delivered("queue") == 100, seconds=60.0)
    assert {"abandon": "abandon_failed", "forget": "publisher_error"}[method] in {
        vars(record).get("action") for record in caplog.records
    }


def test_a_fan_out_flows_to_the_others_and_is_released_with_what_they_have(engine: MakeEngine) -> None:
    scene = Scene(engine)
    scene.queue.hold()
    scene.queue.blocked = ALARM
    scene.insert(1000, "both")
    scene.relay.until(lambda: len(scene.cache.messages) == 1000, seconds=20.0)
    scene.relay.run(2.0)
    rows = scene.relay.table.rows.values()
    assert {(str(row.status), row.attempts, row.acknowledged_by) for row in rows} <= {
        ("PENDING", 0, "cache"),
        ("DELIVERING", 0, "cache"),  # the one that is tried
    }
    scene.relay.run(300.0)
    assert len(scene.cache.messages) == 1000, "none gets it twice"
    assert len(scene.queue.offered) < 200, "one event now and then is a trial"
    scene.queue.blocked = ""
    scene.queue.answer_with(lambda _: ACKNOWLEDGED)
    scene.relay.until(lambda: scene.relay.delivered("both") == 1000, seconds=60.0)
    assert len(scene.cache.messages) == 1000


def test_it_is_said_once_and_its_end_too(engine: MakeEngine, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    scene = Scene(engine)
    scene.queue.hold()
    scene.queue.blocked = ALARM
    scene.insert(100, "queue")
    scene.relay.run(100.0)
    shown = inside(scene.relay, lambda: troubles(scene.publisher.members.values()))
    assert without_times(shown) == {"destination queue": f"blocked: {ALARM}"}
    assert scene.publisher.members["queue"].state is DestinationState.BLOCKED
    scene.queue.blocked = ""
    scene.queue.answer_with(lambda _: ACKNOWLEDGED)
    scene.relay.until(lambda: scene.relay.delivered("queue") == 100, seconds=60.0)
    assert troubles(scene.publisher.members.values()) == {}
    assert said(caplog) == ["destination_blocked", "destination_back"]


def test_a_single_one_that_is_blocked_is_said_and_keeps_its_events(
    engine: MakeEngine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    one = engine()
    one.broker.hold()
    one.broker.blocked = ALARM
    one.insert(10)
    one.run(20.0)
    assert state(one.relay.destination) is DestinationState.BLOCKED
    assert without_times(readiness(one)) == {"destination memory": f"blocked: {ALARM}"}
    assert one.counts() == {"DELIVERING": 10}
    one.broker.blocked = ""
    one.do(one.broker.answer)
    one.broker.answer_with(lambda _: ACKNOWLEDGED)
    one.run(10.0)
    assert state(one.relay.destination) is DestinationState.FLOWING
    assert dict(readiness(one)) == {}
    assert said(caplog) == ["destination_blocked", "destination_back"]


def test_one_that_was_blocked_before_it_was_away_is_said_to_answer_and_no_more(
    engine: MakeEngine, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    one = engine()
    one.broker.hold()
    one.broker.blocked = ALARM
    one.insert(10)
    one.run(20.0)
    one.broker.down()
    one.broker.blocked = ""
    one.run(200.0)
    assert state(one.relay.destination) is DestinationState.AWAY
    one.broker.up()
    one.broker.answer_with(lambda _: ACKNOWLEDGED)
    one.run(20.0)
    assert state(one.relay.destination) is DestinationState.FLOWING
    assert not [line for line in caplog.messages if "cannot be reached: takes events" in line]


@pytest.mark.parametrize("several", [False, True])
def test_one_whose_answers_take_long_is_slow_until_they_do_not(
    engine: MakeEngine, caplog: pytest.LogCaptureFixture, several: bool
) -> None:
    caplog.set_level(logging.INFO)
    scene = Scene(engine)
    one = scene.relay if several else engine()
    broker = scene.queue if several else one.broker
    of = scene.publisher.members["queue"] if several else one.relay.destination
    broker.hold()
    one.insert(10, "queue")
    one.run(4.0)
    assert state(of) is DestinationState.FLOWING
    one.run(10.0)
    assert state(of) is DestinationState.SLOW
    assert "no answer" in inside(one, lambda: of.condition).reason
    one.do(broker.answer)
    broker.answer_with(lambda _: ACKNOWLEDGED)
    one.run(60.0)
    assert state(of) is DestinationState.FLOWING
    assert said(caplog) == ["destination_slow", "destination_back"]


@pytest.mark.parametrize("several", [False, True])
def test_one_that_refuses_the_login_is_refused_and_uses_no_attempt(
    engine: MakeEngine, caplog: pytest.LogCaptureFixture, several: bool
) -> None:
    caplog.set_level(logging.INFO)
    scene = Scene(engine)
    one = scene.relay if several else engine()
    broker = scene.queue if several else one.broker
    of = scene.publisher.members["queue"] if several else one.relay.destination
    broker.down("no answer")
    one.insert(10, "queue")
    one.run(10.0)
    assert state(of) is DestinationState.AWAY
    broker.down("wrong password", refused=True)
    one.run(10.0)
    assert (state(of), of.reason) == (DestinationState.REFUSED, "wrong password")
    assert 0.0 < inside(one, lambda: of.condition).seconds < 10.0
    broker.up()
    one.until(lambda: one.delivered("queue") == 10, seconds=60.0)
    assert state(of) is DestinationState.FLOWING
    assert {row.attempts for row in one.table.rows.values()} == {0}
    assert said(caplog) == (["destination_away", "destination_refused", "destination_back"] if several else [])


def state(destination: Destination) -> DestinationState:
    return destination.state


def without_times(degraded: dict[str, str]) -> dict[str, str]:
    return {title: re.sub(r" since \d{4}-\S+Z:", ":", trouble) for title, trouble in degraded.items()}


def inside(relay: VirtualRelay, work: Callable[[], T]) -> T:
    """What it returns inside the loop."""
    returned: list[T] = []
    relay.do(lambda: returned.append(work()))
    return returned[0]


def readiness(relay: VirtualRelay) -> dict[str, str]:
    status = RelayStatus(relay.relay, "relay", lambda _: Exposition(b"", "text/plain"))
    return dict(inside(relay, status.readiness).degraded)


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [name for record in caplog.records if "destination" in (name := vars(record).get("action", ""))]
