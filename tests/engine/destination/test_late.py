"""When one of several destinations is late, and when that is over."""

from __future__ import annotations

import pytest

from relay.core.event import EventId, OutboxEvent
from relay.engine.batch import LATE
from relay.engine.destination.late import Lateness


@pytest.fixture
def lateness() -> Lateness:
    one = Lateness()
    one.offer([OutboxEvent(EventId("e1"), "slow", None, b"", "{}", 0, 0.0)])
    return one


def test_one_that_has_been_offered_its_first_events_is_not_late(lateness: Lateness) -> None:
    assert not lateness.flows(LATE, oldest_at=10.0, now=10.4)
    assert set(lateness.flows(LATE, oldest_at=10.0, now=10.5)) == {"slow"}


@pytest.mark.parametrize("acknowledged", [False, True])
def test_it_stays_late_until_a_newer_event_is_acknowledged_in_time(lateness: Lateness, acknowledged: bool) -> None:
    lateness.answer(10.0, 14.0, acknowledged=acknowledged)
    assert lateness.flows(LATE, oldest_at=14.0, now=14.0), "what was handed over since has no answer either"
    lateness.answer(10.0, 10.1, acknowledged=False)
    assert lateness.flows(LATE, oldest_at=14.0, now=14.2)
    lateness.answer(14.1, 14.2, acknowledged=True)
    assert not lateness.flows(LATE, oldest_at=14.2, now=14.2)


def test_an_event_that_waits_alone_makes_it_not_late(lateness: Lateness) -> None:
    lateness.answer(10.1, 10.2, acknowledged=True)
    assert not lateness.flows(LATE, oldest_at=10.0, now=12.0)
    lateness.answer(10.0, 14.0, acknowledged=False)
    assert not lateness.flows(LATE, oldest_at=14.0, now=14.0)
