"""A broker in memory: takes every event, and answers as a test wants it to.

By default every event is acknowledged at once. A test may script outcomes (``answer_with``), hold answers back and
give them later one by one (``hold`` and ``answer``), take the broker down (``down``: refused at once) or let it
hang (``hang``: nothing is answered, probes run into their deadline), and bound how many unanswered events it holds
(``capacity``: back-pressure).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from relay.core.errors import BrokerUnreachable
from relay.core.event import EventId, OutboxEvent
from relay.core.outcome import ACKNOWLEDGED, Acknowledged, Outcome, OutcomeSink, Unreachable

Script = Callable[[OutboxEvent], Outcome | None]
"""The outcome of an event, or None to hold its answer back."""


class MemoryPublisher:
    """A publisher whose broker is a list."""

    name = "memory"

    def __init__(self, *, capacity: int | None = None) -> None:
        self.messages: list[OutboxEvent] = []
        """What the broker has, in the order of its acknowledgements."""
        self.offered: list[OutboxEvent] = []
        """Every event ever offered, in order."""
        self.probes = 0
        self.abandons: list[str] = []
        self._capacity = capacity
        self._script: Script = lambda _: ACKNOWLEDGED
        self._held: deque[tuple[OutboxEvent, OutcomeSink]] = deque()
        self._refusal: str | None = None
        self._hangs = False
        self._changed = asyncio.Event()
        """Set whenever a waiter should look again."""

    @property
    def held(self) -> list[OutboxEvent]:
        """The unanswered events, oldest first."""
        return [event for event, _ in self._held]

    def answer_with(self, script: Script) -> None:
        """Decide the outcomes of events offered from now on."""
        self._script = script

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

    def down(self, reason: str = "connection refused") -> None:
        """Refuse everything: events are unreachable at once, probes fail at once. Held events stay held."""
        self._refusal, self._hangs = reason, False

    def hang(self) -> None:
        """Answer nothing: events are held, probes run into their deadline."""
        self._refusal, self._hangs = None, True

    def up(self) -> None:
        """Answer again; what was held while it hung is answered by the script."""
        self._refusal, self._hangs = None, False
        waiting, self._held = self._held, deque()
        for event, sink in waiting:
            self._offer(event, sink)
        self._changed.set()

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
        if self._refusal is not None:
            raise BrokerUnreachable(self._refusal)
        try:
            async with asyncio.timeout(timeout):
                await self._until(lambda: not self._hangs)
        except TimeoutError:
            raise BrokerUnreachable(f"no answer within {timeout:g} s") from None

    async def abandon(self, reason: str) -> None:
        """Drop the held events and say so."""
        self.abandons.append(reason)
        self.answer(Unreachable(reason))

    async def close(self) -> None:
        """Abandon what is held."""
        await self.abandon("the publisher was closed")

    def _offer(self, event: OutboxEvent, sink: OutcomeSink) -> None:
        if self._refusal is not None:
            sink([(event, Unreachable(self._refusal))])
            return
        outcome = None if self._hangs else self._script(event)
        if outcome is None:
            self._held.append((event, sink))
        else:
            self._resolve(event, outcome, sink)

    def _resolve(self, event: OutboxEvent, outcome: Outcome, sink: OutcomeSink) -> None:
        if isinstance(outcome, Acknowledged):
            self.messages.append(event)
        sink([(event, outcome)])

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()
