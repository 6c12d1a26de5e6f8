"""An event for several destinations: what their outcomes make together, and who gets it again."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator

import pytest

from relay.core.event import OutboxEvent
from relay.core.outcome import (
    ACKNOWLEDGED,
    Acknowledged,
    Away,
    ConnectionCut,
    Outcome,
    Permanent,
    Resolution,
    TimedOut,
    Transient,
    Unreachable,
    Withheld,
)
from relay.engine.destination.destination import Times
from relay.engine.destination.drops import Drops
from relay.engine.destination.fanout import FanOut, combine
from relay.engine.destination.several import SeveralPublishers
from relay.routing.rules import Routes, Rule, Target
from relay.routing.template import read_template
from tests.brokers.harness.base import Collector, make_event
from tests.support.doubles.memory_publisher import MemoryPublisher
from tests.support.waiting import wait_until_async

TYPE = read_template("{type}", "")
BOTH = Rule(1, "both.*", TYPE, "one", (Target("two", read_template("copy.{type}", "")),))
ROUTES = Routes([BOTH, Rule(2, "two.*", TYPE, "two")], default="one")

CUT = ConnectionCut("reset")
RETRY = Transient("LEADER", "changed", 7.0)
NEVER = Permanent("TOO_LARGE", "1 MB")
LATE = TimedOut("NO_ACK", "late")
GONE = Away("destination b: refused", "destination b")
NONE = Unreachable("destination b: refused")
BACK = Withheld("another failed")


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([NEVER], Permanent("TOO_LARGE", "destination a: 1 MB")),
        ([NEVER, NEVER], Permanent("TOO_LARGE", "destination a: 1 MB; destination b: 1 MB")),
        ([RETRY], Transient("LEADER", "destination a: changed", 7.0)),
        ([LATE], Transient("NO_ACK", "destination a: late")),
        ([NEVER, RETRY], Transient("LEADER", "destination a: 1 MB; destination b: changed", 7.0)),
        ([NEVER, GONE], Transient("TOO_LARGE", "destination a: 1 MB; destination b: refused")),
        ([RETRY, GONE], Transient("LEADER", "destination a: changed; destination b: refused", 7.0)),
        ([RETRY, NONE], Transient("LEADER", "destination a: changed; destination b: refused", 7.0)),
        ([NEVER, BACK], Transient("TOO_LARGE", "destination a: 1 MB; destination b: another failed")),
        ([CUT, NEVER], ConnectionCut("destination a: reset; destination b: 1 MB")),
        ([GONE], GONE),
        ([GONE, BACK], Withheld("destination b: refused; destination b: another failed")),
        ([NONE, NONE], Unreachable("destination b: refused; destination b: refused")),
        ([NONE, GONE], Withheld("destination b: refused; destination b: refused")),
    ],
)
def test_outcomes_are_combined(outcomes: list[Outcome], expected: Outcome) -> None:
    assert combine(list(zip("ab", outcomes, strict=False))) == expected


def test_nothing_terminal_comes_from_one_while_another_may_still_take_it() -> None:
    kinds: list[Outcome] = [CUT, RETRY, NEVER, LATE, GONE, NONE, BACK]
    for pair in itertools.product(kinds, repeat=2):
        terminal = isinstance(combine(list(zip("ab", pair, strict=True))), Permanent)
        assert terminal == (pair == (NEVER, NEVER))


def test_none_answers_only_if_none_did_in_this_attempt() -> None:
    assert combine([("b", NONE)], ["a"]) == Unreachable("destination b: refused; acknowledged by a")
    assert combine([("b", NONE)], ["a"], answered=True) == Withheld("destination b: refused; acknowledged by a")


@pytest.mark.parametrize(("before", "outcome"), [("", Withheld), ("a", Unreachable)])
def test_an_answer_of_an_earlier_attempt_is_none_of_this_one(before: str, outcome: type[Outcome]) -> None:
    event = make_event("both.t")._replace(acknowledged_by=before or None)
    fan_out = FanOut(event, 1 if before else 2)
    if not before:
        fan_out.resolve("a", "both.t", ACKNOWLEDGED)
    resolution = fan_out.resolve("b", "copy.both.t", NONE)
    assert resolution is not None
    assert type(resolution[1]) is outcome
    assert resolution[0].acknowledged_by == "a"


def test_the_outcome_comes_with_the_last_destination_and_names_those_that_have_it() -> None:
    event = make_event("both.a")._replace(acknowledged_by="first")
    fan_out = FanOut(event, 3)
    assert fan_out.resolve("one", "x", ACKNOWLEDGED) is None
    assert fan_out.resolve("two", "x", RETRY) is None
    resolution = fan_out.resolve("three", "x", ACKNOWLEDGED)
    reason = "destination two: changed; acknowledged by first, one, three"
    assert resolution == (event._replace(acknowledged_by="first,one,three"), Transient("LEADER", reason, 7.0))


def test_receipts_are_kept_by_destination() -> None:
    fan_out = FanOut(make_event("both.a"), 2)
    fan_out.resolve("one", "x", Acknowledged({"partition": 1}))
    resolution = fan_out.resolve("two", "y", Acknowledged({"sequence": 2}))
    assert resolution is not None
    assert resolution[1] == Acknowledged(
        {"one.partition": 1, "one.destination": "x", "two.sequence": 2, "two.destination": "y"}
    )


class Brokers:
    """Two brokers behind one publisher."""

    def __init__(self) -> None:
        self.one = MemoryPublisher()
        self.two = MemoryPublisher()
        options = Times(retry_interval=0.01, probe_timeout=0.05)
        self.publisher = SeveralPublishers({"one": self.one, "two": self.two}, ROUTES, Drops(), options)

    async def resolve(self, *events: OutboxEvent) -> list[Resolution]:
        sink = Collector()
        await self.publisher.publish(events, sink)
        await sink.until(lambda: len(sink.resolutions) == len(events))
        return sink.resolutions


@pytest.fixture
async def brokers() -> AsyncIterator[Brokers]:
    both = Brokers()
    await both.publisher.open()
    yield both
    await both.publisher.close()


def names(publisher: MemoryPublisher) -> list[str]:
    return [event.event_type for event in publisher.messages]


async def test_each_destination_gets_it_under_its_own_name_and_the_engine_gets_its_event_back(brokers: Brokers) -> None:
    event = make_event("both.a")
    assert await brokers.resolve(event) == [(event, ACKNOWLEDGED)]
    assert (names(brokers.one), names(brokers.two)) == (["both.a"], ["copy.both.a"])
    assert {one.announced_type for one in (*brokers.one.messages, *brokers.two.messages)} == {"both.a"}


async def test_each_copy_of_several_has_an_id_of_its_own_and_a_single_one_has_the_events(
    brokers: Brokers,
) -> None:
    both, alone = make_event("both.a"), make_event("two.a")
    await brokers.resolve(both, alone)
    assert [event.copy_id for event in brokers.one.messages] == [f"{both.event_id}:one"]
    assert [event.copy_id for event in brokers.two.messages] == [f"{both.event_id}:two", alone.event_id]


async def test_the_identity_of_a_copy_stays_when_another_destination_has_it(brokers: Brokers) -> None:
    event = make_event("both.a")._replace(acknowledged_by="one")
    await brokers.resolve(event)
    assert [copy.copy_id for copy in brokers.two.messages] == [f"{event.event_id}:two"]


async def test_what_one_has_acknowledged_it_does_not_get_again(brokers: Brokers) -> None:
    brokers.two.answer_with(lambda _: RETRY)
    [(event, outcome)] = await brokers.resolve(make_event("both.a"))
    assert event.acknowledged_by == "one"
    assert outcome == Transient("LEADER", "destination two: changed; acknowledged by one", 7.0)
    brokers.two.answer_with(lambda _: ACKNOWLEDGED)
    assert await brokers.resolve(event) == [(event, ACKNOWLEDGED)]
    assert (names(brokers.one), names(brokers.two)) == (["both.a"], ["copy.both.a"])


async def test_routes_that_were_changed_send_it_to_no_destination_that_has_it(brokers: Brokers) -> None:
    to_one, to_two = (
        make_event("a")._replace(acknowledged_by="one"),
        make_event("two.a")._replace(acknowledged_by="one"),
    )
    outcomes = await brokers.resolve(to_one, to_two)
    assert outcomes == [(to_one, ACKNOWLEDGED), (to_two, ACKNOWLEDGED)]
    assert (names(brokers.one), names(brokers.two)) == ([], ["two.a"])


async def test_while_one_is_away_the_other_gets_it_and_the_rest_flows(brokers: Brokers) -> None:
    brokers.two.down("refused")
    await brokers.resolve(make_event("two.a"))
    event, other = make_event("both.a"), make_event("a")
    resolved = {one.event_id: (one.acknowledged_by, outcome) for one, outcome in await brokers.resolve(event, other)}
    reason = "destination two: refused; acknowledged by one"
    assert resolved[event.event_id] == ("one", Away(reason, "destination two"))
    assert resolved[other.event_id] == (None, ACKNOWLEDGED)


async def test_abandoning_gives_it_back_once_with_the_names(brokers: Brokers) -> None:
    brokers.two.hold()
    event, sink = make_event("both.a"), Collector()
    await brokers.publisher.publish([event], sink)

    async def with_both() -> bool:
        return len(brokers.one.messages) == 1 and len(brokers.two.held) == 1

    await wait_until_async(with_both, what="both to have it")
    await brokers.publisher.abandon("the gate closed")
    [(back, outcome)] = sink.resolutions
    assert (back.event_id, back.acknowledged_by) == (event.event_id, "one")
    assert isinstance(outcome, Withheld)


async def test_a_cut_connection_is_one_of_the_event_for_the_destination_that_lacks_it(brokers: Brokers) -> None:
    brokers.two.answer_with(lambda _: CUT)
    [(event, outcome)] = await brokers.resolve(make_event("both.a"))
    assert (event.acknowledged_by, outcome) == (
        "one",
        ConnectionCut("destination two: reset; acknowledged by one"),
    )
    twin = brokers.publisher.twin()
    await twin.open()
    sink = Collector()
    await twin.publish([event], sink)
    await sink.until(lambda: bool(sink.resolutions))
    await twin.close()
    assert len(brokers.one.messages) == 1
