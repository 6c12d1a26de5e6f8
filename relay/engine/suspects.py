"""Suspects: events that were in flight when the broker cut the connection and answered the next probe at once.

One of them may be what the broker cuts the connection on (a message over a limit that it does not announce, a proxy
that refuses a pattern). Which one, the broker does not say. The relay finds out by offering them again in ever smaller
groups; an event that is cut off alone has failed an attempt, ``last_error`` begins with ``CONNECTION_CUT``, and the
others lose nothing (docs/design/guarantees.md#failures).

**Who decides.** A publisher reports ``ConnectionCut`` for what may have been on the wire. The event is undecided until
the gate has probed the broker. No answer: an outage, the event is released. An answer: it is a suspect.

**Where they are.** In their batch, under its lease, which is renewed: a suspect that was released would be the oldest
due row, be claimed first, and cut the connection again. Nothing else remembers them, so one that is settled, lost or
released is forgotten. They count apart from what else is in flight: as many again may be held, in events and in bytes,
before claiming stops.

**How groups shrink.** What was cut off together is split into eighths, down to single events: a cut costs a new
connection (0.3 s with Kafka), a group that gets through one round trip, so many parts cost less time than halves. It
does not matter of which batches the events are. Groups are offered in turn, those that were cut off first before their
parts. Events of one destination stand together, small ones first, because what is cut off is alike in one of the two:
the rest gets through in whole groups.

**Slow answers.** The next group is offered once the one before has its answers, or after a second without them, over
another connection: a broker that does not answer for one event must not hold up the others until that one times out.
At most ``LANES`` groups are with the broker at a time.

**Beside the others.** Suspects have publishers of their own (``Publisher.twin``), one for each group that is with the
broker, so connections that carry nothing else: one whose last group left an event without an answer (its lease was
lost, or it timed out) is closed before the next group. Everything else flows on over the first publisher meanwhile. An
event that failed with ``CONNECTION_CUT`` before goes to the suspects as soon as it is claimed, alone, by any relay: the
row says so. Three groups of unproven suspects come before each of these, because the unproven ones are innocent but for
a few.

**Several relays** learn independently. **In order per key** an event that waits behind a suspect goes on waiting.
**At a stop** suspects have their share of the time and are then released.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from relay.core.event import EventId, OutboxEvent

if TYPE_CHECKING:
    from relay.engine.batch import Batch

    Group = Sequence[tuple[Batch, OutboxEvent]]

CONNECTION_CUT: Final = "CONNECTION_CUT"
"""The code in ``last_error`` of an event that was cut off alone."""

LANES: Final = 8
"""Most groups that are with the broker at a time, each over connections of its own."""

_PARTS = 8  # that a group is split into
_UNPROVEN_FIRST = 3  # groups of unproven suspects before one event that was cut off alone before


class Turn:
    """A group while it is with the broker."""

    def __init__(self, group: Group) -> None:
        by_batch: dict[Batch, list[OutboxEvent]] = {}
        for batch, event in group:
            by_batch.setdefault(batch, []).append(event)
        # What was released, lost or settled while the group waited is left out.
        self.parts: dict[Batch, dict[EventId, OutboxEvent]] = {
            batch: {event.event_id: event for event in batch.take_turn(events)} for batch, events in by_batch.items()
        }
        self.size = sum(map(len, self.parts.values()))
        """How many events are offered together."""
        self.unreachable = False
        """No connection could be made for some of them."""

    @property
    def ended(self) -> bool:
        """Whether each of its events has its verdict, or is a suspect again."""
        return all(
            part.keys().isdisjoint(batch.offered) and part.keys().isdisjoint(batch.undecided_ids())
            for batch, part in self.parts.items()
        )

    def remove(self, cut_off: Group) -> Group:
        """Take out those of its events that were cut off, and return them."""
        return [(batch, event) for batch, event in cut_off if self.parts.get(batch, {}).pop(event.event_id, None)]


class Suspects:
    """The groups that wait for their turn, and those that have it.

    Filled by the gate's decision and the claim, emptied by ``Isolation``.
    """

    def __init__(self) -> None:
        self._unproven: deque[Group] = deque()
        self._known: deque[Group] = deque()
        self._since_known = 0
        self._turns: list[Turn] = []
        self.arrived = asyncio.Event()
        """There are groups: wakes the isolation."""
        self.changed = asyncio.Event()
        """An event whose turn it is has an outcome: wakes the isolation, too."""

    def accuse(self, cut_off: Mapping[Batch, Sequence[OutboxEvent]]) -> None:
        """Split what was cut off into groups. What was cut off in one turn is split as a group of its own."""
        others: Group = [(batch, event) for batch, events in cut_off.items() for event in events]
        for turn in self._turns:
            in_turn = turn.remove(others)
            if in_turn:
                self._unproven.extend(_groups(in_turn))
                removed = {event.event_id for _, event in in_turn}
                others = [member for member in others if member[1].event_id not in removed]
        self._unproven.extend(_groups(others))
        self.arrived.set()

    def add_known(self, batch: Batch, events: Sequence[OutboxEvent]) -> None:
        """Queue events that were cut off alone before: one group each."""
        self._known.extend([(batch, event)] for event in events)
        if events:
            self.arrived.set()

    def take_turn(self) -> Turn | None:
        """Begin the turn of the next group, or return None; the caller says when it is over."""
        while (group := self._next()) is not None:
            turn = Turn(group)
            if turn.size:
                self._turns.append(turn)
                return turn
        self.arrived.clear()
        return None

    def end_turn(self, turn: Turn) -> None:
        """It has ended."""
        self._turns.remove(turn)

    def _next(self) -> Group | None:
        if self._known and (not self._unproven or self._since_known >= _UNPROVEN_FIRST):
            self._since_known = 0
            return self._known.popleft()
        if self._unproven:
            self._since_known += 1
            return self._unproven.popleft()
        return None


def _groups(cut_off: Group) -> Iterator[Group]:
    size = -(-len(cut_off) // _PARTS)
    alike = sorted(cut_off, key=lambda member: (member[1].event_type, member[1].size))
    for start in range(0, len(alike), size or 1):
        yield alike[start : start + size]
