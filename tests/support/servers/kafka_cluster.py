"""Three real Kafka brokers, each a controller too, with small heaps and short timeouts for changes of leaders."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self

from relay.localservers.process import free_port
from tests.support.servers.kafka import KafkaServer

_NODES = (1, 2, 3)
_SETTINGS = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "replica.lag.time.max.ms": "3000",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "default.replication.factor": "3",
}


class _Node(KafkaServer):
    """One of the three. Its ports are chosen by the cluster, since the others must know them."""

    def __init__(self, ports: tuple[int, int], settings: Mapping[str, str]) -> None:
        super().__init__(heap="256m", settings=settings)
        self.port, self._controller_port = ports

    def _prepare(self) -> None:
        self._format()


class KafkaCluster:
    """Nodes by their id. ``url`` names all three."""

    def __init__(self) -> None:
        ports = {number: (free_port(), free_port()) for number in _NODES}
        voters = ",".join(f"{number}@127.0.0.1:{controller}" for number, (_, controller) in ports.items())
        self.nodes = {
            number: _Node(ports[number], _SETTINGS | {"node.id": str(number), "controller.quorum.voters": voters})
            for number in _NODES
        }

    @property
    def url(self) -> str:
        """The bootstrap addresses."""
        return ",".join(node.url for node in self.nodes.values())

    def __enter__(self) -> Self:
        with ThreadPoolExecutor(len(_NODES)) as pool:  # none answers before a majority is there
            list(pool.map(lambda node: node.start(), self.nodes.values()))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        with ThreadPoolExecutor(len(_NODES)) as pool:
            list(pool.map(lambda node: node.close(), self.nodes.values()))
