"""The in-memory double, held to the same promises as the real brokers."""

from __future__ import annotations

from typing import Any

from relay.core.headers import wire_headers
from tests.brokers.harness.base import Features, Harness, StoredMessage
from tests.support.doubles.memory_publisher import MemoryPublisher


class MemoryHarness(Harness):
    """A list as a broker."""

    features = Features(hangs=True, stops=True, at_once=True)

    def __init__(self) -> None:
        self._publishers: list[MemoryPublisher] = []
        self._destinations = 0

    def publisher(self, **options: Any) -> MemoryPublisher:
        publisher = MemoryPublisher()
        self._publishers.append(publisher)
        return publisher

    async def destination(self) -> str:
        self._destinations += 1
        return f"destination-{self._destinations}"

    async def read(self, destination: str, count: int) -> list[StoredMessage]:
        messages = [event for publisher in self._publishers for event in publisher.messages]
        return [
            StoredMessage(event.event_id, event.partition_key, event.payload, wire_headers(event.headers))
            for event in messages
            if event.event_type == destination
        ][:count]

    def hang(self) -> None:
        for publisher in self._publishers:
            publisher.hang()

    def stop(self) -> None:
        for publisher in self._publishers:
            publisher.down()

    def resume(self) -> None:
        for publisher in self._publishers:
            publisher.up()

    def start(self) -> None:
        self.resume()
