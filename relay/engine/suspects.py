"""Suspects: events that were in flight when the broker cut the connection and answered the next probe at once.

One of them may be what the broker cuts the connection on (a message over a limit that it does not announce, a proxy
that refuses a pattern). Which one, the broker does not say. The relay finds out by offering them again in ever smaller
groups; an event that is cut off alone has failed an attempt, ``last_error`` begins with ``CONNECTION_CUT``, and the
others lose nothing (CONTRACT section 4).

**Who decides.** A publisher reports ``ConnectionCut`` for what may have been on the wire. The event is undecided until
the gate has probed the broker. No answer: an outage, the event is released. An answer: it is a suspect.

**Where they are.** In their batch, under its lease, which is renewed: a suspect that was released would be the oldest
due row, be claimed first, and cut the connection again. Nothing else remembers them, so one that is settled, lost or
released is forgotten. They count apart from what else is in flight: as many again may be held, in events and in bytes,
before claiming stops.

**How groups shrink.** What was cut off together is split into eighths, down to single events: a cut costs a new
connection (0.3 s with Kafka), a group that gets through one round trip, so many parts cost less time than halves.
Groups are offered in turn, one at a time, those that were cut off first before their parts. Events of one destination
stand together, small ones first, because what is cut off is alike in one of the two: the rest gets through in whole
groups.

**Beside the others.** Suspects have a publisher of their own (``Publisher.twin``), so connections that carry nothing
else. Everything else flows on over the first publisher meanwhile. An event that failed with ``CONNECTION_CUT`` before
goes to the suspects as soon as it is claimed, alone, by any relay: the row says so. Three groups of unproven suspects
come before each of these, because the unproven ones are innocent but for a few.

**Several relays** learn independently. **In order per key** an event that waits behind a suspect goes on waiting.
**At a stop** suspects have their share of the time and are then released.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from relay.core.event import OutboxEvent

if TYPE_CHECKING:
    from relay.engine.batch import Batch

CONNECTION_CUT: Final = "CONNECTION_CUT"
"""The code in ``last_error`` of an event that was cut off alone."""

_PARTS = 8  # that a group is split into
_UNPROVEN_FIRST = 3  # groups of unproven suspects before one event that was cut off alone before


class Group(NamedTuple):
    """Suspects of one batch that are offered together."""

    batch: Batch
    events: Sequence[OutboxEvent]


class Suspects:
    """The groups that wait for their turn. Filled by the gate's decision and the claim, emptied by ``Isolation``.

    A group may name events that were released, lost or settled since: ``Batch.take_turn`` leaves those out.
    """

    def __init__(self) -> None:
        self._unproven: deque[Group] = deque()
        self._known: deque[Group] = deque()
        self._since_known = 0
        self._turn: Group | None = None
        self.arrived = asyncio.Event()
        """There are groups: wakes the isolation."""
        self.changed = asyncio.Event()
        """An event of the group whose turn it is has an outcome: wakes the isolation, too."""

    def accuse(self, cut_off: Mapping[Batch, Sequence[OutboxEvent]]) -> None:
        """Split what was cut off into groups. What was cut off in its turn is split as a group of its own."""
        in_turn: dict[Batch, list[OutboxEvent]] = {}
        others: dict[Batch, list[OutboxEvent]] = {}
        turn = self._turn
        ids = {event.event_id for event in turn.events} if turn is not None else set()
        for batch, events in cut_off.items():
            for event in events:
                was_its_turn = turn is not None and batch is turn.batch and event.event_id in ids
                (in_turn if was_its_turn else others).setdefault(batch, []).append(event)
        self._unproven.extend(_groups(in_turn))
        self._unproven.extend(_groups(others))
        self.arrived.set()

    def add_known(self, batch: Batch, events: Sequence[OutboxEvent]) -> None:
        """Queue events that were cut off alone before: one group each."""
        self._known.extend(Group(batch, [event]) for event in events)
        if events:
            self.arrived.set()

    def take_turn(self) -> Group | None:
        """The next group, or None; its turn ends with the next call."""
        self._turn = self._next()
        return self._turn

    def _next(self) -> Group | None:
        if self._known and (not self._unproven or self._since_known >= _UNPROVEN_FIRST):
            self._since_known = 0
            return self._known.popleft()
        if self._unproven:
            self._since_known += 1
            return self._unproven.popleft()
        self.arrived.clear()
        return None


def _groups(cut_off: Mapping[Batch, Sequence[OutboxEvent]]) -> Iterator[Group]:
    size = -(-sum(map(len, cut_off.values())) // _PARTS)
    for batch, events in cut_off.items():
        alike = sorted(events, key=lambda event: (event.event_type, event.size))
        for start in range(0, len(alike), size):
            yield Group(batch, alike[start : start + size])
