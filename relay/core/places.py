"""Where an event goes: what routing says to the engine. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

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


class Apart(NamedTuple):
    """Of one event type, the events that a header sends to one destination: claims can tell them from the others.

    The event's name there is ``start``, and for each of ``headers`` its value and what follows it. ``pattern`` matches
    it, and none of ``earlier`` does, both for LIKE of SQL. Without one of the headers, or with an empty one, an event
    has no name.
    """

    event_type: str
    via: str
    """The destination by its name."""
    part: str
    """The name of all of these events there, where each name can fail on its own; else empty."""
    start: str
    headers: tuple[str, ...]
    texts: tuple[str, ...]
    pattern: str
    earlier: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.event_type} to {self.part or self.via}"


Flow = str | Apart
"""Events that claims can tell from all others: those of a type, or some of those of a type."""


def type_of(flow: Flow) -> str:
    """The event type."""
    return flow.event_type if isinstance(flow, Apart) else flow


def flow_at(flow: Flow, destination: str) -> Flow:
    """What is late where this destination is: all of the type, where no header leads there."""
    return flow if isinstance(flow, Apart) and flow.via == destination else type_of(flow)


def flow_away(flow: Flow, reported: str) -> Flow:
    """What is held where this destination, or this part of one (``destination/part``), does not answer."""
    if isinstance(flow, str):
        return flow
    is_part = "/" in reported and reported != flow.via
    return flow if (is_part if flow.part else reported == flow.via) else flow.event_type


@runtime_checkable
class FlowTeller(Protocol):
    """A publisher whose events go where routing says."""

    @property
    def flow_of(self) -> Callable[[OutboxEvent], Flow] | None:
        """The flow that an event, or a copy under another name, belongs to; None where that is always its type."""


class Router(Protocol):
    """The rules."""

    by_header: bool
    """Whether events of one type may go to different destinations."""

    def places(self, event: OutboxEvent) -> Places:
        """Where this event goes. Headers are read only where a name needs one."""

    def flow_of(self, event: OutboxEvent) -> Flow:
        """See ``FlowTeller``: the type, but where headers decide."""
