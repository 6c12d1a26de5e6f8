"""Order per key inside a claim: of each key one event is with the broker, and those behind it wait here.

A claim in order returns, of a key, the first unfinished event and maybe some behind it. The next one may be offered
once the one before is acknowledged. Any other verdict ends the queue of that key: what is behind was never offered, so
it is released, and a later claim decides again. That includes a dead event that the next ones may pass: until its
verdict is written, its lease can expire and another relay can still deliver it.

The claim (``ordered`` of ``sql/outbox/claim.sql``) takes care of the order between claims, ``Batch`` uses the queues,
and ``Claimer.follow_loop`` offers what comes next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from relay.core.event import EventId, OutboxEvent


class KeyQueues:
    """What waits behind other events of one claim, by key. Empty for a claim without order."""

    __slots__ = ("_behind",)

    def __init__(self) -> None:
        self._behind: dict[str, deque[OutboxEvent]] = {}

    def __len__(self) -> int:
        return sum(len(behind) for behind in self._behind.values())

    def __bool__(self) -> bool:
        return bool(self._behind)

    def events(self) -> list[OutboxEvent]:
        """Every event that waits."""
        return [event for behind in self._behind.values() for event in behind]

    def ids(self) -> list[EventId]:
        """Every event that waits, by its id."""
        return [event.event_id for event in self.events()]

    def hold_back(self, events: Sequence[OutboxEvent]) -> list[OutboxEvent]:
        """Keep all but the first event of each key, and return the others: they may be offered now."""
        first: list[OutboxEvent] = []
        keys: set[str] = set()
        for event in events:
            key = event.partition_key
            if key is None or key not in keys:
                first.append(event)
            else:
                self._behind.setdefault(key, deque()).append(event)
            if key is not None:
                keys.add(key)
        return first

    def next_after(self, acknowledged: Iterable[OutboxEvent]) -> list[OutboxEvent]:
        """Take out the events that come next, now that these are acknowledged."""
        following = []
        for event in acknowledged:
            behind = self._behind.get(event.partition_key) if event.partition_key is not None else None
            if behind:
                following.append(behind.popleft())
                if not behind:
                    del self._behind[event.partition_key]  # type: ignore[arg-type]
        return following

    def end(self, event: OutboxEvent) -> list[EventId]:
        """Take out what waits behind an event that was not acknowledged; this relay does not offer it."""
        behind = self._behind.pop(event.partition_key, ()) if event.partition_key is not None else ()
        return [waiting.event_id for waiting in behind]

    def end_all(self) -> list[EventId]:
        """Take out everything that waits."""
        waiting = self.ids()
        self._behind.clear()
        return waiting

    def drop(self, lost: set[EventId]) -> list[EventId]:
        """Forget events whose lease is lost, and take out those behind them, which this relay does not offer."""
        stranded: list[EventId] = []
        for key, behind in list(self._behind.items()):
            waiting = [event.event_id for event in behind]
            first = next((place for place, event_id in enumerate(waiting) if event_id in lost), None)
            if first is None:
                continue
            stranded.extend(event_id for event_id in waiting[first:] if event_id not in lost)
            self._behind[key] = deque(list(behind)[:first])
            if not first:
                del self._behind[key]
        return stranded
