"""Assign: the events of one ``publish`` by destination, under the names that the rules give them.

A publisher takes a destination's name from ``event_type``, so an event that goes elsewhere is handed over as a copy
with that name; its outcome comes back with the event that the engine knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from relay.core.event import OutboxEvent, RoutedEvent
from relay.core.outcome import Acknowledged, Outcome, OutcomeSink, Resolution, Transient
from relay.routing.drops import Drops
from relay.routing.rules import Dropped, Routes, Sent

NO_NAME: Final = "ROUTE_INCOMPLETE"
"""The code of an event without a header that its destination's name needs."""


class Assignment(NamedTuple):
    """What one ``publish`` hands over, and what is resolved without."""

    by_via: dict[str, list[OutboxEvent]]
    """By destination of DESTINATIONS_FILE (empty without one), in order."""
    originals: dict[int, OutboxEvent]
    """The event that the engine knows, by the identity of the copy that stands for it."""
    resolved: list[Resolution]


def assign(events: Sequence[OutboxEvent], routes: Routes, drops: Drops) -> Assignment:
    """Decide about every event, in order."""
    by_via: dict[str, list[OutboxEvent]] = {}
    originals: dict[int, OutboxEvent] = {}
    resolved: list[Resolution] = []
    for event in events:
        match routes.decide(event):
            case Sent(via, name):
                copy = event
                if name != event.event_type:
                    copy = routed = RoutedEvent(*event._replace(event_type=name))
                    routed.row_type = event.event_type
                    originals[id(copy)] = event
                by_via.setdefault(via, []).append(copy)
            case Dropped(rule):
                drops.add(event.event_type, rule)
                resolved.append((event, Acknowledged({"dropped_by_route": rule.number})))
            case incomplete:
                resolved.append((event, Transient(NO_NAME, f"{incomplete}; add the header, or correct ROUTES_FILE")))
    return Assignment(by_via, originals, resolved)


def restoring(sink: OutcomeSink, assignment: Assignment) -> OutcomeSink:
    """A sink that passes outcomes on with the events that the engine knows."""
    if not assignment.originals:
        return sink

    def restore(resolutions: Sequence[Resolution]) -> None:
        # This keeps the assignment and its copies alive: none of their identities is given to another event meanwhile.
        originals = assignment.originals
        sink([_restored(event, outcome, originals.get(id(event))) for event, outcome in resolutions])

    return restore


def _restored(event: OutboxEvent, outcome: Outcome, original: OutboxEvent | None) -> Resolution:
    if original is None:
        return event, outcome
    if type(outcome) is Acknowledged and outcome.receipt is not None:
        outcome = Acknowledged({**outcome.receipt, "destination": event.event_type})
    return original, outcome
