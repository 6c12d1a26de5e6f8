"""Several destinations: each has its own gate, and one that does not answer holds up no other."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

import pytest

from relay.core.errors import BrokerUnreachable, ConfigError
from relay.core.outcome import ACKNOWLEDGED, Away, ConnectionCut, Outcome, TimedOut, Transient, Unreachable
from relay.engine.destination.destination import Times, troubles
from relay.engine.destination.drops import Drops
from relay.engine.destination.several import SeveralPublishers
from relay.routing.rules import Routes, Rule
from relay.routing.template import read_template
from tests.brokers.harness.base import Collector, make_event
from tests.support.doubles.memory_publisher import MemoryPublisher
from tests.support.waiting import wait_until_async

ROUTES = Routes([Rule(1, "two.*", read_template("{type}", ""), "two")], default="one")


class Brokers:
    """Two brokers behind one publisher."""

    def __init__(self, *, keeps_runs: bool = False, capacity: int | None = None) -> None:
        self.one = MemoryPublisher(keeps_runs=keeps_runs)
        self.two = MemoryPublisher(keeps_runs=keeps_runs, capacity=capacity)
        options = Times(retry_interval=0.01, probe_timeout=0.05)
        self.publisher = SeveralPublishers({"one": self.one, "two": self.two}, ROUTES, Drops(), options)

    async def outcomes(self, *types: str) -> list[Outcome]:
        events = [make_event(event_type) for event_type in types]
        sink = Collector()
        await self.publisher.publish(events, sink)
        return await sink.outcomes(events)


@pytest.fixture
async def brokers() -> AsyncIterator[Brokers]:
    both = Brokers()
    await both.publisher.open()
    yield both
    await both.publisher.close()


async def hanging(_timeout: float) -> None:
    """A probe without an answer."""
    await asyncio.Event().wait()


def down(reason: str = "connection refused") -> Away:
    return Away(f"destination two: {reason}", "destination two")


async def test_each_event_goes_to_its_destination_in_order(brokers: Brokers) -> None:
    types = ["a", "two.a", "b", "two.b", "two.c"]
    assert await brokers.outcomes(*types) == [ACKNOWLEDGED] * 5
    assert [event.event_type for event in brokers.one.messages] == ["a", "b"]
    assert [event.event_type for event in brokers.two.messages] == ["two.a", "two.b", "two.c"]


async def test_one_that_is_down_is_away_and_the_other_goes_on(brokers: Brokers) -> None:
    brokers.two.down()
    assert await brokers.outcomes("two.a", "a") == [down(), ACKNOWLEDGED]
    offered = len(brokers.two.offered)
    assert await brokers.outcomes("two.b", "two.c", "b") == [down(), down(), ACKNOWLEDGED]
    assert len(brokers.two.offered) == offered, "nothing is handed to a destination that is away"
    [(title, trouble)] = troubles(brokers.publisher.members.values()).items()
    assert title == "destination two"
    assert re.fullmatch(r"away since \S+Z: connection refused", trouble)
    await brokers.publisher.probe(0.1)


async def test_it_is_found_again_by_its_own_probes(brokers: Brokers) -> None:
    brokers.two.down()
    await brokers.outcomes("two.a")
    brokers.two.up()

    async def answers() -> bool:
        return not troubles(brokers.publisher.members.values())

    await wait_until_async(answers, what="the destination to answer")
    assert await brokers.outcomes("two.b") == [ACKNOWLEDGED]


async def test_one_that_is_away_is_asked_once_an_interval_by_whoever_knocks() -> None:
    """The engine knocks when none answers, and so does the destination itself."""
    one, options = MemoryPublisher(), Times(retry_interval=60.0)
    publisher = SeveralPublishers({"one": one}, Routes(default="one"), Drops(), options)
    await publisher.open()
    one.down()
    for _ in range(3):
        with pytest.raises(BrokerUnreachable, match="connection refused"):
            await publisher.probe(0.1)
    assert one.probes == 1
    await publisher.close()


async def test_what_it_holds_unanswered_is_given_back_when_it_goes_away(brokers: Brokers) -> None:
    brokers.two.hold()
    events, sink = [make_event("two.a"), make_event("two.b"), make_event("a")], Collector()
    await brokers.publisher.publish(events, sink)
    await sink.until(lambda: len(sink.resolutions) == 1)
    brokers.two.down()
    await brokers.publisher.probe(0.1)
    assert await sink.outcomes(events) == [down(), down(), ACKNOWLEDGED]
    assert brokers.two.abandons
    assert not brokers.two.held


async def test_once_none_answers_all_are_unreachable_and_the_probe_says_which(brokers: Brokers) -> None:
    brokers.one.down("no route")
    brokers.two.down()
    await brokers.outcomes("a", "two.a")
    assert {type(outcome) for outcome in await brokers.outcomes("a", "two.a")} == {Unreachable}
    with pytest.raises(BrokerUnreachable) as caught:
        await brokers.publisher.probe(0.1)
    assert "destination one: no route" in str(caught.value)
    assert "destination two: connection refused" in str(caught.value)


async def test_a_failed_event_is_no_sign_of_life_while_a_probe_waits(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brokers.two, "probe", hanging)
    brokers.two.answer_with(lambda _: Transient("BUSY", "no"))
    member = brokers.publisher.members["two"]
    probe = asyncio.create_task(member.check(0.05))
    assert await brokers.outcomes("two.a") == [Transient("BUSY", "no")]
    with pytest.raises(BrokerUnreachable):
        await probe


async def test_one_that_gives_events_back_is_refused_only_where_a_probe_says_so(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(brokers.two, "probe", hanging)
    brokers.two.answer_with(lambda _: Unreachable("gone"))
    assert await brokers.outcomes("two.a") == [down("gone")]
    condition = brokers.publisher.members["two"].condition
    assert (condition.state, condition.reason) == ("away", "gone")


async def test_a_probe_needs_one_answer_and_finds_the_one_that_hangs(brokers: Brokers) -> None:
    brokers.two.hang()
    await brokers.publisher.probe(0.05)

    async def away() -> bool:
        return "destination two" in troubles(brokers.publisher.members.values())

    await wait_until_async(away, what="the other probe to end")


@pytest.mark.parametrize("outcome", [TimedOut("NO_ACK", "late"), ConnectionCut("reset")])
async def test_a_timeout_or_cut_is_decided_by_a_probe_of_that_destination(brokers: Brokers, outcome: Outcome) -> None:
    brokers.two.answer_with(lambda _: outcome)
    answered = Transient("NO_ACK", "late") if isinstance(outcome, TimedOut) else outcome
    assert await brokers.outcomes("two.a", "a") == [answered, ACKNOWLEDGED]
    brokers.two.hold()
    event, sink = make_event("two.b"), Collector()
    await brokers.publisher.publish([event], sink)

    async def holds() -> bool:
        return bool(brokers.two.held)

    await wait_until_async(holds, what="the event to be offered")
    brokers.two.down()
    brokers.two.answer(outcome)
    assert await sink.outcomes([event]) == [down()]


async def test_a_client_that_is_full_holds_up_no_other_destination() -> None:
    both = Brokers(capacity=1)
    both.two.hold()
    events, sink = [*(make_event("two.a") for _ in range(5)), make_event("a")], Collector()
    await both.publisher.publish(events, sink)
    await sink.until(lambda: [event for event, _ in sink.resolutions] == [events[-1]])
    await both.publisher.abandon("the lease was lost")
    assert (await sink.outcomes(events))[:5] == [Unreachable("the lease was lost")] * 5
    assert not troubles(both.publisher.members.values())
    both.two.up()
    both.two.answer_with(lambda _: ACKNOWLEDGED)
    assert await both.outcomes("two.b") == [ACKNOWLEDGED]
    await both.publisher.close()


async def test_a_publisher_that_raises_fails_its_own_events(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(brokers.two, "publish", broken)
    assert await brokers.outcomes("two.a", "a") == [Transient("RuntimeError", "a bug"), ACKNOWLEDGED]


async def test_a_configuration_that_cannot_work_names_the_destination(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused() -> None:
        raise ConfigError("no such certificate")

    monkeypatch.setattr(brokers.two, "open", refused)
    with pytest.raises(ConfigError, match="destination two: no such certificate"):
        await brokers.publisher.open()


async def test_runs_are_kept_where_both_keep_them() -> None:
    assert Brokers(keeps_runs=True).publisher.keeps_runs
    assert not Brokers().publisher.keeps_runs


class BrokenProbe(MemoryPublisher):
    """A client whose probes raise what they should not, the first few times."""

    async def probe(self, timeout: float) -> None:
        """Raise three times, then probe."""
        if self.probes < 3:
            self.probes += 1
            raise RuntimeError("a fault of the client")
        await super().probe(timeout)


async def test_a_client_with_a_fault_in_its_probe_is_asked_again_and_its_events_are_given_back() -> None:
    both = Brokers()
    broken = both.publisher.members["two"].publisher = BrokenProbe()
    await both.publisher.open()
    broken.answer_with(lambda _: TimedOut("T", "no answer"))
    assert await both.outcomes("two.a") == [down("a fault of the client")]
    broken.answer_with(lambda _: ACKNOWLEDGED)

    async def answers() -> bool:
        return not troubles(both.publisher.members.values())

    await wait_until_async(answers, what="the destination to answer")
    assert await both.outcomes("two.a") == [ACKNOWLEDGED]
    await both.publisher.close()


async def test_a_shard_that_does_not_answer_neither_begins_nor_ends_a_state_of_its_destination(
    brokers: Brokers, caplog: pytest.LogCaptureFixture
) -> None:
    brokers.two.answer_with(lambda event: Away("node 2") if event.event_type == "two.lost" else ACKNOWLEDGED)
    for _ in range(3):
        assert await brokers.outcomes("two.lost", "two.a") == [Away("destination two: node 2"), ACKNOWLEDGED]
        assert not troubles(brokers.publisher.members.values())
    assert not [one for one in caplog.records if "destination" in getattr(one, "action", "")]
