"""The parts of a destination that do not flow: a queue of SQS, a topic of SNS, a node of a Redis Cluster.

The publisher names the part that an event needs (``Publisher.destination_of``). A part is known here from when one of
its events comes back, gets no answer, or waits for one too long, until it flows again or no event of it was seen for a
while: what flows costs nothing. The states are those of ``relay.engine.destination.destination``. The first
``MOST_PARTS`` have one each; what is beyond shares one.

An event that got no answer is undecided until its part was probed, too: where the part does not answer and the
destination does, the event is ``Away``. So it uses no attempt, and its type is left out of claims for a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from relay.core.destination import DestinationState
from relay.core.durations import in_words
from relay.core.event import OutboxEvent
from relay.core.outcome import Acknowledged, Away, Permanent, Resolution, Transient
from relay.core.ports import Publisher
from relay.engine.destination.watched import Watched

MOST_PARTS: Final = 1000
OTHERS: Final = "…"
"""The name of what parts beyond that share."""
_MOST_PROBED = 16  # at a time; the others are taken to answer, as the destination does
PROBE_GRACE: Final = 1.0
"""Seconds that a probe may take beyond its own deadline: one that ignores that is no answer."""
SHARED: Final = 0.9
"""Of the retry interval, for which a probe without an answer speaks for the next ones, from its beginning on."""
_LONGEST_NAME = 200


def forgotten_after(retry_interval: float) -> float:
    """Seconds without an event that came back, after which what takes none counts as flowing: longer than a hold."""
    return 90.0 + 2 * retry_interval


class WatchedPart(Watched):
    """One of them."""

    def __init__(self, name: str, clock: Callable[[], float], event: OutboxEvent) -> None:
        super().__init__(name, clock)
        self.event = event._replace(payload=b"")
        """One of its events: they may need another part by and by."""
        self.seen_at = clock()
        """When an event of it came back or waited for long last."""
        self.silent_at = float("-inf")
        """When the last probe without an answer began."""

    def away(self) -> str:
        """Why it does not answer; empty while it does."""
        return self._why.get(DestinationState.AWAY, "")

    def answered(self) -> None:
        """It has answered an event or a probe."""
        if self.state > DestinationState.SLOW:
            self.note({DestinationState.AWAY: "", DestinationState.BLOCKED: ""}, "answers")

    def end(self, why: str) -> None:
        """All its states are over."""
        self.note(dict.fromkeys(self._why, ""), why)


class WatchedParts:
    """Those of one destination. False while all flow."""

    def __init__(self, owner: str, publisher: Publisher, clock: Callable[[], float], retry_interval: float) -> None:
        """``owner`` is the destination's name; ``retry_interval`` the seconds between two probes of what is away."""
        self._owner = owner
        self._publisher = publisher
        self._clock = clock
        self._retry_interval = retry_interval
        self._parts: dict[str, WatchedPart] = {}
        self._silent: dict[str, str] = {}
        """Why parts did not answer the last probes."""

    def __bool__(self) -> bool:
        return bool(self._parts)

    @property
    def shown(self) -> Mapping[str, WatchedPart]:
        """Those that do not flow, by the name that is shown. A copy: metrics are read in threads of their own."""
        return {part.name.removeprefix(f"{self._owner}/"): part for part in list(self._parts.values())}

    def take(self, event: OutboxEvent, outcome: Away) -> Away | None:
        """What becomes of an event that came back; None where it needs no part of its own."""
        if not (name := self._name_of(event)):
            return None
        part = self._part(name, event)
        part.note({DestinationState.BLOCKED if outcome.reported_as else DestinationState.AWAY: outcome.reason})
        return Away(f"{part.title}: {outcome.reason}", part.title)

    def answered(self, resolutions: Iterable[Resolution]) -> None:
        """These outcomes came; those that are answers are signs of life."""
        answers = (event for event, outcome in resolutions if isinstance(outcome, Acknowledged | Permanent | Transient))
        for name in {self._name_of(event) for event in answers} & self._parts.keys():
            self._parts[name].answered()
        self._drop_flowing()

    async def probe(self, undecided: Collection[OutboxEvent], timeout: float) -> None:
        """Probe the parts that these events need, each for ``timeout`` seconds; ``outcome_of`` says what that means.

        The destination itself has answered. One that was silent a moment ago is not asked again.
        """
        events = {self._name_of(event): event for event in undecided}
        events.pop("", None)
        began = self._clock()
        lately = {name: part for name, part in self._parts.items() if name in events and part.away()}
        lately = {n: one for n, one in lately.items() if began - one.silent_at < SHARED * self._retry_interval}
        names = [name for name in events if name not in lately][:_MOST_PROBED]
        answers = dict(zip(names, await asyncio.gather(*(self._ask(name, timeout) for name in names)), strict=True))
        self._silent = {name: part.away() for name, part in lately.items()}
        for name, reason in answers.items():
            if reason:
                part = self._part(name, events[name])
                part.silent_at = began
                part.note({DestinationState.AWAY: reason})
                self._silent[name] = reason
            elif name in self._parts:
                self._parts[name].answered()
        self._drop_flowing()

    def outcome_of(self, event: OutboxEvent) -> Away | None:
        """What becomes of an undecided event after ``probe``; None where its part has answered."""
        reason = self._silent.get(self._name_of(event)) if self._silent else None
        return self.take(event, Away(reason)) if reason else None

    def note_waits(self, waits: Iterable[tuple[OutboxEvent, float]]) -> float:
        """These events have waited for their answers for long, in seconds; to be called now and then.

        Returns how long the one has that waits longest, of those that need no part of their own.
        """
        now, longest = self._clock(), {"": 0.0}
        for event, seconds in waits:
            name = self._name_of(event)
            longest[name] = max(longest.get(name, 0.0), seconds)
            if name:
                self._part(name, event).note_wait(longest[name])
        for name, part in self._parts.items():
            if name not in longest:
                part.note_wait(0.0)
                if name != OTHERS and self._name_of(part.event) != name:
                    part.end("its events have another destination now")
                elif now - part.seen_at > forgotten_after(self._retry_interval):
                    part.end("no event waits for it")
        self._drop_flowing()
        return longest[""]

    async def _ask(self, name: str, timeout: float) -> str:
        """Why a part does not answer; empty where it does."""
        try:
            async with asyncio.timeout(timeout + PROBE_GRACE):
                await self._publisher.probe_destination(name, timeout)
        except Exception as error:  # noqa: BLE001 - whatever a client raises
            return str(error) or f"no answer within {in_words(timeout)}"
        return ""

    def _name_of(self, event: OutboxEvent) -> str:
        """The part that an event needs; empty for the whole. Destinations with names of their own watch theirs."""
        return "" if self._publisher.members else self._publisher.destination_of(event)

    def _part(self, name: str, event: OutboxEvent) -> WatchedPart:
        if name not in self._parts and len(self._parts) >= MOST_PARTS:
            name = OTHERS
        if name not in self._parts:
            shown = "".join(one for one in name if one.isprintable() and not one.isspace())[:_LONGEST_NAME]
            self._parts[name] = WatchedPart(f"{self._owner}/{shown}", self._clock, event)
        part = self._parts[name]
        part.seen_at = self._clock()
        return part

    def _drop_flowing(self) -> None:
        for name in [name for name, part in self._parts.items() if part.state is DestinationState.FLOWING]:
            del self._parts[name]
