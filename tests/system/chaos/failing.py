"""A relay whose broker fails at random: ``python -m tests.system.chaos.failing`` with the environment of the daemon.

It is the daemon with its real publisher, but for one event in twenty: half of those are refused before they are sent,
the other half are sent, and their acknowledgement is turned into a failure.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence

from relay.__main__ import main
from relay.app import publishers
from relay.core.event import EventId, OutboxEvent
from relay.core.outcome import Acknowledged, Outcome, OutcomeSink, Resolution, Transient, Withheld
from relay.core.ports import Publisher
from relay.settings.settings import Settings

SHARE = 0.05

_build = publishers.build_publisher


class Failing:
    """Passes nearly everything on to a publisher, and what it says back."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self.name, self.keeps_runs = publisher.name, publisher.keeps_runs
        self.members = publisher.members
        self.open, self.probe = publisher.open, publisher.probe
        self.take_back, self.abandon, self.close = publisher.take_back, publisher.abandon, publisher.close
        self.destination_of, self.probe_destination = publisher.destination_of, publisher.probe_destination

    @property
    def blocked(self) -> str:
        return self._publisher.blocked

    def twin(self) -> Failing:
        return Failing(self._publisher.twin())

    async def publish(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> None:
        chances = {event.event_id: random.random() for event in events}
        unheard: set[EventId] = {one for one, chance in chances.items() if SHARE / 2 <= chance < SHARE}
        ended: set[str | None] = set()
        passed: list[OutboxEvent] = []
        for event in events:
            if event.partition_key is not None and event.partition_key in ended:
                sink([(event, Withheld("behind one that was refused by chance"))])
            elif chances[event.event_id] < SHARE / 2:
                ended.add(event.partition_key)
                sink([(event, Transient("REFUSED", "by chance"))])
            else:
                passed.append(event)

        def answer(resolutions: Sequence[Resolution]) -> None:
            sink(
                [(event, _unheard(outcome) if event.event_id in unheard else outcome) for event, outcome in resolutions]
            )

        await self._publisher.publish(passed, answer)


def _unheard(outcome: Outcome) -> Outcome:
    return Transient("UNHEARD", "by chance") if isinstance(outcome, Acknowledged) else outcome


def build_failing(settings: Settings, now: Callable[[], float] = time.time) -> Publisher:
    """The publisher of the settings, failing now and then."""
    return Failing(_build(settings, now))


if __name__ == "__main__":
    publishers.build_publisher = build_failing
    sys.exit(main())
