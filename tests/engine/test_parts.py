"""A part of a destination that fails on its own has a state of its own, and costs its own events alone."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from typing import cast

import pytest

from relay.core.errors import BrokerUnreachable
from relay.core.event import OutboxEvent
from relay.core.heartbeats import conditions_in, heartbeat_reason
from relay.core.outcome import ACKNOWLEDGED, Away, ConnectionCut, Outcome, TimedOut
from relay.core.status import Exposition
from relay.engine.destination import parts
from relay.engine.destination.destination import Times
from relay.engine.destination.drops import Drops
from relay.engine.destination.several import SeveralPublishers
from relay.engine.status import RelayStatus
from relay.routing.rules import Routes
from tests.support.doubles.memory_publisher import MemoryPublisher
from tests.support.doubles.virtual_relay import VirtualRelay
from tests.support.fixtures.engine import MakeEngine
from tests.support.virtual_time import virtual_sleep

TIMEOUT = 10.0  # seconds that the client waits for an answer


class Queues(MemoryPublisher):
    """Each event type is a queue, but for those that moved. Those that hang answer neither events nor probes."""

    name = "queues"

    def __init__(self) -> None:
        super().__init__()
        self.hung: set[str] = set()
        self.silent: set[str] = set()
        """Those whose probes alone get no answer."""
        self.moved: dict[str, str] = {}
        self.asked: list[str] = []
        self.missing: Outcome = TimedOut("NO_ACK", "10 s")
        self.answer_with(self._script_of)

    def _script_of(self, event: OutboxEvent) -> Outcome | None:
        if self.destination_of(event) not in self.hung:
            return ACKNOWLEDGED
        asyncio.get_running_loop().call_later(TIMEOUT, self.answer, self.missing, event.event_id)
        return None

    def destination_of(self, event: OutboxEvent) -> str:
        return self.moved.get(event.event_type, event.event_type)

    async def probe_destination(self, destination: str, timeout: float) -> None:
        self.asked.append(destination)
        if destination in self.hung | self.silent:
            await virtual_sleep(timeout)
            raise BrokerUnreachable(f"{destination}: no answer")


class Scene:
    """A relay of one destination with queues, or of such a one and another one."""

    def __init__(self, engine: MakeEngine, *, several: bool) -> None:
        self.queues = Queues()
        self.prefix = "destination many/" if several else "destination queues/"
        times = Times(retry_interval=5.0, probe_timeout=1.0)
        both = {"many": self.queues, "other": MemoryPublisher()}
        self.publisher = SeveralPublishers(both, Routes([], default="many"), Drops(), times) if several else self.queues
        options = {"connect_retry_interval": 5.0, "probe_timeout": 1.0, "health_check_interval": 5.0}
        self.relay: VirtualRelay = engine(cast("MemoryPublisher", self.publisher), **options)
        self.status = RelayStatus(self.relay.relay, "relay", lambda _: Exposition(b"", ""))

    def troubles(self) -> dict[str, str]:
        """What /readyz says."""
        found: dict[str, str] = {}
        self.relay.do(lambda: found.update(self.status.readiness().degraded))
        return found

    def degraded(self) -> Mapping[str, str]:
        """Likewise, without times."""
        return {name: re.sub(r" since \S+Z", "", text) for name, text in self.troubles().items()}

    def state(self, queue: str) -> str:
        return self.degraded().get(f"{self.prefix}{queue}", "flowing").partition(":")[0]

    def until_state(self, queue: str, state: str, seconds: float = 60.0) -> float:
        waited = 0.0
        while self.state(queue) != state:
            assert waited < seconds, self.degraded()
            self.relay.run(0.25)
            waited += 0.25
        return waited

    def attempts(self) -> set[int]:
        return {row.attempts for row in self.relay.table.rows.values()}


@pytest.fixture(params=[False, True], ids=["single", "several"])
def scene(request: pytest.FixtureRequest, engine: MakeEngine) -> Scene:
    return Scene(engine, several=request.param)


@pytest.mark.parametrize("missing", [TimedOut("NO_ACK", "10 s"), ConnectionCut("reset")])
def test_a_queue_that_hangs_is_slow_then_away_then_back_and_uses_no_attempt(
    scene: Scene, caplog: pytest.LogCaptureFixture, missing: Outcome
) -> None:
    caplog.set_level(logging.INFO)
    scene.queues.missing = missing
    scene.queues.hung.add("bad")
    scene.relay.insert(30, "bad")
    scene.relay.insert(30, "good")
    assert scene.until_state("bad", "slow") == pytest.approx(8.0, abs=4.0)
    assert scene.until_state("bad", "away") < TIMEOUT + 2.0
    for _ in range(60):
        scene.relay.insert(1, "good")
        scene.relay.run(1.0)
    assert scene.relay.delivered("good") == 90
    assert scene.attempts() == {0}
    assert scene.degraded() == {f"{scene.prefix}bad": "away: bad: no answer"}, "said once, of this queue alone"
    assert scene.queues.asked.count("bad") < 10
    [condition] = conditions_in(heartbeat_reason(scene.troubles()))
    assert f"destination {condition.name}" == f"{scene.prefix}bad", "in the table of relays, too"
    assert condition.state == "away"
    scene.queues.hung.clear()
    scene.relay.until(lambda: scene.relay.delivered("bad") == 30, 90.0)
    scene.until_state("bad", "flowing")
    said = [vars(one)["action"] for one in caplog.records if vars(one).get("destination", "").endswith("/bad")]
    assert said[:3] == ["destination_slow", "destination_away", "destination_back"]


@pytest.mark.parametrize("missing", [TimedOut("NO_ACK", "10 s"), ConnectionCut("reset")])
def test_an_event_without_an_answer_from_a_queue_that_answers_probes_has_failed_an_attempt(
    engine: MakeEngine, missing: Outcome
) -> None:
    one = Scene(engine, several=False)
    one.queues.answer_with(lambda event: missing if event.event_type == "bad" else ACKNOWLEDGED)
    one.relay.insert(1, "bad")
    one.relay.run(5.0)
    assert "bad" in one.queues.asked
    assert one.attempts() == {1}
    assert one.state("bad") == "flowing"


def test_one_whose_probes_alone_get_no_answer_is_back_with_its_first_event(scene: Scene) -> None:
    scene.queues.silent.add("bad")
    scene.queues.answer_with(lambda _: TimedOut("NO_ACK", "10 s"))
    scene.relay.insert(1, "bad")
    scene.until_state("bad", "away")
    scene.queues.answer_with(lambda _: ACKNOWLEDGED)
    scene.until_state("bad", "flowing")
    assert scene.relay.delivered("bad") == 1


def test_a_state_does_not_keep_the_name_of_a_server_that_was_replaced(scene: Scene) -> None:
    """Its events have another one by and by: a node of Redis that is gone, and the one that has its streams now."""
    scene.queues.moved["bad"] = "old:1"
    scene.queues.hung.add("old:1")
    scene.relay.insert(3, "bad")
    scene.until_state("old:1", "away")
    scene.queues.moved["bad"] = "new:1"
    assert scene.until_state("old:1", "flowing") < 35.0
    scene.relay.until(lambda: scene.relay.delivered("bad") == 3, 60.0)
    assert not scene.degraded()


def test_one_without_events_is_forgotten(scene: Scene) -> None:
    scene.queues.hung.add("bad")
    [row] = scene.relay.insert(1, "bad")
    scene.until_state("bad", "away")
    del scene.relay.table.rows[row]
    scene.relay.run(130.0)
    assert not scene.degraded()


def test_so_many_have_their_own_state_and_the_rest_share_one(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    most = 100
    monkeypatch.setattr(parts, "MOST_PARTS", most)
    scene.queues.answer_with(lambda _: Away("no"))
    for number in range(most + 50):
        scene.relay.insert(1, f"queue{number}")
    scene.relay.run(5.0)
    names = [name for name in scene.degraded() if name.startswith(scene.prefix)]
    assert len(names) == most + 1
    assert f"{scene.prefix}…" in names
    scene.queues.answer_with(lambda _: ACKNOWLEDGED)
    scene.relay.until(lambda: len(scene.queues.messages) == most + 50, 120.0)
    scene.until_state("…", "flowing", 200.0)
    assert not scene.degraded()


def test_one_that_takes_nothing_blocks_no_other_queue(scene: Scene) -> None:
    blocked = Away("no replica", "destination queues")
    scene.queues.answer_with(lambda event: blocked if event.event_type == "bad" else ACKNOWLEDGED)
    scene.relay.insert(30, "bad")
    scene.relay.run(1.0)
    scene.relay.insert(30, "good")
    assert scene.relay.until(lambda: scene.relay.delivered("good") == 30) < 2.0
    assert scene.degraded() == {f"{scene.prefix}bad": "blocked: no replica"}


def test_of_a_destination_that_is_away_no_part_is_named(scene: Scene) -> None:
    scene.queues.hung.add("bad")
    scene.relay.insert(3, "bad")
    scene.until_state("bad", "away")
    scene.queues.down("connection refused")
    scene.relay.insert(1, "good")
    scene.relay.run(10.0)
    assert f"{scene.prefix}bad" not in scene.degraded()
