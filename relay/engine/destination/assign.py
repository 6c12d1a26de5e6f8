"""Assign: the events of one ``publish`` by destination, under the names that routing gives them.

A publisher takes a destination's name from ``event_type``, so an event that goes elsewhere is handed over as a copy
with that name; its outcome comes back with the event that the engine knows. An event for several destinations is a copy
for each (``fanout``), but for those that have acknowledged it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from relay.core.event import OutboxEvent, RoutedEvent
from relay.core.outcome import ACKNOWLEDGED, Acknowledged, Outcome, OutcomeSink, Resolution
from relay.core.places import Place, Router
from relay.engine.destination.drops import Drops
from relay.engine.destination.fanout import FanOut, acknowledged_names


class Assignment(NamedTuple):
    """What one ``publish`` hands over, and what is resolved without."""

    by_via: dict[str, list[OutboxEvent]]
    """By destination of DESTINATIONS_FILE (empty without one), in order."""
    originals: dict[int, OutboxEvent]
    """The event that the engine knows, by the identity of the copy that stands for it."""
    resolved: list[Resolution]
    fan_outs: dict[int, tuple[FanOut, str]]
    """The fan-out that a copy belongs to, and the destination that it is for, by the identity of the copy."""


def assign(events: Sequence[OutboxEvent], router: Router, drops: Drops) -> Assignment:
    """Decide about every event, in order."""
    assignment = Assignment({}, {}, [], {})
    by_via, originals, resolved, _ = assignment
    for event in events:
        sent, outcome, dropped_by = router.places(event)
        if outcome is not None:
            if dropped_by:
                drops.add(event.event_type, dropped_by)
            resolved.append((event, outcome))
        elif len(sent) > 1 or (event.acknowledged_by is not None and sent[0].via):
            _fan_out(event, sent, assignment)
        else:
            copy, (via, name) = event, sent[0]
            if name != event.event_type:
                copy = _copy(event, name)
                originals[id(copy)] = event
            by_via.setdefault(via, []).append(copy)
    return assignment


def _fan_out(event: OutboxEvent, sent: Sequence[Place], assignment: Assignment) -> None:
    """Hand over a copy for each destination that has not acknowledged the event."""
    acknowledged = acknowledged_names(event)
    left = [one for one in sent if one.via not in acknowledged]
    if not left:
        assignment.resolved.append((event, ACKNOWLEDGED))
    fan_out = FanOut(event, len(left))
    for via, name in left:
        copy = _copy(event, name)
        copy.copy_for = via if len(sent) > 1 else ""
        copy.in_part = len(left) > 1
        assignment.fan_outs[id(copy)] = fan_out, via
        assignment.by_via.setdefault(via, []).append(copy)


def _copy(event: OutboxEvent, name: str) -> RoutedEvent:
    copy = RoutedEvent(*event._replace(event_type=name))
    copy.row_type = event.event_type
    return copy


def restoring(sink: OutcomeSink, assignment: Assignment) -> OutcomeSink:
    """A sink that passes outcomes on with the events that the engine knows."""
    if not (assignment.originals or assignment.fan_outs):
        return sink

    def restore(resolutions: Sequence[Resolution]) -> None:
        # This keeps the assignment and its copies alive: none of their identities is given to another event meanwhile.
        originals, fan_outs = assignment.originals, assignment.fan_outs
        if fan_outs:
            resolutions = _combined(resolutions, fan_outs)
        if resolutions:
            sink([_restored(event, outcome, originals.get(id(event))) for event, outcome in resolutions])

    return restore


def _combined(resolutions: Sequence[Resolution], fan_outs: Mapping[int, tuple[FanOut, str]]) -> list[Resolution]:
    """Without the outcomes of fan-outs, but for what is known of those of which this is the last one."""
    passed: list[Resolution] = []
    for event, outcome in resolutions:
        if (entry := fan_outs.get(id(event))) is None:
            passed.append((event, outcome))
            continue
        fan_out, via = entry
        if (resolution := fan_out.resolve(via, event.event_type, outcome)) is not None:
            passed.append(resolution)
    return passed


def _restored(event: OutboxEvent, outcome: Outcome, original: OutboxEvent | None) -> Resolution:
    if original is None:
        return event, outcome
    if type(outcome) is Acknowledged and outcome.receipt is not None:
        outcome = replace(outcome, receipt={**outcome.receipt, "destination": event.event_type})
    return original, outcome
