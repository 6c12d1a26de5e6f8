"""What else ran while a benchmark measured: steal, and processes that the benchmark did not start."""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.disturbance import TICKS, Sample, Times

_ORPHAN = """
import os, sys
if child := os.fork():
    print(child)
else:
    os.close(1)
    sys.stdin.read()
"""


def running(program: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def sample(seconds: float, steal: int = 0, **others: tuple[int, int]) -> Sample:
    processes = {(number, 0): Times(name, *times) for number, (name, times) in enumerate(others.items())}
    return Sample(seconds, round(seconds * 2 * TICKS), steal, processes)


def test_steal_is_a_share_of_the_time_of_all_cores() -> None:
    disturbance = sample(20, steal=3 * TICKS).since(sample(10, steal=TICKS))
    assert disturbance.steal == pytest.approx(0.1)
    assert disturbance.excessive
    assert not sample(20, steal=TICKS).since(sample(10, steal=TICKS)).excessive


def test_other_processes_count_together_by_their_name() -> None:
    before = sample(10, java=(50, 0), bash=(1, 0))
    disturbance = sample(20, java=(50 + TICKS, 0), bash=(1 + TICKS // 2, 0)).since(before)
    assert disturbance.others == pytest.approx(0.15)
    assert (disturbance.busiest, disturbance.excessive) == ("java", True)
    assert not sample(20, java=(50 + TICKS // 2, 0), bash=(1, 0)).since(before).excessive


def test_a_process_that_ended_counts_with_what_it_used_meanwhile() -> None:
    before = sample(10, bash=(0, 0), python=(9 * TICKS, 0))
    assert sample(20, bash=(0, 11 * TICKS)).since(before).others == pytest.approx(0.2)
    assert sample(20, bash=(0, 0)).since(before).others == 0


def test_what_the_benchmark_started_is_not_another_process() -> None:
    with running("input()") as own, running(_ORPHAN) as parent:
        assert parent.stdout is not None
        orphan = int(parent.stdout.readline())
        parent.wait()
        others = {pid for pid, _ in Sample.now().others}
        assert orphan in others
        assert own.pid not in others
        for one in (own, parent):
            one.communicate(b"\n")
