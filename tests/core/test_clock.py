"""The clock of leases goes on while the host is suspended."""

from __future__ import annotations

import sys
import time

import pytest

from relay.core.clock import steady_seconds


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has CLOCK_BOOTTIME")
def test_it_is_the_clock_that_counts_suspension() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    now = steady_seconds()
    assert before <= now <= time.clock_gettime(time.CLOCK_BOOTTIME)
