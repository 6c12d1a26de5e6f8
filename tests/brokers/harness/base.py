"""What the harnesses of this project's brokers share: a server of the whole run, paused and stopped by its id."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Protocol

from relay.brokers.null import NullPublisher
from relay.conformance.harness import TROUBLES, Collector, Features, Harness, StoredMessage, make_event
from relay.core.ports import Publisher
from tests.support.servers.tcp_proxy import Mode, TcpProxy

__all__ = ["Collector", "Features", "Harness", "ServerHarness", "StoredMessage", "in_trouble", "make_event"]


_MODES = {"hangs": Mode.SILENCE, "refuses": Mode.REFUSE, "cuts": Mode.CUT}
SLOW = 3.0  # seconds by which each answer is late
NEVER = 600.0
_ADDRESS = re.compile(r"127\.0\.0\.1:(\d+)")


class Server(Protocol):
    """A ``relay.localservers.server.LocalServer`` with a URL."""

    @property
    def url(self) -> str: ...

    @property
    def pid(self) -> int: ...

    def stop(self) -> None: ...

    def start(self) -> object: ...


class Cutting:
    """The tap of a proxy that cuts connections on a payload."""

    def __init__(self, mark: bytes) -> None:
        self._mark = mark

    def request(self, _link: int, data: bytes) -> None:
        if self._mark in data:
            raise ConnectionResetError

    def reply(self, _link: int, data: bytes) -> bytes:
        return data


class Marking:
    """The tap of a proxy by which the requests of one destination alone are late, or are cut."""

    def __init__(self, name: str, *, cut: bool) -> None:
        self.links: set[int] = set()
        """The connections whose last request was one of them."""
        self._name, self._cut = name.encode(), cut

    def request(self, link: int, data: bytes) -> None:
        if self._name not in data:
            self.links.discard(link)  # a later connection may have the same number
        elif self._cut:
            raise ConnectionResetError
        else:
            self.links.add(link)

    def reply(self, _link: int, data: bytes) -> bytes:
        return data


@contextmanager
def in_trouble(trouble: str, proxies: Sequence[TcpProxy]) -> Iterator[None]:
    """What stands behind these proxies hangs, is slow, refuses or cuts, until the end."""
    for proxy in proxies:
        proxy.delay = SLOW if trouble == "slow" else 0.0
        proxy.set(_MODES.get(trouble, Mode.FLOW))
    try:
        yield
    finally:
        for proxy in proxies:
            proxy.delay = 0.0
            proxy.set(Mode.FLOW)


class ServerHarness(Harness):
    """A broker of the whole run, which can be paused and stopped, and is left running.

    For trouble it stands behind a proxy: ``proxy`` where the broker itself tells clients its address.
    """

    cuts = True

    def __init__(self, server: Server, proxy: TcpProxy | None = None, others: Sequence[Server] = ()) -> None:
        """``others`` are the further nodes of a cluster."""
        self._broker = server
        self._nodes = [server, *others]
        self._paused = False
        self._proxy = proxy
        self._address = ""

    @property
    def url(self) -> str:
        """The broker's, by whichever address new publishers take."""
        return _ADDRESS.sub(self._address, self._broker.url) if self._address else self._broker.url

    @property
    def troubles(self) -> Sequence[str]:
        return [one for one in TROUBLES if one != "blocks" or type(self).block is not ServerHarness.block]

    def block(self) -> AbstractContextManager[None]:
        """Let the broker answer probes and take no events."""
        raise NotImplementedError

    @contextmanager
    def trouble(self, trouble: str) -> Iterator[tuple[Publisher, Publisher]]:
        if trouble == "blocks":
            with self.block():
                yield self.publisher(), NullPublisher()
        elif trouble == "no DNS":
            yield self._at("no-such-host.invalid:9"), self.publisher()
        else:
            with self._behind_proxy() as proxy, in_trouble(trouble, [proxy]):
                yield self._at(f"127.0.0.1:{proxy.port}"), self.publisher()

    @contextmanager
    def cutting(self, mark: bytes) -> Iterator[Publisher]:
        with self._behind_proxy() as proxy:
            proxy.tap = Cutting(mark)
            yield self._at(f"127.0.0.1:{proxy.port}")

    @contextmanager
    def _behind_proxy(self) -> Iterator[TcpProxy]:
        with ExitStack() as stack:
            port = _ADDRESS.search(self._broker.url)
            assert port is not None
            proxy = self._proxy or stack.enter_context(TcpProxy(int(port[1])))
            yield proxy
            proxy.tap = None

    def _at(self, address: str) -> Publisher:
        self._address = address
        try:
            return self.publisher()
        finally:
            self._address = ""

    def hang(self) -> None:
        for node in self._nodes:
            os.kill(node.pid, signal.SIGSTOP)
        self._paused = True

    def resume(self) -> None:
        for node in self._nodes:
            os.kill(node.pid, signal.SIGCONT)
        self._paused = False

    def stop(self) -> None:
        for node in self._nodes:
            node.stop()

    def start(self) -> None:
        for node in self._nodes:
            node.start()

    def close(self) -> None:
        if self._paused:
            self.resume()
        self.start()
