"""How often a wait looks."""

from __future__ import annotations

import time

import pytest

from relay.localservers.waiting import pause_after, wait_until


class Clock:
    """Time that passes while one sleeps and while one looks."""

    def __init__(self) -> None:
        self.now = 0.0
        self.looks = 0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def look(self) -> bool:
        self.looks += 1
        self.now += 0.01
        return self.now >= 10.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    instance = Clock()
    monkeypatch.setattr(time, "monotonic", lambda: instance.now)
    monkeypatch.setattr(time, "sleep", instance.sleep)
    return instance


def test_a_long_wait_looks_ten_times_a_second_at_most_and_ends_soon_after(clock: Clock) -> None:
    wait_until(clock.look, 20.0)
    assert clock.looks < 120
    assert clock.now < 10.2


def test_a_wait_that_is_short_looks_often() -> None:
    assert pause_after(0.0) == pause_after(0.1) == 0.02


def test_a_deadline_ends_a_wait_with_what_was_waited_for(clock: Clock) -> None:
    with pytest.raises(TimeoutError, match="waited 5 s for rain; the last answer was False"):
        wait_until(clock.look, 5.0, "rain")
    assert clock.now < 5.2
