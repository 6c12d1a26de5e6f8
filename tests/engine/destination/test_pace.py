"""The rate of a destination: the bucket, and a relay one of whose destinations has one."""

from __future__ import annotations

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.core.destination import DestinationCondition
from relay.core.event import OutboxEvent, size_of
from relay.core.outcome import ACKNOWLEDGED, Transient
from relay.engine.destination.destination import Times
from relay.engine.destination.drops import Drops
from relay.engine.destination.pace import HandOver, TokenBucket, WaitingOffers
from relay.engine.destination.several import SeveralPublishers
from relay.outbox.outbox_options import KeyOrder
from relay.routing.rules import Routes, Rule, Target
from relay.routing.template import read_template
from tests.brokers.harness.base import make_event
from tests.support.clock import Clock
from tests.support.doubles.memory_publisher import MemoryPublisher
from tests.support.doubles.virtual_relay import VirtualRelay
from tests.support.fixtures.engine import MakeEngine

TYPE = read_template("{type}", "")
ROUTES = Routes(
    [Rule(1, "paced*", TYPE, "paced"), Rule(2, "both", TYPE, "free", (Target("paced", TYPE),))], default="free"
)
RATES = st.floats(0.01, 100_000)
STEPS = st.lists(st.tuples(st.floats(0, 10), st.integers(0, 10_000)), max_size=60)


@given(RATES, STEPS)
def test_never_more_goes_than_the_rate_and_a_small_burst(rate: float, steps: list[tuple[float, int]]) -> None:
    """In no window of time, whatever was asked for when."""
    clock = Clock()
    pace, taken = TokenBucket(rate, clock), [(clock(), 0)]
    for seconds, wanted in steps:
        clock.now += seconds
        now = pace.take(wanted)
        assert 0 <= now <= wanted
        taken.append((clock(), now))
    burst = max(2.0, rate * 0.1)
    for first, (since, _) in enumerate(taken):
        total = 0
        for at, count in taken[first:]:
            total += count
            assert total <= burst + rate * (at - since) + 1e-6 * (1 + total)


@given(RATES, st.integers(1, 300))
def test_who_asks_when_told_gets_the_whole_rate(rate: float, events: int) -> None:
    clock = Clock()
    pace, left = TokenBucket(rate, clock), events
    while left:
        clock.now += pace.wait
        left -= pace.take(left)
    assert clock() <= (events + 1) / rate + 0.02


@given(RATES, st.integers(0, 10_000))
def test_more_is_claimed_once_less_than_a_second_waits(rate: float, waiting: int) -> None:
    full_for = TokenBucket(rate, Clock()).full_for(waiting)
    assert (full_for > 0) == (waiting > max(1.0, rate) - 1)
    assert waiting - full_for * rate <= max(1.0, rate)


@given(st.lists(st.one_of(st.integers(1, 5), st.none()), max_size=20))
def test_what_waits_is_counted_as_it_comes_and_goes(steps: list[int | None]) -> None:
    waiting = WaitingOffers(TokenBucket(1000.0, Clock()))
    left: list[OutboxEvent] = []
    for step in steps:
        if step is not None:
            events = [make_event("paced", payload=b"x" * step) for _ in range(step)]
            waiting.add(HandOver(events, lambda _: None, None))
            left += events
        elif waiting:
            left = left[len(waiting.next(2).events) :]
        counted = waiting.of_rate(())
        assert counted is not None
        assert (counted.events, counted.size) == (len(left), size_of(left))
    assert [event for offer in waiting.take_all() for event in offer.events] == left


class Scene:
    """A relay with a destination that has a rate, and one that has none."""

    def __init__(self, engine: MakeEngine, key_order: KeyOrder | None, rate: float = 50.0) -> None:
        self.free, self.paced = MemoryPublisher(keeps_runs=True), MemoryPublisher(keeps_runs=True)
        both, times = {"free": self.free, "paced": self.paced}, Times(retry_interval=5.0, probe_timeout=1.0)
        pace = TokenBucket(rate, lambda: self.relay.loop.time() if hasattr(self, "relay") else 0.0)
        self.publisher = SeveralPublishers(both, ROUTES, Drops(), times, {"paced": pace})
        options = {"batch_size": 20, "max_in_flight": 160, "key_order": key_order}
        self.relay: VirtualRelay = engine(cast("MemoryPublisher", self.publisher), **options)

    def insert(self, count: int, event_type: str, keys: int = 1000) -> None:
        for number in range(count):
            self.relay.insert(1, event_type, partition_key=f"{event_type}-{number % keys}")

    @property
    def reason(self) -> str:
        conditions: list[DestinationCondition] = []
        self.relay.do(lambda: conditions.append(self.publisher.members["paced"].condition))
        [condition] = conditions
        assert condition.state == "flowing"
        return condition.reason


