"""A relay as a process whose CPU time and memory are read from /proc."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from relay.demo.daemon import RelayDaemon

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """What a process has used so far."""

    cpu_seconds: float
    """User and system time, all threads."""
    peak_mebibytes: float
    """The most resident memory it ever had."""


class RelayProcess:
    """Starts the daemon with the environment it is given, and stops it."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._daemon = RelayDaemon(env)

    def __enter__(self) -> Self:
        self._daemon.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._daemon.close()

    def usage(self) -> Usage:
        """CPU time and memory, start-up included."""
        folder = Path("/proc") / str(self._daemon.pid)
        fields = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        peak = re.search(r"VmHWM:\s+(\d+) kB", (folder / "status").read_text(encoding="utf-8"))
        cpu = (int(fields[11]) + int(fields[12])) / _TICKS
        return Usage(cpu, int(peak[1]) / 1024 if peak else float("nan"))

    def log_tail(self) -> str:
        """The end of its log."""
        return self._daemon.log_tail()
