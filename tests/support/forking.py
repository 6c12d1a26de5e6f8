"""A relay as the fork of an interpreter that has imported it already: imports are most of what a start costs.

Each process of the tests starts this file once, as a program. It imports what every relay imports, has no thread, and
forks for each request; the child takes the folder, the environment and the files of the request, and runs the module
as ``python -m`` does. That takes 0.1 s of processor time in place of 0.9. What an interpreter reads of its environment
when it starts is that of the first one. The real command, from its first import on, is run by ``tests/app``,
``tests/system/packaging``, the documents' blocks and the demonstration.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from tests.support.paths import ROOT

_IMPORTED: Final = (
    *("relay.telemetry.logs", "relay.settings.settings", "uvloop", "relay.app.loop", "relay.app.run"),
    *("relay.brokers.kafka.transactions", "relay.brokers.nats.publisher", "relay.brokers.redis.publisher"),
)
_READ_AT_START: Final = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "TZ")
_LONGEST: Final = 1 << 20
"""Bytes of a request."""


def read_at_start(environment: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    """The variables that an interpreter reads once, when it starts."""
    return frozenset(one for one in environment.items() if one[0].startswith(_READ_AT_START))


class ForkedProcess:
    """What the tests use of ``Popen``, of a process that another one waits for. Not thread-safe."""

    def __init__(self, pid: int, ended: int) -> None:
        """``ended`` is a pipe that says the exit code."""
        self.pid = pid
        self.returncode: int | None = None
        self._ended = ended

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        return self._wait(0)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, when it has ended. Raises TimeoutExpired after ``timeout`` seconds."""
        code = self._wait(None if timeout is None else timeout * 1000)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Send it, unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL, unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def _wait(self, milliseconds: float | None) -> int | None:
        if self.returncode is None:
            poll = select.poll()
            poll.register(self._ended, select.POLLIN)
            if poll.poll(milliseconds):
                said = os.read(self._ended, 32)
                os.close(self._ended)
                self.returncode = int(said) if said else -signal.SIGKILL  # who waited for it has ended, too
        return self.returncode


class Forks:
    """The interpreter that is forked, a child of this process; it ends when this process does."""

    def __init__(self, variables: frozenset[tuple[str, str]]) -> None:
        """Start it with these, of those that are read at the start; does not wait for its imports."""
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        with other:
            command = [sys.executable, "-m", __name__, str(other.fileno())]
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=dict(variables),
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        atexit.register(self._close)

    def start(self, module: str, folder: Path, environment: Mapping[str, str], out: int, err: int) -> ForkedProcess:
        """Run the module with its standard output and error in these files."""
        ended, end = os.pipe()
        request = json.dumps([module, str(folder), dict(environment)]).encode()
        with self._lock:
            socket.send_fds(self._socket, [request], [out, err, end])
            os.close(end)
            return ForkedProcess(int(self._socket.recv(32)), ended)

    def _close(self) -> None:
        self._socket.close()
        self._process.wait()


@cache
def forks(variables: frozenset[tuple[str, str]]) -> Forks:
    """This process's own, of those variables."""
    return Forks(variables)


class _Parent:
    """Of the forks: waits for requests, and for the ends of its children."""

    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._wake, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._waker)
        self._ends: dict[int, int] = {}

    def serve(self) -> str | None:
        """Fork until no request can come any more. In a child: the module to run."""
        while True:
            ready, _, _ = select.select([self._requests.fileno(), self._wake], [], [])
            if self._wake in ready:
                os.read(self._wake, 4096)
                self._say_ends()
            if self._requests.fileno() in ready:
                request, files, _, _ = socket.recv_fds(self._requests, _LONGEST, 3)
                if not request:
                    return None
                if module := self._fork(request, *files):
                    return module

    def _say_ends(self) -> None:
        while self._ends:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            end = self._ends.pop(pid)
            os.write(end, str(os.waitstatus_to_exitcode(status)).encode())
            os.close(end)

    def _fork(self, request: bytes, out: int, err: int, end: int) -> str | None:
        pid = os.fork()
        if pid:
            os.close(out)
            os.close(err)
            self._ends[pid] = end
            self._requests.send(str(pid).encode())
            return None
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(out, 1)
        os.dup2(err, 2)
        for file in (out, err, end, self._wake, self._waker, *self._ends.values()):
            os.close(file)
        self._requests.close()
        module, folder, environment = json.loads(request)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.path[0] = folder
        sys.argv[:] = [module]
        return str(module)


def main() -> None:
    """Import, fork, and run the module in a child."""
    for name in _IMPORTED:
        importlib.import_module(name)
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        module = _Parent(requests).serve()
    if module is not None:
        runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