@pytest.fixture(params=[None, KeyOrder.SKIP], ids=["none", "key"])
def scene(request: pytest.FixtureRequest, engine: MakeEngine) -> Scene:
    return Scene(engine, request.param)


def test_it_gets_its_rate_and_the_others_wait_for_nothing(scene: Scene) -> None:
    scene.insert(500, "paced")
    worst, seconds = 0.0, 0.0
    while seconds < 8.0:
        scene.insert(40, "free", keys=40)
        before = scene.relay.delivered("free")
        took = scene.relay.until(lambda: scene.relay.delivered("free") == before + 40)  # noqa: B023 - called at once
        worst, seconds = max(worst, took), seconds + took
        if took < 0.5:
            scene.relay.run(0.5 - took)
            seconds += 0.5 - took
    assert worst < 0.7
    assert 0.95 * 50 * seconds <= len(scene.paced.messages) <= 50 * seconds + 5
    assert scene.reason.startswith("at its rate of 50 events a second: ")
    scene.relay.until(lambda: scene.relay.delivered("paced") == 500)
    assert scene.reason == ""
    assert scene.relay.telemetry.counts["released"] == 0
    assert [event.event_id for event in scene.paced.offered] == [event.event_id for event in scene.paced.messages]


def test_what_waits_takes_no_place(engine: MakeEngine) -> None:
    """Of many destinations each of which has more than its share of the places."""
    names = [f"paced{number}" for number in range(12)]
    publishers = {name: MemoryPublisher() for name in ("free", *names)}
    routes = Routes([Rule(number, name, TYPE, name) for number, name in enumerate(names, 1)], default="free")
    paces = {name: TokenBucket(0.1, lambda: 0.0) for name in names}
    several = SeveralPublishers(publishers, routes, Drops(), Times(retry_interval=5.0, probe_timeout=1.0), paces)
    one = engine(cast("MemoryPublisher", several), batch_size=20, max_in_flight=60)
    for name in names:
        one.insert(50, name)
    one.run(5.0)
    one.insert(200, "free")
    assert one.until(lambda: one.delivered("free") == 200) < 2.0


@pytest.mark.parametrize("silent", ["paced", "free"])
def test_neither_takes_the_last_places_of_the_other_by_its_silence(engine: MakeEngine, silent: str) -> None:
    """More is claimed ahead than there are places in the last quarter, of 160."""
    scene, other = Scene(engine, None, rate=100.0), "free" if silent == "paced" else "paced"
    {"free": scene.free, "paced": scene.paced}[silent].answer_with(lambda _: None)
    scene.insert(1000, silent)
    worst = 0.0
    for number in range(20):
        scene.insert(5, other)
        took = scene.relay.until(lambda: scene.relay.delivered(other) == 5 * number + 5)  # noqa: B023 - called at once
        worst = max(worst, took)
        scene.relay.run(max(0.0, 0.5 - took))
    assert worst < 1.0
    assert scene.relay.delivered(silent) == 0
    assert silent == "free" or len(scene.paced.offered) <= 120, "none of the last quarter, once it is late"


def test_a_few_a_second_come_one_by_one(engine: MakeEngine) -> None:
    scene = Scene(engine, None, rate=2.0)
    scene.insert(30, "paced")
    scene.relay.run(5.0)
    assert 10 <= len(scene.paced.messages) <= 12


def test_a_key_stays_in_order_at_a_rate_although_one_fails(engine: MakeEngine) -> None:
    scene = Scene(engine, KeyOrder.SKIP)
    assert not scene.publisher.keeps_runs
    failures = iter([True])
    scene.paced.answer_with(lambda _: Transient("X", "once") if next(failures, False) else ACKNOWLEDGED)
    scene.insert(30, "paced", keys=1)
    scene.relay.until(lambda: scene.relay.delivered("paced") == 30, seconds=600.0)
    stored = [event.created_at for event in scene.paced.messages]
    assert stored == sorted(stored)


def test_an_event_for_both_waits_for_the_rate_of_one(scene: Scene) -> None:
    scene.insert(300, "both")
    scene.relay.run(2.0)
    assert 90 <= len(scene.paced.messages) <= 110
    scene.insert(20, "free")
    assert scene.relay.until(lambda: scene.relay.delivered("free") == 20) < 1.0
    scene.relay.until(lambda: scene.relay.delivered("both") == 300)
    assert len(scene.free.messages) == 320


def test_the_connections_of_suspects_share_the_rate(scene: Scene) -> None:
    twin = scene.publisher.twin()
    assert twin.members["paced"].waiting == scene.publisher.members["paced"].waiting
    assert twin._paces is scene.publisher._paces
    assert scene.publisher.members["free"].waiting is None
