"""A broker in memory: takes every event, and answers as a test wants it to.

By default every event is acknowledged at once. A test may script outcomes (``answer_with``), hold answers back and
give them later one by one (``hold`` and ``answer``), take the broker down (``down``: refused at once), let it hang
(``hang``: nothing is answered, probes run into their deadline) or cut the connection on certain messages (``cuts``),
and bound how many unanswered events it holds (``capacity``: back-pressure).

``twin`` returns another publisher to the same broker. All share what the test has arranged and what arrived; each has
a connection and unanswered events of its own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from relay.core.errors import BrokerRefused, BrokerUnreachable
from relay.core.event import EventId, OutboxEvent
from relay.core.outcome import ACKNOWLEDGED, Acknowledged, ConnectionCut, Outcome, OutcomeSink, Unreachable, Withheld
from relay.core.ports import SingleDestination

Script = Callable[[OutboxEvent], Outcome | None]
"""The outcome of an event, or None to hold its answer back."""

Poison = Callable[[OutboxEvent], bool]
"""Whether the broker cuts the connection on this message."""


class MemoryPublisher(SingleDestination):
    """A publisher whose broker is a list."""

    name = "memory"
    blocked: str = ""

    def __init__(self, *, capacity: int | None = None, keeps_runs: bool = False) -> None:
        self.keeps_runs = keeps_runs
        self.messages: list[OutboxEvent] = []
        """What the broker has, in the order of its acknowledgements."""
        self.offered: list[OutboxEvent] = []
        """Every event ever offered, in order."""
        self.probes = 0
        self.abandons: list[str] = []
        self.connection_cuts = 0
        """How often the broker cut a connection, its twins' included."""
        self.round_trip: float | None = None
        """Seconds from an offer to its answer or cut, which the connection's other events share; None: at once."""
        self.cut_takes = 0.0
        """Seconds more until a client notices a cut: Kafka's resends first."""
        self._capacity = capacity
        self._script: Script = lambda _: ACKNOWLEDGED
        self._poison: Poison = lambda _: False
        self._held: deque[tuple[OutboxEvent, OutcomeSink]] = deque()
        self._wire: list[tuple[OutboxEvent, OutcomeSink]] = []
        """Sent and not answered yet, with a round trip."""
        self._refusal: str | None = None
        self._login = False
        """Whether it is the login that is refused."""
        self._hangs = False
        self._ended: set[tuple[OutcomeSink, str | None]] = set()
        """Runs of which an event has failed, when it keeps runs."""
        self._changed = asyncio.Event()
        """Set whenever a waiter should look again."""
        self._first = self
        self._twins: list[MemoryPublisher] = []

    @property
    def held(self) -> list[OutboxEvent]:
        """The unanswered events, oldest first."""
        return [event for event, _ in self._held]

    def twin(self) -> MemoryPublisher:
        """Another publisher to the same broker."""
        twin = MemoryPublisher(capacity=self._capacity, keeps_runs=self.keeps_runs)
        twin._first = self._first
        twin.messages, twin.offered = self.messages, self.offered
        self._first._twins.append(twin)
        return twin

    def answer_with(self, script: Script) -> None:
        """Decide the outcomes of events offered from now on."""
        self._script = script

    def cuts(self, on: str | Poison | None) -> None:
        """Cut the connection on messages of this event type, or as a function says; None: no more.

        Every event that is unanswered on that connection is resolved as cut off, the message included.
        """
        if callable(on):
            self._poison = on
        else:
            self._poison = lambda event: event.event_type == on

    def cut(self, on: EventId | None = None) -> None:
        """Cut all connections once, as a failover does; what is unanswered on them is resolved as cut off.

        ``on``: only those that carry this event.
        """
        for one in (self, *self._twins):
            if on is None or any(event.event_id == on for event in one.held):
                one._lose_connection()

    def hold(self) -> None:
        """Answer nothing from now on, until ``answer``."""
        self._script = lambda _: None

    def answer(self, outcome: Outcome = ACKNOWLEDGED, *event_ids: EventId) -> int:
        """Answer the held events of these ids (all, when none is given); how many there were."""
        chosen = [entry for entry in self._held if not event_ids or entry[0].event_id in event_ids]
        self._held = deque(entry for entry in self._held if entry not in chosen)
        for event, sink in chosen:
            self._resolve(event, outcome, sink)
        self._changed.set()
        return len(chosen)

    def down(self, reason: str = "connection refused", *, refused: bool = False) -> None:
        """Refuse everything: events are unreachable at once, probes fail at once. Held events stay held."""
        self._refusal, self._hangs, self._login = reason, False, refused

    def hang(self) -> None:
        """Answer nothing: events are held, probes run into their deadline."""
        self._refusal, self._hangs = None, True

    def up(self) -> None:
        """Answer again; what was held while it hung is answered by the script."""
        self._refusal, self._hangs = None, False
        for one in (self, *self._twins):
            waiting, one._held = one._held, deque()
            for event, sink in waiting:
                one._offer(event, sink)
            one._changed.set()

    async def open(self) -> None:
        """Nothing to make."""

    async def publish(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> None:
        """Offer every event; waits while ``capacity`` unanswered events are held."""
        for event in events:
            await self._until(lambda: self._capacity is None or len(self._held) < self._capacity)
            self.offered.append(event)
            self._offer(event, sink)

    async def probe(self, timeout: float) -> None:
        """Fail when down; run into the deadline when hanging."""
        self.probes += 1
        broker = self._first
        if broker._refusal is not None:
            raise (BrokerRefused if broker._login else BrokerUnreachable)(broker._refusal)
        try:
            async with asyncio.timeout(timeout):
                await self._until(lambda: not broker._hangs)
        except TimeoutError:
            raise BrokerUnreachable(f"no answer within {timeout:g} s") from None

    async def abandon(self, reason: str) -> None:
        """Drop the held events and say so."""
        self.abandons.append(reason)
        wire, self._wire = self._wire, []
        self._held.extend(wire)
        self.answer(Unreachable(reason))

    async def close(self) -> None:
        """Abandon what is held."""
        await self.abandon("the publisher was closed")

    def _offer(self, event: OutboxEvent, sink: OutcomeSink) -> None:
        broker = self._first
        if broker._refusal is not None:
            sink([(event, Unreachable(broker._refusal))])
        elif broker._hangs:
            self._held.append((event, sink))
        elif broker.round_trip is not None:
            self._wire.append((event, sink))
            if len(self._wire) == 1:
                asyncio.get_running_loop().call_later(broker.round_trip, self._arrive)
        elif broker._poison(event):
            self._held.append((event, sink))
            self._lose_connection()
        else:
            self._take(event, sink)

    def _arrive(self) -> None:
        """The broker reads what was sent: it answers in order, up to a message on which it cuts the connection."""
        wire, self._wire = self._wire, []
        for place, (event, sink) in enumerate(wire):
            if self._first._poison(event):
                self._held.extend(wire[place:])
                asyncio.get_running_loop().call_later(self._first.cut_takes, self._lose_connection)
                return
            self._take(event, sink)

    def _take(self, event: OutboxEvent, sink: OutcomeSink) -> None:
        outcome = self._first._script(event)
        if outcome is None:
            self._held.append((event, sink))
        else:
            self._resolve(event, outcome, sink)

    def _lose_connection(self) -> None:
        self._first.connection_cuts += 1
        wire, self._wire = self._wire, []
        self._held.extend(wire)
        self.answer(ConnectionCut("connection reset by peer"))

    def _resolve(self, event: OutboxEvent, outcome: Outcome, sink: OutcomeSink) -> None:
        run = (sink, event.partition_key)  # each ``publish`` of the engine has a sink of its own
        if run in self._ended:
            outcome = Withheld("an earlier event of its key has failed")
        elif self.keeps_runs and event.partition_key and not isinstance(outcome, Acknowledged):
            self._ended.add(run)
        if isinstance(outcome, Acknowledged):
            self.messages.append(event)
        sink([(event, outcome)])

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()
