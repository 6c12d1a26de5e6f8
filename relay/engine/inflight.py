"""What this relay holds: the batches that are claimed and not settled, the bounds on them, and what wakes the loops.

What happens inside a batch is ``Batch``'s; here it is counted, and the loop that goes on with it is woken. Everything
runs in the event loop's thread and never waits, so a method is a critical section of its own. The events below
are where the loops meet: a loop sets one after it has changed something, and a loop clears it before it looks.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from relay.core.destination import Waiting
from relay.core.event import EventId, OutboxEvent
from relay.core.places import Flow
from relay.core.telemetry import EngineCounter, Telemetry
from relay.engine.batch import Batch, Portion
from relay.engine.flows import BY_TYPE, Flows, bounded

_SETTLE_LINGER = 0.005  # seconds; a batch whose last answers are on their way is written once, not twice


class InFlight:
    """All batches of one relay."""

    def __init__(self, telemetry: Telemetry, max_events: int, max_bytes: int, flows: Flows = BY_TYPE) -> None:
        self._telemetry = telemetry
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._flows = flows
        self._linger: asyncio.TimerHandle | None = None
        self._with_followers: dict[Batch, None] = {}
        self.batches: dict[Batch, None] = {}
        self.events = 0
        """Claimed and not settled, those being written included."""
        self.bytes_held = 0
        self.changed = asyncio.Event()
        """Something was settled or lost, so there may be room: wakes the claim loop, the offer loop and the stop."""
        self.claimable = asyncio.Event()
        """There may be something to claim: ends the rest of the claim loop."""
        self.rows_wait = False
        """In order per key: the last claim left due rows behind, which may be claimable once a batch is settled."""
        self.settleable = asyncio.Event()
        """There are verdicts to write: wakes the settler."""
        self.renewable = asyncio.Event()
        """A transaction needs newer leases than it has: wakes the renewer."""
        self.following = asyncio.Event()
        """There are events that come next in their key: wakes the follow loop."""
        self.attention = asyncio.Event()
        """An outcome is undecided, or the broker did not answer: wakes the gate."""

    def room(self, paced: Sequence[Waiting] = ()) -> tuple[int, int]:
        """How many events, and how many bytes, may be claimed now.

        Events that wait for the rate of their destination take no place; of bytes as many as there are besides.
        Outcomes that wait for locked rows take no place, up to as many as there are places: only their ids are held.
        Suspects wait for each other, so they take no place of the others; but where there are as many of them as may
        be in flight besides, nothing is claimed.
        """
        suspects = sum(len(batch.suspects) for batch in self.batches)
        if suspects >= self._max_events or sum(batch.suspect_bytes for batch in self.batches) >= self._max_bytes:
            return 0, 0
        if self._max_bytes - self.bytes_held < self._max_bytes // 2:
            # A claim's bytes are given back together, with its last answer: one event without an answer must not keep
            # those of its neighbours. Looked at only where bytes are short, because it looks at every event.
            self.bytes_held -= sum(batch.trim_bytes() for batch in self.batches)
        waiting = suspects + min(len(self.locked_ids()), self._max_events)
        waiting = min(waiting + sum(one.events for one in paced), self.events)
        size = min(sum(one.size for one in paced), self._max_bytes)
        return self._max_events - (self.events - waiting), self._max_bytes - (self.bytes_held - size)

    def slow_flows(
        self, now: float, waited: float, late: Collection[Flow], few: int = 0, few_bytes: int = 0
    ) -> list[Flow]:
        """Flows that wait for answers: those in ``late``, and those of events that have ``waited`` so many seconds.

        But for those with the fewest such events. ``few`` of them, of ``few_bytes`` in sum, keep no flow out: an event
        for several destinations of which one is silent is among them.
        """
        events, size = Counter(dict.fromkeys(late, 0)), Counter[Flow]()
        for batch in self.batches:
            # Until it is handed over, its destinations do not know of it: the next claim may be sent before that.
            waits = now - batch.offered_at >= waited or (bool(late) and not batch.handed_over)
            for event in batch.offered.values() if waits or late else ():
                flow = event.event_type if event.event_type in late else self._flows.of(event)
                if waits or flow in late:
                    events[flow] += 1
                    size[flow] += event.size
        slow = sorted(events, key=lambda one: max(events[one] / max(few, 1), size[one] / max(few_bytes, 1)))
        # One of which nothing is in flight may come next: the last places are not for it, either.
        while slow and (few := few - max(events[slow[0]], 1)) >= 0 and (few_bytes := few_bytes - size[slow[0]]) >= 0:
            del slow[0]
        return bounded(slow)

    def add(self, batch: Batch) -> None:
        """A claim came back with events."""
        self.batches[batch] = None
        self.events += batch.unanswered + len(batch.verdicts)
        self.bytes_held += batch.bytes_held
        self._telemetry.in_flight(self.events)

    def careful(self, now: float) -> bool:
        """Whether an event that may kill this relay is in flight, beside which nothing is claimed."""
        return any(batch.last_chance and batch.unfinished and not batch.is_slow(now) for batch in self.batches)

    def others_unfinished(self, batch: Batch, now: float) -> bool:
        """Whether events of other batches would lose a lease if this relay died now.

        Neither rows that are set aside nor events whose answers are slow are waited for: that may never end, and the
        others would wait, too.
        """
        others = (other for other in self.batches if other is not batch)
        return any(other.unfinished for other in others if not other.is_slow(now))

    @property
    def undecided(self) -> list[OutboxEvent]:
        """The events whose timeouts are held for a probe."""
        return [event for batch in self.batches for event, _ in batch.undecided]

    def long_waits(self, now: float, seconds: float) -> Iterator[tuple[OutboxEvent, float]]:
        """The events that have waited for their answers for that long, and how long."""
        for batch in self.batches:
            if (waited := now - batch.offered_at) >= seconds:
                yield from ((event, waited) for event in batch.offered.values())

    @property
    def unanswered(self) -> int:
        """Events whose outcome is not known yet."""
        return sum(batch.unanswered for batch in self.batches)

    @property
    def refused(self) -> int:
        """Events whose verdict the database has refused to write; each is tried again after a pause."""
        return sum(len(portion) for batch in self.batches for portion in batch.aside if portion.refusals)

    def locked_ids(self) -> list[EventId]:
        """Events whose outcome waits because another session has locked the row."""
        return [
            event_id
            for batch in self.batches
            for portion in batch.aside
            if portion.locked
            for event_id in portion.settlement.event_ids()
        ]

    def decided(self, batch: Batch) -> None:
        """Verdicts of ``batch`` were reached: wake the settler, at once if no answer is missing.

        Else the settler is woken by a timer, which is shared by all batches: more verdicts come in the meantime. It may
        fire when they are written already, which costs the settler one look.
        """
        if batch.followers:
            self._with_followers[batch] = None
            self.following.set()
        if not batch.offered:
            self.bytes_held -= batch.free_bytes()
            self.settleable.set()
            self.changed.set()
        elif self._linger is None:
            self._linger = asyncio.get_running_loop().call_later(_SETTLE_LINGER, self._linger_over)

    def _linger_over(self) -> None:
        self._linger = None
        self.settleable.set()

    def take_followers(self) -> dict[Batch, list[OutboxEvent]]:
        """The events that are to be handed over now, by batch."""
        self.following.clear()
        batches, self._with_followers = self._with_followers, {}
        return {batch: batch.take_followers() for batch in batches}

    def release(self, batch: Batch) -> None:
        """Give back what of ``batch`` has no outcome. The publisher does not hold it, or no longer."""
        batch.release_unanswered()
        if batch.trace is not None:
            batch.trace.end("released")
        self.decided(batch)

    def release_suspects(self, but_of: Batch) -> None:
        """Give back the suspects of all other batches; the publisher does not hold them."""
        for batch in self.batches:
            if batch is not but_of and batch.suspects:
                batch.release_suspects()
                self.decided(batch)

    def forfeit(self, batch: Batch, lost: Collection[EventId]) -> None:
        """The leases of these events are lost. Of what is being written, only the settler may say so."""
        batch.forfeit(lost)
        if batch.trace is not None:
            batch.trace.lose(lost)
        if len(batch.verdicts):
            self.settleable.set()
        self._telemetry.count(EngineCounter.LEASES_LOST, len(lost))
        self.gone(batch, len(lost))

    def end_traces(self) -> None:
        """The relay ends: what has no answer gets none any more."""
        for batch in self.batches:
            if batch.trace is not None:
                batch.trace.end("unanswered")

    def take_settleable(self, now: float, *, settle_first: bool) -> tuple[list[Portion], list[Portion]]:
        """The verdicts to write, and what was set aside and is due. Their batches are marked as being written.

        A batch that a renewal is writing to is left out: ``written`` wakes the settler for it. So is a batch whose
        renewal is overdue, unless outcomes come first (``settle_first``, after an outage): where one settle follows
        another without a pause, the renewer would never get its turn.
        """
        self.settleable.clear()
        verdicts: list[Portion] = []
        aside: list[Portion] = []
        for batch in self.batches:
            if batch.writing or (batch.renewal_overdue(now) and not settle_first):
                continue
            fresh = batch.take_verdicts()
            due = batch.take_aside(now) if batch.aside else []
            if fresh or due:
                batch.begin_writing()
                verdicts += fresh
                aside += due
        return verdicts, aside

    def written(self, batch: Batch) -> None:
        """A settle or renewal of ``batch`` is over; what was decided meanwhile can be written."""
        batch.end_writing()
        if len(batch.verdicts) or batch.aside:
            self.settleable.set()
        if batch.empty:
            self._remove(batch)

    def gone(self, batch: Batch, events: int) -> None:
        """That many events of ``batch`` are settled or lost."""
        self.events -= events
        self._telemetry.in_flight(self.events)
        self.changed.set()
        if batch.empty:
            self._remove(batch)

    def _remove(self, batch: Batch) -> None:
        if batch in self.batches:
            del self.batches[batch]
            self.bytes_held -= batch.free_bytes()
            self.changed.set()
            if self.rows_wait:
                self.claimable.set()
