"""A relay whose publisher has several servers behind it, of which one does not answer."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping
from types import MappingProxyType

import pytest

from relay.core.event import OutboxEvent
from relay.core.outcome import ACKNOWLEDGED, Away, Outcome, Transient
from relay.core.status import Exposition, Readiness
from relay.core.telemetry import RelayState
from relay.engine.away import LONGEST_HOLD
from relay.engine.status import RelayStatus
from relay.outbox.outbox_options import KeyOrder
from tests.support.doubles.memory_publisher import MemoryPublisher
from tests.support.doubles.virtual_relay import VirtualRelay
from tests.support.fixtures.engine import MakeEngine

REASON = "connection refused"


def away(event: OutboxEvent) -> Outcome:
    return Away(REASON) if event.event_type == "away" else ACKNOWLEDGED


def readiness(relay: VirtualRelay, reported: Mapping[str, str] = MappingProxyType({})) -> Readiness:
    return RelayStatus(relay.relay, "relay", lambda _: Exposition(b"", ""), lambda: reported).readiness()


def offered(relay: VirtualRelay, event_type: str = "away") -> int:
    return sum(event.event_type == event_type for event in relay.broker.offered)


@pytest.fixture
def relay(engine: MakeEngine) -> VirtualRelay:
    one = engine(connect_retry_interval=5.0)
    one.broker.answer_with(away)
    return one


def test_the_others_flow_while_one_destination_is_away(relay: VirtualRelay) -> None:
    relay.run(1.0)
    states = len(relay.telemetry.states)
    waiting = relay.insert(30, "away")
    for _ in range(20):
        relay.insert(10)
        relay.run(1.0)
    assert relay.delivered() == 200
    assert {(str(relay.row(one).status), relay.row(one).attempts) for one in waiting} == {("PENDING", 0)}
    assert relay.telemetry.states[states - 1 :] == [(RelayState.ACTIVE, "")]
    assert relay.telemetry.counts["refused"] == relay.telemetry.counts["failed"] == 0


def test_it_is_tried_ever_more_rarely_up_to_a_bound(relay: VirtualRelay) -> None:
    relay.insert(1, "away")
    times: list[float] = []
    while len(times) < 8:
        relay.until(lambda: offered(relay) > len(times), seconds=LONGEST_HOLD + 2.0)
        times.append(relay.loop.time())
    waits = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert [round(wait / 5) for wait in waits] == [1, 2, 4, 6, 6, 6, 6]


def test_it_is_back_with_its_first_acknowledgement(relay: VirtualRelay) -> None:
    relay.insert(300, "away")
    relay.run(12.0)
    relay.broker.answer_with(lambda _: ACKNOWLEDGED)
    relay.until(lambda: relay.delivered("away"), seconds=LONGEST_HOLD)
    assert relay.until(lambda: relay.delivered("away") == 300) < 0.2
    assert not relay.telemetry.latest_away
    assert not readiness(relay).degraded
    relay.broker.answer_with(away)
    relay.insert(1, "away")
    relay.run(1.0)
    tried = offered(relay)
    assert relay.until(lambda: offered(relay) > tried) == pytest.approx(5.0, abs=1.0)  # as at the first time


def test_a_trial_is_one_claim_until_it_is_answered(engine: MakeEngine) -> None:
    one = engine(connect_retry_interval=5.0, batch_size=10, max_in_flight=1000)
    one.broker.answer_with(away)
    one.insert(500, "away")
    one.run(4.0)
    one.broker.answer_with(lambda event: None if event.event_type == "away" else ACKNOWLEDGED)
    before = offered(one)
    one.run(4.0)
    assert offered(one) - before == 10


def test_it_is_said(relay: VirtualRelay, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    relay.insert(5, "away")
    relay.run(1.0)
    assert readiness(relay).ready
    assert dict(readiness(relay).degraded) == {"destinations": f"no answer for event types away ({REASON})"}
    assert relay.telemetry.latest_away == ["away"]
    relay.run(20.0)
    relay.broker.answer_with(lambda _: ACKNOWLEDGED)
    relay.run(LONGEST_HOLD + 1.0)
    said = [vars(record)["action"] for record in caplog.records if "destination" in vars(record).get("action", "")]
    assert said == ["destination_away", "destination_back"]


def test_an_outage_that_the_publisher_reports_is_not_named_a_second_time(relay: VirtualRelay) -> None:
    reported = {"destination two": "connection refused"}
    outages = {
        "known": Away("destination two: connection refused", "destination two"),
        "other": Away("hooks.example.com: no answer"),
    }
    relay.broker.answer_with(lambda event: outages[event.event_type])
    relay.insert(1, "known")
    relay.run(1.0)
    assert dict(readiness(relay, reported).degraded) == reported
    relay.insert(1, "other")
    relay.run(1.0)
    other = "no answer for event types other (hooks.example.com: no answer)"
    assert dict(readiness(relay, reported).degraded) == {**reported, "destinations": other}
    waiting = readiness(relay, {}).degraded["destinations"]  # it answers, and its type is held a little longer
    assert "known (destination two: connection refused)" in waiting
    assert "other" in waiting


def test_it_is_forgotten_once_no_event_waits_for_it(relay: VirtualRelay) -> None:
    [one] = relay.insert(1, "away")
    relay.run(1.0)
    del relay.table.rows[one]
    relay.run(120.0)
    assert not relay.telemetry.latest_away
    assert not readiness(relay).degraded


def test_many_are_named_in_part(engine: MakeEngine) -> None:
    one = engine()
    one.broker.answer_with(lambda _: Away(REASON))
    for number in range(25):
        one.insert(1, f"type{number}")
    one.run(1.0)
    assert readiness(one).degraded["destinations"].endswith(" and 15 more")
    assert len(one.telemetry.latest_away) == 25


def test_a_type_with_several_servers_flows_trial_by_trial_and_is_not_claimed_without_a_pause(
    relay: VirtualRelay,
) -> None:
    relay.broker.answer_with(lambda event: Away(REASON) if event.partition_key == "a" else ACKNOWLEDGED)
    relay.insert(3, "mixed", partition_key="a")
    for _ in range(60):
        relay.insert(1, "mixed", partition_key="b")
        relay.run(1.0)
    assert relay.delivered("mixed") > 50
    assert offered(relay, "mixed") < 60 + 3 * 15


def test_other_failures_use_attempts_as_ever(relay: VirtualRelay) -> None:
    relay.broker.answer_with(lambda _: Transient("REFUSED", "no"))
    [one] = relay.insert(1, "away")
    relay.run(1.0)
    assert relay.row(one).attempts == 1
    assert not relay.telemetry.latest_away


@pytest.mark.parametrize("keeps_runs", [False, True])
def test_in_order_nothing_of_a_key_overtakes_what_waits(engine: MakeEngine, keeps_runs: bool) -> None:
    one = engine(MemoryPublisher(keeps_runs=keeps_runs), key_order=KeyOrder.SKIP, connect_retry_interval=5.0)
    one.broker.answer_with(away)
    one.insert(1, "before", partition_key="k")
    first = one.insert(3, "away", partition_key="k")
    behind = one.insert(3, "behind", partition_key="k")
    one.insert(4, partition_key="other")
    one.run(60.0)
    assert (one.delivered("before"), one.delivered("behind"), one.delivered()) == (1, 0, 4)
    assert {row.attempts for row in one.table.rows.values()} == {0}
    one.broker.answer_with(lambda _: ACKNOWLEDGED)
    one.run(LONGEST_HOLD + 1.0)
    messages = [event.event_id for event in one.broker.messages if event.partition_key == "k"]
    assert messages[1:] == [*first, *behind]
