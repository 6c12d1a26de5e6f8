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

__all__ = ["Collector", "Features", "Harness", "ServerHarness", "StoredMessage", "make_event"]


_MODES = {"hangs": Mode.SILENCE, "refuses": Mode.REFUSE, "cuts": Mode.CUT}
_SLOW = 3.0  # seconds by which each answer is late
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


class ServerHarness(Harness):
    """A broker of the whole run, which can be paused and stopped, and is left running.

    For trouble it stands behind a proxy: ``proxy`` where the broker itself tells clients its address.
    """

    cuts = True

    def __init__(self, server: Server, proxy: TcpProxy | None = None) -> None:
        self._broker = server
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
            with self._behind_proxy() as proxy:
                proxy.delay = _SLOW if trouble == "slow" else 0.0
                proxy.set(_MODES.get(trouble, Mode.FLOW))
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
            proxy.delay, proxy.tap = 0.0, None
            proxy.set(Mode.FLOW)

    def _at(self, address: str) -> Publisher:
        self._address = address
        try:
            return self.publisher()
        finally:
            self._address = ""

    def hang(self) -> None:
        os.kill(self._broker.pid, signal.SIGSTOP)
        self._paused = True

    def resume(self) -> None:
        os.kill(self._broker.pid, signal.SIGCONT)
        self._paused = False

    def stop(self) -> None:
        self._broker.stop()

    def start(self) -> None:
        self._broker.start()

    def close(self) -> None:
        if self._paused:
            self.resume()
        self.start()
