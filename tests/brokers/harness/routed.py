"""The publishers around others: they must keep every promise of those."""

from __future__ import annotations

from typing import Any

from relay.core.ports import Publisher
from relay.engine.destination.destination import Times
from relay.engine.destination.drops import Drops
from relay.engine.destination.routed import RoutedPublisher
from relay.engine.destination.several import SeveralPublishers
from relay.routing.rules import Routes
from tests.brokers.harness.base import Features, StoredMessage
from tests.brokers.harness.memory import MemoryHarness

_PREFIX = "shop."


class RoutedHarness(MemoryHarness):
    """Every destination has another name."""

    def publisher(self, **options: Any) -> Publisher:  # type: ignore[override]  # another publisher than the broker's
        return RoutedPublisher(super().publisher(**options), Routes(prefix=_PREFIX), Drops())

    async def read(self, destination: str, count: int) -> list[StoredMessage]:
        return await super().read(_PREFIX + destination, count)


class SeveralHarness(RoutedHarness):
    """One of several destinations is all there is. For one that hangs: ``tests/engine/destination/test_several.py``."""

    features = Features(stops=True, at_once=True)

    def publisher(self, **options: Any) -> Publisher:  # type: ignore[override]  # likewise
        only = MemoryHarness.publisher(self, **options)
        times = Times(retry_interval=0.05, probe_timeout=1.0)
        return SeveralPublishers({"only": only}, Routes(prefix=_PREFIX, default="only"), Drops(), times)
