"""Order per key inside a claim: of each key one event, or one run, is with the broker, and those behind it wait here.

A claim in order returns, of a key, the first unfinished event and maybe some behind it. The next one may be offered
once the one before is acknowledged. Any other verdict ends the queue of that key: what is behind was never offered, so
it is released, and a later claim decides again. That includes a dead event that the next ones may pass: until its
verdict is written, its lease can expire and another relay can still deliver it.

A *run* is several events of a key that are offered together. Only a publisher that keeps runs is handed any
(``Publisher.keeps_runs``): it promises that none is stored before an earlier one. All have one destination, because
two destinations fail apart. An event that failed before is offered alone, so that it fails alone.

The claim (``sql/outbox/claim_ordered.sql``) takes care of the order between claims, ``Batch`` uses the queues,
and ``Claimer.follow_loop`` offers what comes next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from enum import Enum

from relay.core.event import EventId, OutboxEvent


class Order(Enum):
    """What of a claim may be with the broker together."""

    NONE = "all events"
    SINGLES = "one event of each key"
    RUNS = "one run of each key"


class KeyQueues:
    """What waits behind other events of one claim, by key. Empty for a claim without order."""

    __slots__ = ("_ahead", "_behind", "_runs", "in_order", "with_gap")

    def __init__(self, order: Order) -> None:
        self.in_order = order is not Order.NONE
        self._runs = order is Order.RUNS
        self.with_gap: set[str] = set()
        """Keys of which an offered event is lost: what is behind it must not be handed over any more."""
        self._behind: dict[str, deque[OutboxEvent]] = {}
        self._ahead: dict[str, int] = {}
        """Events offered and not acknowledged, of keys with something behind."""

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
        """Keep what may not be offered yet, and return the others: the first event, or run, of each key."""
        if not self.in_order:
            return list(events)
        last: dict[str, OutboxEvent] = {}
        offered: list[OutboxEvent] = []
        for event in events:
            key = event.partition_key
            if key is None:
                offered.append(event)
            elif key in self._behind or (key in last and not self._follows(last[key], event)):
                self._behind.setdefault(key, deque()).append(event)
            else:
                last[key] = event
                self._ahead[key] = self._ahead.get(key, 0) + 1
                offered.append(event)
        for key in self._ahead.keys() - self._behind.keys():
            del self._ahead[key]
        return offered

    def next_after(self, acknowledged: Iterable[OutboxEvent]) -> list[OutboxEvent]:
        """Take out the events that come next, now that these are acknowledged."""
        following: list[OutboxEvent] = []
        for event in acknowledged:
            key = event.partition_key
            if key is None or key not in self._behind:
                continue
            self._ahead[key] -= 1
            if not self._ahead[key]:
                following += self._take_run(key)
        return following

    def _take_run(self, key: str) -> list[OutboxEvent]:
        behind = self._behind[key]
        run = [behind.popleft()]
        while behind and self._follows(run[-1], behind[0]):
            run.append(behind.popleft())
        self._ahead[key] = len(run)
        if not behind:
            self._forget(key)
        return run

    def _follows(self, event: OutboxEvent, following: OutboxEvent) -> bool:
        """Whether the two may be in one run. The empty key is not a key to each broker: Kafka spreads it."""
        alike = bool(event.partition_key) and event.event_type == following.event_type
        return self._runs and alike and event.last_code is None and following.last_code is None

    def _forget(self, key: str) -> None:
        del self._behind[key], self._ahead[key]

    def lose(self, event: OutboxEvent) -> list[EventId]:
        """``end`` for an offered event whose lease is lost, maybe before it was handed over with those behind it."""
        if event.partition_key is not None:
            self.with_gap.add(event.partition_key)
        return self.end(event)

    def end(self, event: OutboxEvent) -> list[EventId]:
        """Take out what waits behind an event that was not acknowledged; this relay does not offer it."""
        key = event.partition_key
        if key is None or key not in self._behind:
            return []
        waiting = [one.event_id for one in self._behind[key]]
        self._forget(key)
        return waiting

    def end_all(self) -> list[EventId]:
        """Take out everything that waits."""
        waiting = self.ids()
        self._behind.clear()
        self._ahead.clear()
        return waiting

    def drop(self, lost: set[EventId]) -> list[EventId]:
        """Forget events whose lease is lost, and take out those behind them, which this relay does not offer."""
        stranded: list[EventId] = []
        for key, behind in list(self._behind.items()):
            waiting = [event.event_id for event in behind]
            first = next((index for index, event_id in enumerate(waiting) if event_id in lost), None)
            if first is None:
                continue
            stranded.extend(event_id for event_id in waiting[first:] if event_id not in lost)
            self._behind[key] = deque(list(behind)[:first])
            if not first:
                self._forget(key)
        return stranded
