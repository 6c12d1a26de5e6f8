"""What the harnesses of this project's brokers share: a server of the whole run, paused and stopped by its id."""

from __future__ import annotations

import os
import signal

from relay.conformance.harness import Collector, Features, Harness, StoredMessage, make_event
from relay.localservers.server import LocalServer

__all__ = ["Collector", "Features", "Harness", "ServerHarness", "StoredMessage", "make_event"]


class ServerHarness(Harness):
    """A broker of the whole run, which can be paused and stopped, and is left running."""

    def __init__(self, server: LocalServer) -> None:
        self._broker = server
        self._paused = False

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
