"""A server as a child process: its own folder and log, probed until it is ready, stopped by its process id.

For the demonstration, the tests and the benchmarks. A server runs in a session of its own, so that a Ctrl-C at the
terminal reaches only the program that started it, which then stops its servers in an order that loses nothing; one
that is killed leaves its servers running. If a server does not come up, it is stopped, and the error carries the end of
its log.
"""

from __future__ import annotations

import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Final

from relay.core.errors import OutboxError
from relay.localservers.waiting import wait_until

_LOG_TAIL = 4000  # characters of the log that an error shows
_KILL_AFTER = 15.0  # seconds from the polite signal to SIGKILL
_LOWEST_PORT = 15_000
_TRIES = 100  # ports looked at, until any will do


class ServerFailed(OutboxError):
    """A server did not start; the message carries the end of its log."""


@dataclass(frozen=True, slots=True)
class Account:
    """The user that a server runs as, where it is not the caller."""

    uid: int
    gid: int


def unprivileged() -> Account | None:
    """The account ``nobody`` when the caller is root, else None: some servers refuse to run as root."""
    if os.geteuid() != 0:
        return None
    entry = pwd.getpwnam("nobody")
    return Account(entry.pw_uid, entry.pw_gid)


class _Ports:
    """Ports that no client is given, so that only another server may take them: one after the other, from any one on.

    So a process gets no port again before it has had all others; its server may begin to listen much later.
    """

    def __init__(self) -> None:
        self.part, self.parts = 0, 1
        self._turns = count(random.SystemRandom().randrange(_LOWEST_PORT))  # no seed of a test's

    def next(self) -> int:
        """A port to try; 0, which is any, where the system does not say which ones it gives to clients."""
        size = (_first_of_clients() - _LOWEST_PORT) // self.parts
        return _LOWEST_PORT + self.part * size + next(self._turns) % size if size > 0 else 0


_PORTS: Final = _Ports()


def share_ports(part: int, parts: int) -> None:
    """Choose among one part of the ports from now on; the processes beside this one choose among the others."""
    _PORTS.part, _PORTS.parts = part, parts


def free_port() -> int:
    """A TCP port of 127.0.0.1 that was free just now; another process may still take it first."""
    return free_ports(1)[0]


def free_ports(number: int) -> list[int]:
    """As ``free_port``, several that differ."""
    with ExitStack() as stack:
        return [_bind(stack.enter_context(socket.socket())) for _ in range(number)]


def _bind(sock: socket.socket) -> int:
    """Bind it to the next port that is free; to any if none is found."""
    for _ in range(_TRIES):
        with suppress(OSError):
            sock.bind(("127.0.0.1", _PORTS.next()))
            return int(sock.getsockname()[1])
    sock.bind(("127.0.0.1", 0))
    return int(sock.getsockname()[1])


@cache
def _first_of_clients() -> int:
    """The first port that the system gives to connections; 0 where it does not say so."""
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError):
        return 0


def accepts(port: int) -> bool:
    """Whether something listens on this port of 127.0.0.1."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def make_folder(name: str, account: Account | None = None, parent: Path | None = None) -> Path:
    """A new folder in ``parent``, or a temporary one, which ``account`` owns and can reach even in a private TMPDIR."""
    candidates = [parent or Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")]
    base = next((path for path in candidates if account is None or _passable(path)), candidates[0])
    folder = Path(tempfile.mkdtemp(prefix=f"openoutbox-{name}-", dir=base))
    if account:
        os.chown(folder, account.uid, account.gid)
    return folder


def _passable(path: Path) -> bool:
    return path.is_dir() and all(step.stat().st_mode & 0o001 for step in (path, *path.resolve().parents))


def alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and was not yet waited for does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


def stop_process(pid: int, how: int = signal.SIGTERM) -> None:
    """Send the signal, wait until the process has ended, and kill it if it does not end in time."""
    with suppress(ProcessLookupError):
        os.kill(pid, how)
        try:
            wait_until(lambda: not alive(pid), _KILL_AFTER, f"process {pid} to end")
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not alive(pid), _KILL_AFTER, f"process {pid} to die")


class ServerProcess:
    """One running server. Not thread-safe; ``stop`` may be called at any time and more than once."""

    def __init__(
        self,
        command: Sequence[str | Path],
        folder: Path,
        account: Account | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Start it, with ``folder`` as its working directory and ``folder/log`` as its output."""
        self._log = folder / "log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(part) for part in command],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=env,
                user=account.uid if account else None,
                group=account.gid if account else None,
                extra_groups=[] if account else None,
            )

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def wait_ready(self, probe: Callable[[], bool], deadline: float, name: str) -> None:
        """Return when ``probe`` says yes. Raises ServerFailed if the server ends first or the deadline (s) passes."""
        try:
            wait_until(lambda: not self.running or probe(), deadline, f"{name} to answer")
        except TimeoutError as slow:
            self.stop(signal.SIGKILL)
            raise ServerFailed(f"{slow}\n{log_tail(self._log)}") from None
        if not self.running:
            raise ServerFailed(f"{name} ended with code {self._process.returncode}:\n{log_tail(self._log)}")

    def stop(self, how: int = signal.SIGTERM) -> None:
        """Stop it with this signal and wait for the end; killed if that takes longer than 15 s."""
        if not self.running:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(_KILL_AFTER)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def release(self) -> None:
        """Let it run on when this process ends: ``stop_process`` stops it by its process id."""
        self._process.returncode = 0  # else the process object would warn that its end was never awaited


def log_tail(path: Path) -> str:
    """The end of a log."""
    return path.read_text(encoding="utf-8", errors="replace")[-_LOG_TAIL:]


def run_tool(
    command: Sequence[str | Path], folder: Path, account: Account | None = None, env: Mapping[str, str] | None = None
) -> None:
    """Run a tool of a server to its end. Raises ServerFailed with what it wrote if it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        env=env,
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
    )
    if done.returncode:
        raise ServerFailed(
            f"{command[0]} ended with code {done.returncode}:\n{(done.stdout + done.stderr)[-_LOG_TAIL:]}"
        )


def remove(folder: Path) -> None:
    """Delete the folder with everything in it; one that is not there is fine."""
    shutil.rmtree(folder, ignore_errors=True)
