"""Virtual time in a process that has many descriptors open, as a worker has that ran the tests of ClickHouse."""

from __future__ import annotations

import asyncio
import os
import resource
from contextlib import ExitStack

import pytest

from tests.support.virtual_time import VirtualTimeLoop, virtual_sleep

_, MOST = resource.getrlimit(resource.RLIMIT_NOFILE)


@pytest.mark.skipif(0 <= MOST < 1_200, reason="the system allows a process fewer descriptors than the test opens")
def test_a_loop_may_have_descriptors_above_those_of_select() -> None:
    with ExitStack() as opened:
        for _ in range(1_100):
            opened.callback(os.close, os.dup(0))
        loop = VirtualTimeLoop()
        opened.callback(loop.end)

        loop.run_until_complete(asyncio.wait_for(virtual_sleep(60), 61))

        assert loop.time() == 60
