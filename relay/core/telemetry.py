"""What the engine reports about itself: one small protocol, fed once per batch, never once per event."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Protocol

from relay.core.ports import Backlog


class RelayState(IntEnum):
    """The values of ``openoutbox_relay_state`` (CONTRACT section 7)."""

    ACTIVE = 1
    PAUSED = 2
    ERROR = 3


class Telemetry(Protocol):
    """A sink of measurements. Methods are cheap, never raise and never wait. Times are seconds."""

    def claimed(self, events: int) -> None:
        """A claim returned that many events (0 too: it is a successful claim)."""

    def storage_op(self, op: str, ok: bool, seconds: float) -> None:
        """One call to the database: ``claim``, ``mark_delivered``, ``mark_failed``, ``release``, ``renew``,
        ``reap``, ``stats``.
        """

    def acknowledged(self, publish_seconds: Sequence[float], e2e_seconds: Sequence[float]) -> None:
        """Events acknowledged together: since offered, and since created."""

    def refused(self, publish_seconds: Sequence[float]) -> None:
        """Events that failed together, since offered."""

    def settled(self, delivered: int, failed: int) -> None:
        """Outcomes written and still ours."""

    def leases_lost(self, events: int) -> None:
        """Outcomes or renewals that came after the lease was gone."""

    def reaped(self, retried: int, buried: int) -> None:
        """Expired leases taken back."""

    def released(self, events: int) -> None:
        """Events given back without an attempt."""

    def in_flight(self, events: int) -> None:
        """Events claimed and not settled, now."""

    def backlog(self, backlog: Backlog) -> None:
        """A fresh sample of the backlog."""

    def oldest_due_age(self, seconds: float) -> None:
        """A fresh sample of the lag alone."""

    def state(self, state: RelayState, reason: str) -> None:
        """The relay is active, paused (broker) or in error (storage); ``reason`` is empty when active."""
