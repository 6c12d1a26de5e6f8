"""How soon an event is claimed without a wake-up, and what an outbox in which nothing happens costs."""

from __future__ import annotations

import pytest

from relay.engine.waiting import Polling
from tests.support.fixtures.engine import MakeEngine


def test_while_events_trickle_in_each_is_offered_within_milliseconds(engine: MakeEngine) -> None:
    one = engine()
    one.run(1.0)
    one.insert()
    one.until(one.delivered, 1.0)
    for number in range(1, 50):
        one.run(0.0007 * (number % 50))  # 0 to 34 ms apart, at any moment of a claim and of a rest
        one.insert()
        one.run(0.006)
        assert len(one.broker.offered) == number + 1


def test_after_an_event_the_claims_become_rare_soon(engine: MakeEngine) -> None:
    one = engine(poll_interval=0.5)
    one.run(10.0)
    one.insert()
    one.until(one.delivered, 1.0)
    before = one.telemetry.ops["claim", True]
    one.run(2.0)
    assert one.telemetry.ops["claim", True] - before < 35


def test_a_steady_flow_is_claimed_in_groups(engine: MakeEngine) -> None:
    one = engine(poll_interval=0.5)
    one.insert()
    one.until(one.delivered, 1.0)
    before = one.telemetry.ops["claim", True]
    for _ in range(1000):
        one.insert(5)
        one.run(0.001)
    assert one.telemetry.ops["claim", True] - before < 150


@pytest.mark.parametrize(
    ("events", "took", "milliseconds"),
    [(1, 0.0005, 1), (0, 0.0005, 1), (4, 0.0005, 1), (12, 0.0005, 3), (90, 0.0005, 5), (0, 0.002, 2), (0, 1.0, 5)],
)
def test_a_rest_is_as_long_as_the_claim_and_longer_after_many_events(
    events: int, took: float, milliseconds: int
) -> None:
    polling = Polling(0.5)
    polling.expect_events(100.0)
    assert 0.9 * milliseconds <= polling.rest(events, took, 100.04) * 1000 <= milliseconds


def test_rests_grow_once_nothing_came_for_a_while_and_never_exceed_the_poll_interval() -> None:
    polling = Polling(0.5)
    polling.expect_events(100.0)
    assert polling.rest(0, 0.0, 100.049) <= 0.001
    rests = [polling.rest(0, 0.0, 100.051) * 1000 for _ in range(12)]
    for rest, longest in zip(rests, [1, 2, 4, 8, 16, 32, 64, 128, 256, 500, 500, 500], strict=True):
        assert 0.9 * longest <= rest <= longest
    assert polling.rest(1, 0.0, 101.0) <= 0.001
    assert Polling(0.0002).rest(50, 0.0, 0.0) <= 0.0002
