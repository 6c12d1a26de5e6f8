"""Events that wait for the broker's answer, each with the sink that takes its outcome."""

from __future__ import annotations

from collections.abc import Iterable

from relay.core.event import OutboxEvent
from relay.core.outcome import Outcome, OutcomeSink, Resolution

Entry = tuple[OutboxEvent, OutcomeSink]
"""An event and the sink of the ``publish`` call that offered it: each call has its own sink."""


def resolve(outcomes: Iterable[tuple[Entry, Outcome]]) -> None:
    """Pass every sink the outcomes of its own events, in one call and in order."""
    groups: dict[int, tuple[OutcomeSink, list[Resolution]]] = {}
    for (event, sink), outcome in outcomes:
        group = groups.get(id(sink))
        if group is None:
            group = groups[id(sink)] = (sink, [])
        group[1].append((event, outcome))
    for sink, resolutions in groups.values():
        sink(resolutions)
