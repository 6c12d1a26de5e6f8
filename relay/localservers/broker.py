"""The embedded broker: librdkafka's mock cluster, in this process, spoken to over TCP like any Kafka.

It keeps everything in memory and forgets it at the end. It is not evidence of anything about Apache Kafka, which the
project's tests start; it lets the demonstration run where there is no Java.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Self

from confluent_kafka import Producer

from relay.localservers.process import ServerFailed

_ANSWER_WITHIN = 10.0
_ERRORS_ONLY = 3  # syslog's numbering; the mock cluster announces itself as a notice


class EmbeddedBroker:
    """One broker on a free port of 127.0.0.1. It lives as long as the client handle that carries it."""

    def __init__(self) -> None:
        self._carrier = Producer({"test.mock.num.brokers": 1, "log_level": _ERRORS_ONLY})
        brokers = self._carrier.list_topics(timeout=_ANSWER_WITHIN).brokers.values()
        self.url = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)

    def create_topics(self, names: Iterable[str]) -> dict[str, list[int]]:
        """Create the topics and return their partitions. Raises ServerFailed if the broker does not."""
        created = {}
        for name in names:
            topic = self._carrier.list_topics(name, timeout=_ANSWER_WITHIN).topics[name]  # asking is enough here
            if topic.error is not None:
                raise ServerFailed(f"the embedded broker did not create the topic {name}: {topic.error}")
            created[name] = sorted(topic.partitions)
        return created

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        del self._carrier
