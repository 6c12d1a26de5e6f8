"""A relay as a process, ours or another's, whose CPU time and memory are read from /proc."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from relay.localservers.daemon import RelayDaemon

_TICKS = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")


@dataclass(frozen=True)
class Usage:
    """What a process and its descendants have used so far."""

    cpu_seconds: float
    """User and system time, all threads and children, those that have ended included."""
    peak_mebibytes: float
    """The most resident memory that the process itself ever had."""


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and everything it started."""
    children: dict[int, list[int]] = {}
    times: dict[int, tuple[int, ...]] = {}
    for folder in _PROC.glob("[0-9]*"):
        with suppress(OSError):
            fields = _fields(folder)
            children.setdefault(int(fields[1]), []).append(int(folder.name))
            times[int(folder.name)] = tuple(int(field) for field in fields[11:15])
    ticks, waiting = 0, [pid]
    while waiting:
        process_id = waiting.pop()
        ticks += sum(times.get(process_id, ()))
        waiting += children.get(process_id, [])
    return ticks / _TICKS


def children(pid: int) -> list[int]:
    """The processes that a process started and that run."""
    of_all: list[int] = []
    for folder in _PROC.glob("[0-9]*"):
        with suppress(OSError):
            if int(_fields(folder)[1]) == pid:
                of_all.append(int(folder.name))
    return of_all


def thread_seconds(folder: Path) -> float:
    """User and system time of a thread by its schedstat: ``/proc/PID``, its first one, or ``/proc/PID/task/ID``."""
    return int((folder / "schedstat").read_text(encoding="utf-8").split()[0]) / 1e9


def ended_seconds(pid: int) -> float:
    """User and system time of the processes that a process started and that have ended."""
    return sum(map(int, _fields(_PROC / str(pid))[13:15])) / _TICKS


def _fields(folder: Path) -> list[str]:
    """What /proc says of a process, from its state on."""
    return (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


def usage(pid: int) -> Usage:
    """CPU time and memory of a process, start-up included."""
    status = (_PROC / str(pid) / "status").read_text(encoding="utf-8")
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    return Usage(cpu_seconds(pid), int(peak[1]) / 1024 if peak else float("nan"))


class _OtherRelay(RelayDaemon):
    """Any program that honours the contract: its environment variables, and ``/readyz``."""

    def __init__(self, command: str, settings: Mapping[str, str]) -> None:
        super().__init__(dict(os.environ) | dict(settings))
        self._words = shlex.split(command)

    def _command(self) -> list[str | Path]:
        return list(self._words)

    def _environment(self) -> Mapping[str, str]:
        """Without the path of this checkout: another version of this relay would import the package from here."""
        environment = dict(super()._environment())
        environment.pop("PYTHONPATH", None)
        return environment


class RelayProcess:
    """Starts a relay with an environment, and stops it."""

    def __init__(self, env: Mapping[str, str], command: str = "") -> None:
        """``command`` starts another relay than ours."""
        self._daemon = _OtherRelay(command, env) if command else RelayDaemon(env)

    def __enter__(self) -> Self:
        self._daemon.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._daemon.close()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._daemon.pid

    @property
    def url(self) -> str:
        """Where its HTTP side listens."""
        return self._daemon.url

    def usage(self) -> Usage:
        """CPU time and memory, start-up included."""
        return usage(self.pid)

    def log_tail(self) -> str:
        """The end of its log."""
        return self._daemon.log_tail()
