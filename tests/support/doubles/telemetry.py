"""A telemetry that remembers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from relay.core.storage import Backlog, Upkeep
from relay.core.telemetry import EngineCounter, RelayState


class MemoryTelemetry:
    """Counts its calls by the name of the method."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.states: list[tuple[RelayState, str]] = []
        self.ops: Counter[tuple[str, bool]] = Counter()
        self.most_in_flight = 0
        self.latest_backlog: Backlog | None = None
        self.oldest_delivered_ages: list[float] = []
        self.latest_pauses = 0
        self.latest_away: list[str] = []

    def claimed(self, events: int) -> None:
        self.counts["claimed"] += events

    def storage_op(self, op: str, ok: bool, seconds: float) -> None:
        assert seconds >= 0
        self.ops[op, ok] += 1

    def acknowledged(self, publish_seconds: Sequence[float], e2e_seconds: Sequence[float]) -> None:
        assert len(publish_seconds) == len(e2e_seconds)
        assert min(e2e_seconds) >= 0
        self.counts["acknowledged"] += len(publish_seconds)

    def refused(self, publish_seconds: Sequence[float]) -> None:
        self.counts["refused"] += len(publish_seconds)

    def settled(self, delivered: int, failed: int) -> None:
        self.counts["delivered"] += delivered
        self.counts["failed"] += failed

    def count(self, what: EngineCounter, events: int) -> None:
        self.counts[what] += events

    def row_refused(self, doing: str) -> None:
        self.counts[f"{doing} refused"] += 1

    def reaped(self, retried: int, buried: int) -> None:
        self.counts["reaped"] += retried + buried

    def in_flight(self, events: int) -> None:
        self.most_in_flight = max(self.most_in_flight, events)

    def backlog(self, backlog: Backlog) -> None:
        self.latest_backlog = backlog

    def oldest_due_age(self, seconds: float) -> None:
        self.counts["oldest_due_age"] += 1

    def upkeep(self, upkeep: Upkeep) -> None:
        if upkeep.oldest_delivered_age is not None:
            self.oldest_delivered_ages.append(upkeep.oldest_delivered_age)

    def pauses(self, count: int) -> None:
        self.latest_pauses = count

    def away(self, event_types: Sequence[str]) -> None:
        self.latest_away = list(event_types)

    def state(self, state: RelayState, reason: str) -> None:
        self.states.append((state, reason))
