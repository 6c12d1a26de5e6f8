"""Real Valkeys that belong together: a primary with its replica and a Sentinel, and the nodes of a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis

from relay.localservers.process import free_port
from tests.support.servers.valkey import ValkeyServer
from tests.support.waiting import wait_until

SERVICE = "mymaster"
SLOTS = 16384


def ask(server: ValkeyServer, *command: str | int) -> Any:
    """Send one command, and return the reply."""
    with redis.Redis.from_url(server.url, socket_timeout=5) as client:
        return client.execute_command(*command)


def role(server: ValkeyServer) -> str:
    """``master`` or ``slave``; empty while the server changes from one to the other, which cuts connections."""
    with suppress(redis.ConnectionError):
        return str(ask(server, "ROLE")[0].decode())
    return ""


class ValkeySentinel(ValkeyServer):
    """A Sentinel that decides alone."""

    name = "Valkey Sentinel"

    def __init__(self, primary: ValkeyServer) -> None:
        super().__init__()
        self._primary = primary

    def _prepare(self) -> None:
        self.port = free_port()
        lines = [
            "bind 127.0.0.1",
            f"port {self.port}",
            f'dir "{self.folder}"',
            f"sentinel monitor {SERVICE} 127.0.0.1 {self._primary.port} 1",
            f"sentinel down-after-milliseconds {SERVICE} 500",
            f"sentinel failover-timeout {SERVICE} 3000",
        ]
        (self.folder / "valkey.conf").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def start(self) -> Self:
        """As every server; it looks once a second at who replicates whom, not every ten."""
        super().start()
        ask(self, "SENTINEL", "DEBUG", "INFO-PERIOD", 1000)
        return self

    def can_promote(self, replica: ValkeyServer) -> bool:
        """Whether it knows this replica, and that it is in step; before, it refuses a fail-over."""
        known = ask(self, "SENTINEL", "REPLICAS", SERVICE)
        facts = [(one[b"port"], one[b"flags"], one[b"master-link-status"]) for one in known]
        return (str(replica.port).encode(), b"slave", b"ok") in facts

    def _command(self) -> list[str | Path]:
        return [*super()._command(), "--sentinel"]


class ValkeyCluster:
    """Primaries that share the slots evenly; the slots of a stopped one are away, those of the others are not."""

    def __init__(self, size: int = 2, settings: Mapping[str, str] | None = None, announced: Sequence[int] = ()) -> None:
        """``announced`` are the ports that the nodes tell clients in the place of their own, one each."""
        self._size = size
        self._announced = announced
        self._settings = {
            "cluster-enabled": "yes",
            "cluster-require-full-coverage": "no",
            "cluster-node-timeout": "2000",
            "appendonly": "no",
        } | dict(settings or {})
        self._stack = ExitStack()
        self.nodes: Sequence[ValkeyServer] = ()

    def __enter__(self) -> Self:
        own = [{"cluster-port": str(free_port())} for _ in range(self._size)]
        for one, port in zip(own, self._announced, strict=False):
            one["cluster-announce-port"] = str(port)
        self.nodes = [self._stack.enter_context(ValkeyServer(settings=self._settings | one)) for one in own]
        share = SLOTS // self._size
        for number, node in enumerate(self.nodes):
            last = SLOTS - 1 if number == self._size - 1 else (number + 1) * share - 1
            ask(node, "CLUSTER", "ADDSLOTSRANGE", number * share, last)
            ask(node, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        first, *others = self.nodes
        for node in others:
            ask(first, "CLUSTER", "MEET", "127.0.0.1", node.port, int(node.settings["cluster-port"]))
        self.wait_agreed()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._stack.close()

    def owner(self, stream: str) -> ValkeyServer:
        """The node that has the stream's slot at the start."""
        share = SLOTS // self._size
        return self.nodes[min(self.slot(stream) // share, self._size - 1)]

    def slot(self, stream: str) -> int:
        """The slot of a stream."""
        return int(ask(self.nodes[0], "CLUSTER", "KEYSLOT", stream))

    def wait_agreed(self) -> None:
        """Wait until every node knows of all slots where they are; after a start, too."""
        wait_until(lambda: all(self._agrees(node) for node in self.nodes), what="the nodes to agree")

    def _agrees(self, node: ValkeyServer) -> bool:
        known = str(ask(node, "CLUSTER", "NODES"))
        if not all(f":{port}" in known for port in self._announced):
            return False
        info = ask(node, "CLUSTER", "INFO")
        facts = info if isinstance(info, dict) else dict(line.split(":") for line in info.decode().split())
        return (facts["cluster_slots_ok"], facts["cluster_state"]) == (str(SLOTS), "ok")
