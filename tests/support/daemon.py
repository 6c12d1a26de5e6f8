"""A relay as its own process, as an operator would run it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from relay.localservers.process import free_port
from tests.support.forking import ForkedProcess, forks, read_at_start
from tests.support.waiting import DEADLINE, patience, wait_until

_KEPT = ("PATH", "HOME", "LANG", "PYTHONPATH", "VIRTUAL_ENV")
_FORKED = ("relay", "tests.system.chaos.failing", "tests.system.chaos.rigged")
"""What finds its imports as it needs them, where the relay is imported already."""
_METRIC = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")


class Daemon:
    """``python -m relay`` with exactly the environment it is given, in a folder of its own.

    Its log goes to a file there, its output to another; a ``.env`` put there before the start is read. Where it can be,
    it is a fork of an interpreter that has imported the relay (``tests.support.forking``).
    """

    def __init__(
        self,
        storage_url: str,
        env: Mapping[str, str] | None = None,
        module: str = "relay",
        arguments: Sequence[str] = (),
    ) -> None:
        """``module`` is what is run in the relay's place: one that does something to it and then runs it."""
        self.port = free_port()
        self._module, self._arguments = module, arguments
        self._folder = tempfile.TemporaryDirectory(prefix="relay-daemon-")
        self.env = {
            "STORAGE_URL": storage_url,
            "SERVER_PORT": f"127.0.0.1:{self.port}",
            "PUBLISHER_CONNECT_RETRY_INTERVAL": "1s",
            **(env or {}),
        }
        self._process: subprocess.Popen[bytes] | ForkedProcess | None = None

    @property
    def process(self) -> subprocess.Popen[bytes] | ForkedProcess:
        """The running process."""
        assert self._process is not None, "the daemon was not started"
        return self._process

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    @property
    def folder(self) -> Path:
        """Where it works."""
        return Path(self._folder.name)

    def full_env(self) -> dict[str, str]:
        """Its whole environment: its own variables and the few that any Python needs."""
        inherited = {name: os.environ[name] for name in _KEPT if name in os.environ}
        paths = [str(Path(path).resolve()) for path in inherited.get("PYTHONPATH", "").split(os.pathsep) if path]
        return inherited | {"PYTHONPATH": os.pathsep.join(paths)} | self.env

    def start(self) -> Self:
        """Start it; does not wait for anything."""
        with (self.folder / "log").open("ab") as log, (self.folder / "out").open("ab") as out:
            self._process = self._fork(out.fileno(), log.fileno()) or subprocess.Popen(
                [sys.executable, "-m", self._module, *self._arguments],
                cwd=self.folder,
                env=self.full_env(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
            )
        return self

    def _fork(self, out: int, log: int) -> ForkedProcess | None:
        """The fork; None where another start differs from it."""
        if self._module not in _FORKED or self._arguments or read_at_start(self.env):
            return None
        environment = self.full_env()
        return forks(read_at_start(environment)).start(self._module, self.folder, environment, out, log)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.kill()
        sys.stderr.write(self.log()[-8000:])  # pytest shows it when the test failed
        self._folder.cleanup()

    def wait_ready(self, deadline: float = DEADLINE) -> Self:
        """Return when /readyz says 200."""
        wait_until(lambda: self.running and self.get("/readyz")[0] == 200, deadline, "the relay to be ready")
        return self

    @property
    def running(self) -> bool:
        """Whether the process lives; a test that waits for it fails at once when it does not."""
        code = self.process.poll()
        assert code is None, f"the daemon ended with {code}:\n{self.log()[-4000:]}"
        return True

    def get(self, path: str) -> tuple[int, str]:
        """Status and body of one GET; status 0 before the server listens."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=patience(10)) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except (OSError, TimeoutError):
            return 0, ""

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that carry these labels."""
        total = 0.0
        for line in self.get("/metrics")[1].splitlines():
            match = _METRIC.match(line)
            if match and match[1] == name:
                present = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', match[2] or ""))
                if labels.items() <= present.items():
                    total += float(match[3])
        return total

    def stop(self, deadline: float = DEADLINE) -> int:
        """SIGTERM, and the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(patience(deadline))

    def kill(self) -> None:
        """SIGKILL, if it still runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(patience())

    def log(self) -> str:
        """Everything on standard error so far."""
        return (self.folder / "log").read_text(errors="replace")

    def log_lines(self) -> list[dict[str, Any]]:
        """The log, parsed: in production every line is a JSON object, or this raises."""
        return [json.loads(line) for line in self.log().splitlines()]

    def output(self) -> str:
        """Everything on standard output so far."""
        return (self.folder / "out").read_text(encoding="utf-8")
