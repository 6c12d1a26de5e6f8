"""A relay that is killed by certain events: ``python -m tests.system.chaos.rigged`` with the environment of the daemon.

It is the daemon with its real publisher, but for one thing: when it is handed an event whose type contains
``poison``, its process is gone, as if the kernel had killed it for that event's sake.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence

from relay.__main__ import main
from relay.app import publishers
from relay.core.event import OutboxEvent
from relay.core.outcome import OutcomeSink
from relay.core.ports import Publisher
from relay.settings.settings import Settings

_build = publishers.build_publisher


class Poisonable:
    """Passes everything on to a publisher, and dies of poison."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self.name, self.keeps_runs, self.blocked = publisher.name, publisher.keeps_runs, publisher.blocked
        self.members = publisher.members
        self.open, self.probe = publisher.open, publisher.probe
        self.take_back, self.abandon, self.close = publisher.take_back, publisher.abandon, publisher.close
        self.destination_of, self.probe_destination = publisher.destination_of, publisher.probe_destination

    def twin(self) -> Poisonable:
        return Poisonable(self._publisher.twin())

    async def publish(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> None:
        if any("poison" in event.event_type for event in events):
            os.kill(os.getpid(), signal.SIGKILL)
        await self._publisher.publish(events, sink)


def build_poisonable(settings: Settings, now: Callable[[], float] = time.time) -> Publisher:
    """The publisher of the settings, poisonable."""
    return Poisonable(_build(settings, now))


if __name__ == "__main__":
    publishers.build_publisher = build_poisonable
    sys.exit(main())
