"""Flows: which events a claim can tell apart. Those of a type, or those of a type that a header sends to one place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from relay.core.event import OutboxEvent
from relay.core.places import Flow, FlowTeller, type_of
from relay.core.ports import Publisher

_MOST: Final = 50  # of one type that a claim tells apart: each costs it time for every event of the type


def bounded(flows: Iterable[Flow]) -> list[Flow]:
    """These flows, in order; a type with many of them as a whole."""
    each = set(flows)
    counts = Counter(map(type_of, each))
    return sorted({one if counts[type_of(one)] <= _MOST else type_of(one) for one in each}, key=str)


class Flows:
    """Flows of claimed events."""

    def __init__(self, flow_of: Callable[[OutboxEvent], Flow] | None = None) -> None:
        """``flow_of``: see ``FlowTeller``."""
        self._flow_of = flow_of

    @classmethod
    def of_publisher(cls, publisher: Publisher) -> Flows:
        """As it tells them apart; by their types where it does not."""
        return cls(publisher.flow_of if isinstance(publisher, FlowTeller) else None)

    def of(self, event: OutboxEvent) -> Flow:
        """The one that it belongs to."""
        return event.event_type if self._flow_of is None else self._flow_of(event)

    def of_all(self, events: Iterable[OutboxEvent]) -> set[Flow]:
        """Those that they belong to, and their types."""
        flows: set[Flow] = {event.event_type for event in events}
        return flows if self._flow_of is None else flows.union(map(self._flow_of, events))


BY_TYPE: Final = Flows()
