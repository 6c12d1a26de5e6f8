"""What a relay adds to the minutes of its table: how often, what, and that no delivery waits for it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import pytest

from relay.core.errors import SchemaError, StorageUnavailable
from relay.core.event import OutboxEvent
from relay.core.optional_parts import TypeCounts
from relay.core.outcome import ACKNOWLEDGED, Outcome, Permanent, Transient
from tests.support.doubles.virtual_relay import VirtualRelay


class Minutes:
    """A series that remembers; ``error`` is raised instead, ``hangs`` never answers, ``absent`` has no table."""

    most_types = 5

    def __init__(self) -> None:
        self.writes: list[tuple[list[TypeCounts], float, float]] = []
        self.error: Exception | None = None
        self.hangs = self.absent = False

    async def add(self, counts: Sequence[TypeCounts], lag: float, gathered: float) -> float | None:
        if self.hangs:
            await asyncio.get_running_loop().create_future()
        if self.error is not None:
            raise self.error
        if self.absent:
            return None
        self.writes.append((list(counts), lag, gathered))
        return 60.0 - asyncio.get_running_loop().time() % 60.0

    def total(self) -> dict[str, tuple[int, int, int]]:
        sums: dict[str, Counter[int]] = {}
        for counts, _, _ in self.writes:
            for event_type, *numbers in counts:
                sums.setdefault(event_type, Counter()).update(dict(enumerate(numbers)))
        return {name: (one[0], one[1], one[2]) for name, one in sums.items()}


StartBeside = Callable[[Minutes], VirtualRelay]


@pytest.fixture
def beside() -> Iterator[StartBeside]:
    relays: list[VirtualRelay] = []

    def start(series: Minutes) -> VirtualRelay:
        relays.append(VirtualRelay(series=series))
        relays[-1].run(1.0)
        return relays[-1]

    yield start
    for relay in relays:
        relay.end()


def outcome(event: OutboxEvent) -> Outcome:
    outcomes: dict[str, Outcome] = {"slow": Transient("E", "later"), "bad": Permanent("E", "never")}
    return outcomes.get(event.event_type, ACKNOWLEDGED)


def test_once_a_minute_it_adds_what_was_delivered_failed_and_died(beside: StartBeside) -> None:
    minutes = Minutes()
    relay = beside(minutes)
    relay.broker.answer_with(outcome)
    for event_type, count in (("good", 7), ("slow", 2), ("bad", 3)):
        relay.insert(count, event_type)
    relay.run(58.0)
    assert len(minutes.writes) == 1
    relay.run(190.0)
    assert 4 <= len(minutes.writes) <= 6
    assert sum(gathered for _, _, gathered in minutes.writes) <= 250.0
    assert minutes.total() == {"good": (7, 0, 0), "bad": (0, 3, 3), "slow": (0, 6, 2), "": (0, 0, 0)}


def test_the_busiest_types_have_their_own_counts_and_the_others_one(beside: StartBeside) -> None:
    minutes = Minutes()
    relay = beside(minutes)
    for number in range(1, 9):
        relay.insert(number, f"t{number}")
    relay.run(61.0)
    names = [one.event_type for one in minutes.writes[-1][0]] or [one.event_type for one in minutes.writes[-2][0]]
    assert minutes.total() == {"": (6, 0, 0), **{f"t{number}": (number, 0, 0) for number in range(4, 9)}}
    assert names[-1] == ""


def test_a_lag_is_the_longest_of_its_minute(beside: StartBeside) -> None:
    minutes = Minutes()
    relay = beside(minutes)
    relay.broker.hold()
    relay.broker.down()
    relay.insert(1)
    relay.run(130.0)
    assert minutes.writes[0][1] == 0.0
    assert 45.0 < minutes.writes[1][1] < 61.0
    assert minutes.writes[-1][1] > 100.0


def test_what_could_not_be_written_is_added_to_the_next_minute(beside: StartBeside) -> None:
    minutes = Minutes()
    relay = beside(minutes)
    minutes.error = StorageUnavailable("away")
    relay.insert(3)
    relay.run(70.0)
    minutes.error = None
    relay.insert(4)
    relay.run(70.0)
    assert minutes.total()["good"] == (7, 0, 0)
    assert max(gathered for _, _, gathered in minutes.writes) > 70.0
    assert relay.relay.degraded() == {}


def test_what_it_may_not_write_is_said_and_dropped(beside: StartBeside, caplog: pytest.LogCaptureFixture) -> None:
    minutes = Minutes()
    relay = beside(minutes)
    minutes.error = SchemaError("no right; run: GRANT")
    relay.insert(3)
    relay.run(200.0)
    assert relay.relay.degraded() == {"series": "no right; run: GRANT"}
    assert [getattr(record, "action", "") for record in caplog.records].count("series_unwritten") == 1
    minutes.error = None
    relay.run(70.0)
    assert minutes.total() == {"": (0, 0, 0)}
    assert relay.relay.degraded() == {}


@pytest.mark.parametrize("trouble", ["hangs", "fails", "is absent"])
def test_no_delivery_and_no_stop_waits_for_it(beside: StartBeside, trouble: str) -> None:
    minutes = Minutes()
    minutes.hangs, minutes.absent = trouble == "hangs", trouble == "is absent"
    minutes.error = StorageUnavailable("away") if trouble == "fails" else None
    relay = beside(minutes)
    relay.insert(3)
    assert relay.until(lambda: relay.delivered() == 3) < 1.0
    relay.do(relay.relay.stop)
    relay.until(relay.task.done, relay.options.shutdown_timeout + 1.0)


def test_a_relay_that_stops_adds_what_it_has_counted(beside: StartBeside) -> None:
    minutes = Minutes()
    relay = beside(minutes)
    relay.insert(3)
    relay.run(2.0)
    relay.do(relay.relay.stop)
    relay.until(relay.task.done, 10.0)
    assert minutes.total()["good"] == (3, 0, 0)


def test_any_number_of_types_takes_bounded_memory(beside: StartBeside) -> None:
    minutes = Minutes()
    relay = beside(minutes)
    for number in range(1_500):
        relay.insert(1, f"t{number}")
    relay.run(62.0)
    assert minutes.total()[""][0] == 1_495
