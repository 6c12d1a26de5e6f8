"""The engine's measurements as a protocol, called once per batch and never once per event."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum, StrEnum
from typing import Protocol

from relay.core.storage import Backlog, Upkeep


class RelayState(IntEnum):
    """The values of ``openoutbox_relay_state`` (docs/reference/metrics.md)."""

    ACTIVE = 1
    PAUSED = 2
    ERROR = 3


class EngineCounter(StrEnum):
    """What is counted and nothing more. Each is a counter without labels, whose row in the catalogue names it."""

    LEASES_LOST = "leases_lost"
    """Outcomes or renewals whose lease was lost."""
    RELEASED = "released"
    """Events released without an attempt."""
    DROPPED = "dropped"
    """Acknowledged at the first attempt as duplicates: the broker holds others with their ids."""
    RESTAMPED = "restamped"
    """Acknowledged with the time of the offer, since the broker took none with the event's."""


class Telemetry(Protocol):
    """A sink of measurements. Methods are cheap, never raise and never wait. Times are seconds."""

    def claimed(self, events: int) -> None:
        """A claim returned that many events; 0 is a successful claim too."""

    def storage_op(self, op: str, ok: bool, seconds: float) -> None:
        """One call to the database: ``claim``, ``mark_delivered``, ``mark_failed``, ``release``, ``renew``,
        ``reap``, ``stats``.
        """

    def acknowledged(self, publish_seconds: Sequence[float], e2e_seconds: Sequence[float]) -> None:
        """Events acknowledged together: seconds since the offer and since ``created_at``."""

    def refused(self, publish_seconds: Sequence[float]) -> None:
        """Events that failed together: seconds since the offer."""

    def settled(self, delivered: int, failed: int) -> None:
        """Outcomes written under a valid fence."""

    def count(self, what: EngineCounter, events: int) -> None:
        """So many more of these."""

    def row_refused(self, doing: str) -> None:
        """The database refuses to ``claim``, ``settle``, ``renew`` or ``reap`` one row, once more."""

    def reaped(self, retried: int, buried: int) -> None:
        """Expired leases reclaimed."""

    def in_flight(self, events: int) -> None:
        """Events claimed and not settled, now."""

    def backlog(self, backlog: Backlog) -> None:
        """A fresh sample of the backlog."""

    def oldest_due_age(self, seconds: float) -> None:
        """A fresh sample of the lag alone."""

    def upkeep(self, upkeep: Upkeep) -> None:
        """A fresh sample of how far prune and vacuum are behind."""

    def pauses(self, count: int) -> None:
        """That many pauses are in force."""

    def away(self, event_types: Sequence[str]) -> None:
        """The destinations of these event types do not answer; all others do."""

    def state(self, state: RelayState, reason: str) -> None:
        """The relay is active, paused (broker) or in error (storage); ``reason`` is empty when active."""
