"""What this relay decided, by event type, for the series.

There are as many counts as are asked for, whatever the number of types: the busiest types have their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from relay.core.event import OutboxEvent
from relay.core.optional_parts import TypeCounts

_OTHERS = ""
_MOST_TYPES = 1_000  # that are counted apart until the next write
_LONGEST_NAME = 200  # characters of an event type


class VerdictCounts:
    """What was decided since the last ``take``. Counts nothing until ``begin``."""

    def __init__(self) -> None:
        self._counting = False
        self._by_type: dict[str, Counter[str]] = {}

    def begin(self) -> None:
        """Count from now on."""
        self._counting = True

    def acknowledged(self, events: Iterable[OutboxEvent]) -> None:
        """These were delivered."""
        if self._counting:
            for event_type, delivered in Counter([event.event_type for event in events]).items():
                self._of(event_type).update(delivered=delivered)

    def failed(self, event_type: str, events: int = 1, *, dead: int) -> None:
        """An attempt of each of these failed; so many are ``dead``. Without a type: of the others."""
        if self._counting:
            self._of(event_type).update(failed=events, dead=dead)

    def take(self, most: int) -> list[TypeCounts]:
        """The counts of the ``most`` busiest types, and last those of all others; they begin again."""
        by_type, self._by_type = self._by_type, {}
        others = by_type.pop(_OTHERS, Counter())
        busiest = sorted(by_type, key=lambda name: (-by_type[name]["delivered"] - by_type[name]["failed"], name))
        for name in busiest[most:]:
            others.update(by_type[name])
        named = {**{name: by_type[name] for name in busiest[:most]}, _OTHERS: others}
        return [TypeCounts(name, one["delivered"], one["failed"], one["dead"]) for name, one in named.items()]

    def put_back(self, counts: Iterable[TypeCounts]) -> None:
        """What ``take`` returned was not written."""
        for one in counts:
            self._of(one.event_type).update(delivered=one.delivered, failed=one.failed, dead=one.dead)

    def _of(self, event_type: str) -> Counter[str]:
        name = event_type[:_LONGEST_NAME]
        if name not in self._by_type and len(self._by_type) >= _MOST_TYPES:
            name = _OTHERS
        return self._by_type.setdefault(name, Counter())
