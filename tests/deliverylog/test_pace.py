"""The recorder leaves the processor to the engine while it cannot keep up, and only then."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import pytest

from relay.deliverylog import LogEntry
from relay.deliverylog import pace as pacing
from relay.deliverylog.memory import MemoryDeliveryLog
from relay.deliverylog.pace import SHARE, Pace
from tests.deliverylog.test_recorder import opener, recording, settled
from tests.support.options import recorder_options
from tests.support.waiting import eventually

WORK = 0.01
"""Seconds of the processor that a write takes."""


class Clock:
    """The two clocks of a thread that works half of the time."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept = 0.0

    def monotonic(self) -> float:
        return self.now

    def thread_time(self) -> float:
        return (self.now - self.slept) / 2

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += seconds


@pytest.mark.parametrize(
    ("arrivals", "drops", "rest"),
    [
        (0, 0, 0.0),
        (100, 0, 0.0),
        (100, 1, 0.0),
        (101, 1, 0.1 / SHARE - 0.2),
        (10_000, 9_000, 0.1 / SHARE - 0.2),
        (10_000, 0, 0.0),
    ],
)
def test_there_is_a_rest_only_while_attempts_are_dropped_and_more_arrive_than_are_written(
    monkeypatch: pytest.MonkeyPatch, arrivals: int, drops: int, rest: float
) -> None:
    clock = Clock()
    monkeypatch.setattr(pacing, "time", clock)
    pace = Pace()
    arrived = dropped = 0
    rested = 0.0
    for _ in range(3):
        clock.now += 0.2
        arrived += round(arrivals * (1 + 5 * rested))
        dropped += drops
        rested = pace.rest(100, 0.2, arrived, dropped)
        assert rested == pytest.approx(rest)
        clock.sleep(rested)


def test_a_thread_that_works_little_never_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(pacing, "time", clock)
    pace = Pace()
    clock.now += 10.0
    monkeypatch.setattr(clock, "thread_time", lambda: 9 * SHARE)
    assert pace.rest(100, 0.2, 1_000_000, 900_000) == 0.0


class BusyStore(MemoryDeliveryLog):
    """A log whose writes take the processor, while far more attempts arrive."""

    def __init__(self) -> None:
        super().__init__()
        self.began: list[float] = []
        self.arrive: Callable[[], object] = list

    async def insert_many(self, entries: Sequence[LogEntry]) -> None:
        self.began.append(time.monotonic())
        self.arrive()
        ends = time.thread_time() + WORK
        while time.thread_time() < ends:
            pass
        await super().insert_many(entries)


async def test_a_recorder_that_drops_takes_no_more_than_its_share() -> None:
    store = BusyStore()
    options = recorder_options(batch_size=10, flush_interval=0.01, queue_size=30)
    async with recording(opener(store), options) as recorder:
        store.arrive = lambda: recorder.record([settled(n) for n in range(1000)])
        store.arrive()
        await eventually(lambda: recorder.written >= 40)
        # Both together: on a busy machine the first rest is long, and what arrives meanwhile does not outrun the log.
        assert store.began[3] - store.began[1] >= 2 * 0.9 * WORK / SHARE
        assert recorder.dropped > 0
