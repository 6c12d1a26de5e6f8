"""An outcome becomes a verdict, a log line, a measurement and an attempt record."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from relay.core.backoff import RetryPolicy
from relay.core.event import EventId, Fence, OutboxEvent
from relay.core.outcome import (
    ACKNOWLEDGED,
    Acknowledged,
    ConnectionCut,
    Outcome,
    Permanent,
    TimedOut,
    Transient,
    Unreachable,
    Withheld,
)
from relay.core.recorder import SettledAttempt
from relay.engine import decide
from relay.engine.batch import Batch
from relay.engine.context import EngineContext
from relay.engine.decide import Decider
from relay.engine.fences import Lease
from tests.support.doubles.memory_publisher import MemoryPublisher
from tests.support.doubles.memory_storage import MemoryOutbox, MemoryTable
from tests.support.doubles.telemetry import MemoryTelemetry
from tests.support.options import engine_options

FENCE = Fence(datetime(2030, 1, 1, tzinfo=UTC))
RETRY = RetryPolicy(max_attempts=3, base_delay=60.0, max_delay=600.0, jitter=0.0)


class Notes:
    """A recorder that keeps attempts."""

    wants_successes = True

    def __init__(self) -> None:
        self.kept: list[SettledAttempt] = []

    def refuses(self, _count: int) -> bool:
        return False

    def record(self, attempts: Sequence[SettledAttempt]) -> None:
        self.kept += attempts


class Bench:
    """A decider with one batch."""

    def __init__(self, *events: OutboxEvent) -> None:
        self.now = 100.0
        self.telemetry = MemoryTelemetry()
        self.notes = Notes()
        storage = MemoryOutbox(MemoryTable())
        options = engine_options(retry=RETRY)
        self.context = EngineContext(storage, MemoryPublisher(), self.telemetry, options, lambda: self.now, self.notes)
        self.decider = Decider(self.context)
        self.batch = Batch(Lease.of(FENCE, 100.0, 30.0), events, 100.0, recorder=self.notes)
        self.inflight = self.context.inflight
        self.inflight.add(self.batch)

    def resolve(self, *outcomes: Outcome) -> None:
        """Outcomes of the events, in their order."""
        self.now += 2.0
        self.decider.resolve(self.batch, list(zip(list(self.batch.offered.values()), outcomes, strict=True)))

    def settle(self) -> None:
        """Let everything decided be written."""
        for portion in self.batch.take_verdicts():
            self.batch.settled(portion)


def event(name: str, attempts: int = 0) -> OutboxEvent:
    return OutboxEvent(EventId(name), "orders", None, b"", "{}", attempts, 5.0)


async def test_an_acknowledgement_is_delivered_measured_and_recorded() -> None:
    bench = Bench(event("a"), event("b"))
    bench.resolve(ACKNOWLEDGED, ACKNOWLEDGED)
    assert bench.batch.verdicts.delivered == ["a", "b"]
    assert bench.decider.acknowledged == 2
    assert bench.telemetry.counts["acknowledged"] == 2
    assert bench.inflight.settleable.is_set()
    bench.settle()
    assert [(one.event.event_id, one.seconds, one.claimed_at) for one in bench.notes.kept] == [
        ("a", 2.0, FENCE),
        ("b", 2.0, FENCE),
    ]


async def test_failures_are_retried_buried_said_measured_and_recorded(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(event("a"), event("b", attempts=2), event("c"), event("d"))
    bench.resolve(Transient("LEADER", "changed"), Transient("LEADER", "changed"), Permanent("SIZE", ""), ACKNOWLEDGED)
    verdicts = bench.batch.verdicts
    assert verdicts.retried == [("a", "LEADER: changed", 60.0)]
    assert verdicts.buried == [("b", "LEADER: changed"), ("c", "SIZE")]
    assert verdicts.delivered == ["d"]
    assert bench.telemetry.counts["refused"] == 3
    said = [(record.action, record.event_id, record.levelno) for record in caplog.records]  # type: ignore[attr-defined]
    warning = logging.WARNING
    assert said == [("event_retried", "a", warning), ("event_dead", "b", warning), ("event_dead", "c", warning)]
    bench.settle()
    assert sorted(one.event.event_id for one in bench.notes.kept) == ["a", "b", "c", "d"]


async def test_an_unreachable_broker_releases_wakes_the_gate_and_is_no_attempt() -> None:
    bench = Bench(event("a"))
    bench.resolve(Unreachable("connection refused"))
    assert bench.batch.verdicts.released == ["a"]
    assert bench.decider.unreachable_reason == "connection refused"
    assert bench.inflight.attention.is_set()
    assert bench.telemetry.counts["refused"] == 0
    bench.settle()
    assert bench.notes.kept == []
    bench.decider.forget_unreachable()
    assert not bench.decider.unreachable_reason
    assert not bench.inflight.attention.is_set()


async def test_the_echo_of_abandoning_does_not_close_the_gate() -> None:
    bench = Bench(event("a"))
    bench.decider.resolve(bench.batch, [(bench.batch.offered[EventId("a")], Unreachable("abandoned"))], echo=True)
    assert bench.batch.verdicts.released == ["a"]
    assert not bench.inflight.attention.is_set()
    assert not bench.decider.unreachable_reason


@pytest.mark.parametrize(("unreachable", "refused"), [(None, 1), ("no answer", 0)])
async def test_a_timeout_decides_nothing_until_the_probe_is_over(unreachable: str | None, refused: int) -> None:
    bench = Bench(event("a"), event("b"))
    bench.resolve(TimedOut("NO_ACK", "5 s"), ACKNOWLEDGED)
    assert bench.inflight.attention.is_set()
    assert bench.batch.verdicts.event_ids() == ["b"]
    bench.decider.decide_undecided(unreachable)
    verdicts = bench.batch.verdicts
    if unreachable is None:
        assert verdicts.retried == [("a", "NO_ACK: 5 s", 60.0)]
    else:
        assert verdicts.released == ["a"]
    assert bench.telemetry.counts["refused"] == refused
    bench.decider.decide_undecided(unreachable)
    assert len(verdicts) == 2


async def test_a_second_outcome_and_one_of_an_event_that_is_gone_are_ignored() -> None:
    bench = Bench(event("a"), event("b"))
    outcome = [(event("a"), ACKNOWLEDGED)]
    bench.decider.resolve(bench.batch, outcome)
    bench.inflight.forfeit(bench.batch, [EventId("b")])
    bench.decider.resolve(bench.batch, [*outcome, (event("b"), Permanent("P", "")), (event("b"), TimedOut("T", ""))])
    assert bench.batch.verdicts.event_ids() == ["a"]
    assert not bench.batch.undecided
    assert bench.decider.acknowledged == 1


DUPLICATE = Acknowledged(duplicate=True)


def again(bench: Bench, *events: OutboxEvent) -> None:
    """The events of the next claim."""
    bench.batch = Batch(Lease.of(FENCE, bench.now, 30.0), events, bench.now)
    bench.inflight.add(bench.batch)


@pytest.mark.parametrize(
    ("first", "dropped"),
    [
        (None, 1),
        (Withheld("the one before it failed"), 1),
        (Unreachable("connection refused"), 0),
        (ConnectionCut("reset by peer"), 0),
        (TimedOut("NO_ACK", "5 s"), 0),
    ],
)
async def test_a_duplicate_of_what_was_never_offered_before_is_counted_and_a_repeat_is_not(
    first: Outcome | None, dropped: int, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(event("a"))
    if first is not None:
        bench.resolve(first)
        again(bench, event("a"))
    bench.resolve(DUPLICATE)
    assert bench.batch.verdicts.delivered == ["a"]
    assert bench.telemetry.counts["dropped"] == dropped
    assert [record.action for record in caplog.records] == ["event_dropped"] * dropped  # type: ignore[attr-defined]


async def test_what_was_acknowledged_once_is_no_repeat_of_an_earlier_offer_any_more() -> None:
    bench = Bench(event("a"))
    for outcome in (Unreachable("connection refused"), ACKNOWLEDGED, DUPLICATE):  # the last one of a replay
        bench.resolve(outcome)
        again(bench, event("a"))
    assert bench.telemetry.counts["dropped"] == 1


async def test_the_memory_of_what_was_offered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide, "_MOST_UNSURE", 2)
    bench = Bench(event("a"), event("b"), event("c"))
    bench.resolve(*[Unreachable("connection refused")] * 3)
    again(bench, event("a"), event("b"), event("c"))
    bench.resolve(DUPLICATE, DUPLICATE, DUPLICATE)
    assert bench.telemetry.counts["dropped"] == 1


async def test_what_got_another_time_is_counted_and_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    bench = Bench(event("a"), event("b"))
    bench.resolve(Acknowledged(restamped=True), ACKNOWLEDGED)
    assert bench.batch.verdicts.delivered == ["a", "b"]
    assert bench.telemetry.counts["restamped"] == 1
    assert [record.action for record in caplog.records] == ["event_restamped"]  # type: ignore[attr-defined]
