"""The rate of a destination in histories: what its relay hands over, held against what the rate allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from relay.core.event import OutboxEvent
from relay.core.outcome import OutcomeSink
from tests.system.simulation.broker import Broker
from tests.system.simulation.fan_out import FanOutClient
from tests.system.simulation.ledger import Violation
from tests.system.simulation.scheduler import Process

_BURST: Final = 0.1  # seconds whose events may go at once
_LEAST: Final = 2.0  # events that always may
_ROUNDING: Final = 1e-6


@dataclass(slots=True)
class RateAccount:
    """What one relay has handed over to one destination, over all of its connections."""

    relay: str
    rate: float
    offered_at: list[float] = field(default_factory=list)
    """Once for each event."""

    def check(self) -> None:
        """In no span of time more than the rate and one burst. Raises Violation."""
        burst = max(_LEAST, self.rate * _BURST)
        level, before = 0.0, 0.0
        for at in self.offered_at:
            level = max(0.0, level - self.rate * (at - before)) + 1
            before = at
            if level > burst + _ROUNDING:
                raise Violation(f"{self.relay}: {level:.2f} events at once at {at:.3f}, beyond a rate of {self.rate:g}")


class PacedClient(FanOutClient):
    """A client that counts what it is handed, with its twins."""

    def __init__(
        self, broker: Broker, process: Process, account: RateAccount, *, timeout: float, capacity: int
    ) -> None:
        super().__init__(broker, process, timeout=timeout, capacity=capacity)
        self._account = account

    async def publish(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> None:
        self._account.offered_at += [self.process.time()] * len(events)
        await super().publish(events, sink)

    def twin(self) -> PacedClient:
        return PacedClient(self._broker, self.process, self._account, timeout=self._timeout, capacity=self._capacity)
