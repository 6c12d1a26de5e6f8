"""The gate is open while the broker answers; a timeout alone decides nothing."""

from __future__ import annotations

import asyncio

from relay.core.outcome import ACKNOWLEDGED, TimedOut, Unreachable
from relay.core.telemetry import RelayState
from tests.support.fixtures.engine import MakeEngine
from tests.support.virtual_time import virtual_sleep


def test_a_broker_that_is_away_is_probed_once_an_interval_and_costs_no_attempt(engine: MakeEngine) -> None:
    one = engine(connect_retry_interval=2.0)
    one.broker.down("connection refused")
    one.insert(10)
    one.run(20.5)
    assert 10 <= one.broker.probes <= 11
    assert one.relay.health.state is RelayState.PAUSED
    assert one.relay.health.broker_error == "connection refused"
    assert one.counts() == {"PENDING": 10}


def test_a_health_check_finds_a_broker_that_hangs(engine: MakeEngine) -> None:
    one = engine(health_check_interval=5.0, probe_timeout=1.0)
    one.broker.hold()
    one.insert(10)
    one.until(lambda: len(one.broker.held) == 10)
    one.broker.hang()
    one.run(8.0)
    assert one.relay.health.state is RelayState.PAUSED
    assert one.broker.abandons
    assert one.counts() == {"PENDING": 10}
    assert {row.attempts for row in one.table.rows.values()} == {0}


def test_acknowledgements_outweigh_a_probe_that_was_starved(engine: MakeEngine) -> None:
    one = engine(health_check_interval=5.0, probe_timeout=1.0)
    one.broker.hold()
    one.insert(10)
    one.until(lambda: len(one.broker.held) == 10)
    probes = one.broker.probes
    one.broker._hangs = True  # for probes only
    one.until(lambda: one.broker.probes > probes, 10)
    one.do(lambda: one.broker.answer(ACKNOWLEDGED, one.broker.held[0].event_id))
    one.run(1.5)
    assert not one.relay.health.broker_error
    one.run(10.0)
    assert one.relay.health.state is RelayState.PAUSED


def test_a_timeout_is_an_attempt_where_the_broker_answers(engine: MakeEngine) -> None:
    one = engine()
    one.broker.answer_with(lambda _: TimedOut("NO_ACK", "5 s"))
    one.insert(3)
    one.run()
    assert {(row.attempts, row.last_error) for row in one.table.rows.values()} == {(1, "NO_ACK: 5 s")}
    assert one.relay.health.state is RelayState.ACTIVE


def test_a_timeout_is_the_brokers_fault_where_it_does_not_answer(engine: MakeEngine) -> None:
    one = engine(probe_timeout=1.0)
    one.broker.hold()
    one.insert(3)
    one.until(lambda: len(one.broker.held) == 3)
    one.broker.hang()
    one.do(lambda: one.broker.answer(TimedOut("NO_ACK", "5 s")))
    one.run(0.5)
    assert one.relay.inflight.undecided
    assert one.counts() == {"DELIVERING": 3}
    one.run(2.0)
    assert one.counts() == {"PENDING": 3}
    assert {row.attempts for row in one.table.rows.values()} == {0}


def test_one_unreachable_event_closes_the_gate_and_an_answered_probe_opens_it(engine: MakeEngine) -> None:
    one = engine(connect_retry_interval=2.0)
    one.broker.hold()
    one.insert(3)
    one.until(lambda: len(one.broker.held) == 3)
    one.do(lambda: one.broker.answer(Unreachable("reset"), one.broker.held[0].event_id))
    one.broker.answer_with(lambda _: ACKNOWLEDGED)
    one.run(0.01)
    assert one.relay.health.broker_error == "reset"
    one.run(3.0)
    assert one.relay.health.state is RelayState.ACTIVE
    assert one.counts() == {"DELIVERED": 3}


def test_a_broker_that_comes_and_goes_at_once_waits_the_interval(engine: MakeEngine) -> None:
    one = engine(connect_retry_interval=5.0)
    one.broker.answer_with(lambda _: Unreachable("reset"))  # probes are answered, events are not
    one.insert(3)
    one.run(60.0)
    assert one.broker.probes <= 14
    assert {row.attempts for row in one.table.rows.values()} == {0}


def test_a_probe_that_ignores_its_deadline_is_no_answer(engine: MakeEngine) -> None:
    one = engine(probe_timeout=1.0)
    probe = one.broker.probe
    one.broker.probe = lambda timeout: probe(1000.0 + timeout)  # type: ignore[method-assign]
    one.broker.hang()
    one.run(5.0)
    assert one.relay.health.broker_error == "no answer within 1 s"


def test_a_probe_over_a_slow_link_may_take_as_long_as_connecting_may(engine: MakeEngine) -> None:
    one = engine(connect_retry_interval=1.0, health_check_interval=5.0, probe_timeout=5.0, connection_timeout=10.0)
    probe = one.broker.probe

    async def slow(timeout: float) -> None:
        async with asyncio.timeout(timeout):
            await virtual_sleep(6.0)
        await probe(timeout)

    one.broker.probe = slow  # type: ignore[method-assign]
    one.insert(10)
    one.until(lambda: one.counts() == {"DELIVERED": 10}, 30.0)
    given_up = len(one.broker.abandons)
    one.run(60.0)  # health checks, between which nothing else says that the broker answers
    assert one.relay.health.state is RelayState.ACTIVE
    assert len(one.broker.abandons) == given_up
