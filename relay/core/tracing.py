"""The engine's traces as a protocol: spans of the events whose ``traceparent`` is sampled, and of no others.

Methods are cheap, never raise and never wait. Times are seconds. Without a tracer the engine asks nothing of an event.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from relay.core.errors import StorageError
from relay.core.event import EventId, OutboxEvent
from relay.core.outcome import Outcome
from relay.core.storage import Settlement
from relay.core.tracecontext import TraceContext
from relay.core.verdict import Verdict


class BatchTrace(Protocol):
    """The publish spans of one claim. Each hand-over of a sampled event to the publisher has a span of its own."""

    def hand_over(self, events: list[OutboxEvent]) -> list[OutboxEvent]:
        """Begin spans; returns the events as they are sent, ``traceparent`` replaced by that of their span."""

    def acknowledge(self, event_ids: Sequence[EventId], since_claim: float) -> None:
        """End the spans of events that the broker has acknowledged, that long after the claim was sent."""

    def decide(self, event_id: EventId, verdict: Verdict, outcome: Outcome) -> None:
        """End the span of an event that failed or is released because of ``outcome``."""

    def cut_off(self, events: Collection[OutboxEvent]) -> None:
        """End the spans of events that were in flight on a connection that was cut; they are offered again."""

    def lose(self, event_ids: Collection[EventId]) -> None:
        """End the spans of events whose lease is lost."""

    def end(self, outcome: str) -> None:
        """End every span that has not ended."""

    def links(self, settlement: Settlement) -> list[TraceContext]:
        """The publish spans of the events in ``settlement``."""


class Tracer(Protocol):
    """Where spans go."""

    def claim(self, events: Sequence[OutboxEvent], seconds: float) -> BatchTrace | None:
        """A claim that took that long returned these events; None when none of them is sampled."""

    def settle(
        self, links: Sequence[TraceContext], events: int, seconds: float, error: StorageError | None = None
    ) -> None:
        """A statement wrote the verdicts on that many events, or failed; ``links`` are spans of the sampled ones."""
