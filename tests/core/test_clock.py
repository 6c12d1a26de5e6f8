"""The clock of leases goes on while the host is suspended."""

from __future__ import annotations

import sys
import time

import pytest

from relay.core.clock import DatabaseClock, steady_seconds


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has CLOCK_BOOTTIME")
def test_it_is_the_clock_that_counts_suspension() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    now = steady_seconds()
    assert before <= now <= time.clock_gettime(time.CLOCK_BOOTTIME)


class Times:
    """A host's clock and a steady one, which a test sets."""

    def __init__(self) -> None:
        self.host, self.steady = 1_000_000.0, 50.0
        self.clock = DatabaseClock(lambda: self.host, lambda: self.steady)


def test_the_databases_time_is_the_hosts_until_it_is_measured() -> None:
    times = Times()
    assert (times.clock.now(), times.clock.offset) == (1_000_000.0, 0.0)


def test_the_databases_time_goes_on_by_the_steady_clock_whatever_becomes_of_the_hosts() -> None:
    times = Times()
    times.clock.measured(2_000_000.0, 49.5, 50.5)
    times.steady += 10.0
    times.host = 0.0
    assert (times.clock.now(), times.clock.offset) == (2_000_010.0, 2_000_010.0)


def test_a_slow_answer_counts_only_where_the_last_one_is_old() -> None:
    times = Times()
    times.clock.measured(2_000_000.0, 50.0, 50.0)
    times.clock.measured(2_000_010.0, 52.0, 58.0)
    assert times.clock.now() == 2_000_000.0
    times.steady = 130.0
    times.clock.measured(2_000_070.0, 110.0, 130.0)
    assert times.clock.now() == 2_000_080.0


def test_an_offset_that_receivers_mind_is_logged_once_an_hour(caplog: pytest.LogCaptureFixture) -> None:
    times = Times()
    for at, offset in ((50.0, 29.0), (60.0, -31.0), (70.0, -31.0), (3661.0, 31.0)):
        times.steady = at
        times.clock.measured(times.host + offset, at, at)
    lines = [record.message.split(". ")[0] for record in caplog.records]
    assert lines == [
        "this host's clock is 31 s ahead of the database's",
        "this host's clock is 31 s behind the database's",
    ]
