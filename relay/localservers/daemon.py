"""The relay as its own process, configured by nothing but environment variables, as in production."""

from __future__ import annotations

import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import relay
from relay.localservers.process import free_port, run_tool
from relay.localservers.server import LocalServer

_MIGRATE = "import sys; from relay_cli.main import main; sys.exit(main())"


class RelayDaemon(LocalServer):
    """``python -m relay`` on a free port; ready when ``/readyz`` says that database and broker answer."""

    name = "relay"
    ready_within = 30.0

    def __init__(self, settings: Mapping[str, str]) -> None:
        """``settings`` are the relay's environment variables but SERVER_PORT, which is chosen here."""
        super().__init__()
        self._settings = dict(settings)
        self.port = 0

    @property
    def url(self) -> str:
        """Where it serves health, stats and metrics."""
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

    def _command(self) -> list[str | Path]:
        return [sys.executable, "-m", "relay"]

    def _environment(self) -> Mapping[str, str]:
        return python_path() | self._settings | {"SERVER_PORT": f"127.0.0.1:{self.port}"}

    def _answers(self) -> bool:
        return self.get("/readyz") == 200


def migrate(storage_url: str, folder: Path) -> None:
    """Create the outbox table by the project's own command. Raises ServerFailed with its output if it fails."""
    run_tool([sys.executable, "-c", _MIGRATE, "migrate", "--storage-url", storage_url], folder, env=python_path())


def python_path() -> dict[str, str]:
    """Lets a Python in another folder find the same packages as this one; nothing else of the caller's environment."""
    root = Path(relay.__file__).parents[1]
    return {"PYTHONPATH": f"{root}:{root / 'cli'}"}
