"""The engine's port to the delivery log: what it gets of an attempt, and how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from relay.core.event import Fence, OutboxEvent
from relay.core.outcome import Outcome


class SettledAttempt(NamedTuple):
    """One attempt to deliver an event and what became of it, as the delivery log wants to know it.

    A named tuple because one is built for every event on the hot path; nothing in it is computed there.
    """

    event: OutboxEvent
    outcome: Outcome
    """What the broker's side said. What was released has used up no attempt, and is not recorded."""
    claimed_at: Fence
    """The ``locked_at`` of the claim that returned the event, not of a renewal: ``event.age`` counts up to it."""
    seconds: float
    """From the claim to the outcome, by the relay's monotonic clock."""


class AttemptRecorder(Protocol):
    """Where settled attempts go to be remembered: the delivery log's entry.

    The engine calls it once for each batch of attempts whose settlement is committed: ``refuses`` first, so that no
    attempt is built only to be dropped, then ``record``. Neither blocks, waits or raises.
    """

    @property
    def wants_successes(self) -> bool:
        """Whether deliveries are recorded, too, or failures only. Never changes."""

    def refuses(self, count: int) -> bool:
        """Whether there is no room for more attempts; these ``count`` are then counted as dropped."""

    def record(self, attempts: Sequence[SettledAttempt]) -> None:
        """Take note of attempts; on overflow it drops and counts."""
