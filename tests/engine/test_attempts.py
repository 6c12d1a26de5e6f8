"""What the recorder is handed of a batch: each attempt once, when it is settled, and nothing made while it is full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import pytest

from relay.core.event import EventId, Fence, OutboxEvent
from relay.core.outcome import ACKNOWLEDGED, Permanent, Resolution, Transient
from relay.core.recorder import SettledAttempt
from relay.core.storage import Settlement
from relay.engine.attempts import Attempts

CLAIMED = Fence(datetime(2026, 3, 10, 12, 0, tzinfo=UTC))


class Notes:
    """A recorder that keeps every attempt."""

    def __init__(self, *, wants_successes: bool = True) -> None:
        self.wants_successes = wants_successes
        self.full = False
        self.dropped = 0
        self.kept: list[SettledAttempt] = []

    def refuses(self, count: int) -> bool:
        self.dropped += count if self.full else 0
        return self.full

    def record(self, attempts: Sequence[SettledAttempt]) -> None:
        self.kept += attempts


class Untouched(Sequence[Resolution]):
    """A group of outcomes that fails the test when it is read."""

    def __len__(self) -> int:
        raise AssertionError

    def __getitem__(self, _index: object) -> Resolution:  # type: ignore[override]
        raise AssertionError

    def __iter__(self) -> Iterator[Resolution]:
        raise AssertionError


def event(name: str) -> OutboxEvent:
    return OutboxEvent(EventId(name), "t", None, b"", "{}", 0, 0.0)


def acknowledged(*names: str) -> list[Resolution]:
    return [(event(name), ACKNOWLEDGED) for name in names]


def delivered(*names: str) -> Settlement:
    return Settlement(CLAIMED, delivered=[EventId(name) for name in names])


def ids(notes: Notes) -> list[str]:
    return [attempt.event.event_id for attempt in notes.kept]


def test_every_attempt_is_handed_over_when_its_settlement_is_written() -> None:
    notes = Notes()
    attempts = Attempts(notes)
    refused, dead = Transient("T", "later"), Permanent("P", "never")
    attempts.acknowledged([*acknowledged("a", "b"), (event("c"), refused)], 1.0)
    attempts.failed(event("c"), refused, 1.5)
    attempts.acknowledged(acknowledged("d"), 2.0)
    attempts.failed(event("e"), dead, 2.5)
    settlement = delivered("b", "d")
    settlement.retried.append((EventId("c"), "T: later", 1.0))
    settlement.released.append(EventId("f"))
    attempts.hand_over(settlement, CLAIMED)
    assert [(one.event.event_id, one.outcome, one.seconds) for one in notes.kept] == [
        ("b", ACKNOWLEDGED, 1.0),
        ("d", ACKNOWLEDGED, 2.0),
        ("c", refused, 1.5),
    ]
    settlement = delivered("a")
    settlement.buried.append((EventId("e"), "P: never"))
    attempts.hand_over(settlement, CLAIMED)
    assert ids(notes) == ["b", "d", "c", "a", "e"]


def test_nothing_is_made_for_a_recorder_that_is_full() -> None:
    notes = Notes()
    attempts = Attempts(notes)
    notes.full = True
    attempts.acknowledged(Untouched(), 1.0)
    attempts.hand_over(delivered("a", "b", "c"), CLAIMED)
    assert (notes.kept, notes.dropped) == ([], 3)


def test_what_was_refused_does_not_come_later() -> None:
    notes = Notes()
    attempts = Attempts(notes)
    attempts.acknowledged(acknowledged("a", "b"), 1.0)
    notes.full = True
    attempts.hand_over(delivered("a"), CLAIMED)
    notes.full = False
    attempts.hand_over(delivered("b"), CLAIMED)
    assert (ids(notes), notes.dropped) == (["b"], 1)


def test_successes_that_the_recorder_does_not_want_are_not_kept() -> None:
    notes = Notes(wants_successes=False)
    attempts = Attempts(notes)
    attempts.acknowledged(Untouched(), 1.0)
    attempts.failed(event("b"), Transient("T", "why"), 1.0)
    settlement = delivered("a")
    settlement.retried.append((EventId("b"), "T", 1.0))
    attempts.hand_over(settlement, CLAIMED)
    assert ids(notes) == ["b"]


@pytest.mark.parametrize("settlement", [delivered(), Settlement(CLAIMED, released=[EventId("a")])])
def test_a_settlement_without_attempts_is_not_mentioned(settlement: Settlement) -> None:
    notes = Notes()
    notes.full = True
    attempts = Attempts(notes)
    attempts.hand_over(settlement, CLAIMED)
    assert (notes.kept, notes.dropped) == ([], 0)
