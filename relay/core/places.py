"""Where an event goes: what routing says to the engine. Pure."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from relay.core.event import OutboxEvent
from relay.core.outcome import Outcome


class Place(NamedTuple):
    """A destination, and the name that the event has there."""

    via: str
    """The destination's own name; empty where there is one alone."""
    name: str


class Places(NamedTuple):
    """Where one event goes."""

    sent: tuple[Place, ...] = ()
    """To each of these; empty where ``outcome`` says what becomes of it instead."""
    outcome: Outcome | None = None
    dropped_by: int = 0
    """The number of the rule that drops it; 0 for no rule."""


class Router(Protocol):
    """The rules."""

    by_header: bool
    """Whether events of one type may go to different destinations."""

    def places(self, event: OutboxEvent) -> Places:
        """Where this event goes. Headers are read only where a name needs one."""
