"""The relay and the console as processes, configured by nothing but environment variables, as in production."""

from __future__ import annotations

import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import openoutbox
import relay
from relay.localservers.process import free_port, run_tool
from relay.localservers.server import LocalServer


class _HttpProcess(LocalServer):
    """One of the project's programs that serves HTTP on a free port."""

    ready_within = 30.0
    ready_path: ClassVar[str]
    port_variable: ClassVar[str]  # says where it listens

    def __init__(self, settings: Mapping[str, str]) -> None:
        """``settings`` are its environment variables but the one of its port, which is chosen here."""
        super().__init__()
        self._settings = dict(settings)
        self.port = 0

    @property
    def url(self) -> str:
        """Where it serves."""
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str) -> int:
        """The HTTP status of one GET, 0 without an answer."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=2) as answer:
                status: int = answer.status
                return status
        except urllib.error.HTTPError as refused:
            refused.close()
            return refused.code
        except OSError:
            return 0

    def _prepare(self) -> None:
        self.port = free_port()

    def _environment(self) -> Mapping[str, str]:
        return python_path() | self._settings | {self.port_variable: f"127.0.0.1:{self.port}"}

    def _answers(self) -> bool:
        return self.get(self.ready_path) == 200


class RelayDaemon(_HttpProcess):
    """``python -m relay``; ready when database and broker answer. Serves health, stats and metrics."""

    name = "relay"
    ready_path = "/readyz"
    port_variable = "SERVER_PORT"

    def _command(self) -> list[str | Path]:
        return [sys.executable, "-m", "relay"]


class ConsoleServer(_HttpProcess):
    """``python -m relay_cli console``; ready when it serves."""

    name = "console"
    ready_path = "/healthz"
    port_variable = "CONSOLE_PORT"

    def _command(self) -> list[str | Path]:
        return [sys.executable, "-m", "relay_cli", "console"]


def migrate(storage_url: str, folder: Path, extensions: Sequence[str] = ()) -> None:
    """Create the outbox table by the project's own command. Raises ServerFailed with its output if it fails."""
    run_cli(["migrate", "--storage-url", storage_url, *(f"--with={name}" for name in extensions)], folder)


def migrate_log(log_url: str, folder: Path) -> None:
    """Create the delivery log's tables by the project's own command. Raises ServerFailed with its output."""
    run_cli(["log", "migrate"], folder, {"DELIVERY_LOG_URL": log_url})


def run_cli(arguments: Sequence[str], folder: Path, settings: Mapping[str, str] | None = None) -> None:
    """Run ``relay-cli``. Raises ServerFailed with its output if it fails."""
    run_tool([sys.executable, "-m", "relay_cli", *arguments], folder, env=python_path() | dict(settings or {}))


def python_path() -> dict[str, str]:
    """Lets a Python in another folder find the same packages as this one; nothing else of the caller's environment."""
    root = Path(relay.__file__).parents[1]
    return {"PYTHONPATH": f"{root}:{root / 'cli'}:{Path(openoutbox.__file__).parents[1]}"}
