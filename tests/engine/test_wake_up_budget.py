"""Wake-ups in vain cause few claims."""

from __future__ import annotations

from tests.engine.test_claim import Bell
from tests.support.fixtures.engine import MakeEngine


def test_wake_ups_without_events_cause_few_claims_and_those_with_events_are_heard(engine: MakeEngine) -> None:
    """Every session that may connect to the database can send wake-ups."""
    bell = Bell()
    one = engine(wake_ups=bell, poll_interval=0.5)
    one.run(5.0)

    def flood(seconds: float) -> float:
        before = one.telemetry.ops["claim", True]
        for _ in range(int(seconds * 1000)):
            one.do(bell.ring)
            one.run(0.001)
        return (one.telemetry.ops["claim", True] - before) / seconds

    assert flood(1.0) < 100.0
    assert flood(10.0) < 30.0
    one.insert()
    flood(0.2)
    assert one.delivered() == 1
    flood(2.0)
    for number in range(2, 50):  # an event now and then, and a wake-up for each that another relay got
        one.run(0.1)
        one.do(bell.ring)
        one.run(0.1)
        one.insert()
        one.do(bell.ring)
        one.run(0.02)
        assert one.delivered() == number
