"""Readings that viewers share: how often they are made, and that nobody sees one from before a change."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from relay.console.readings import FreshAfterChanges, Readings, SharedReading
from relay.core.errors import StorageUnavailable
from relay.postgres.sql import TableName
from tests.support.clock import Clock
from tests.support.waiting import wait_until


class Source:
    """Counts readings; each lasts until it is let go."""

    def __init__(self) -> None:
        self.count = 0
        self.go = threading.Event()
        self.error: Exception | None = None

    def read(self) -> int:
        self.count += 1
        assert self.go.wait(30)
        if self.error is not None:
            raise self.error
        return self.count


@pytest.fixture
def clock() -> Clock:
    return Clock(100.0)


@pytest.fixture
def source() -> Source:
    return Source()


def test_a_reading_is_shown_again_for_a_second(source: Source, clock: Clock) -> None:
    source.go.set()
    reading = SharedReading(source.read, fresh=1.0, clock=clock)
    assert [reading.get(), reading.get()] == [1, 1]
    clock.now += 0.9
    assert reading.get() == 1
    clock.now += 0.2
    assert reading.get() == 2


@pytest.mark.parametrize(("took", "rested"), [(0.005, 1.0), (0.05, 5.0), (60.0, 10.0)])
def test_a_slow_reading_is_made_less_often(clock: Clock, took: float, rested: float) -> None:
    def read() -> float:
        clock.now += took
        return clock.now

    reading = SharedReading(read, clock=clock)
    first = reading.get()
    clock.now += rested - 0.01
    assert reading.get() == first
    clock.now += 0.02
    assert reading.get() > first


def test_after_a_change_it_is_made_again(source: Source, clock: Clock) -> None:
    source.go.set()
    reading = SharedReading(source.read, clock=clock)
    assert reading.get() == 1
    reading.forget()
    clock.now += 0.001
    assert [reading.get(), reading.get()] == [2, 2]


def test_callers_at_once_share_one_reading_and_its_error(source: Source) -> None:
    reading = SharedReading(source.read)
    source.error = StorageUnavailable("no answer")
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(reading.get)
        wait_until(lambda: source.count == 1, what="the first reading")
        others = [pool.submit(reading.get) for _ in range(7)]
        wait_until(lambda: all(each.running() for each in others), what="the other callers")
        source.go.set()
        errors = [each.exception() for each in (first, *others)]
    assert all(isinstance(error, StorageUnavailable) for error in errors)
    assert source.count < 8  # those that had called while the first one failed got its error
    source.error = None
    assert reading.get() == source.count


@pytest.mark.parametrize(("method", "forgotten"), [("GET", False), ("POST", True), ("DELETE", True)])
async def test_a_request_that_may_change_something_makes_readings_old(method: str, forgotten: bool) -> None:
    readings = Readings("", TableName())
    calls: list[str] = []
    readings.forget = lambda: calls.append("forget")  # type: ignore[method-assign]

    async def app(scope: object, receive: object, send: object) -> None:
        await send({"type": "http.response.start"})  # type: ignore[operator]

    async def send(message: object) -> None:
        calls.append("answer")

    await FreshAfterChanges(app, readings)({"type": "http", "method": method}, None, send)  # type: ignore[arg-type]
    assert calls == (["forget", "answer"] if forgotten else ["answer"])
