"""Which driver a run belongs to, and whether that driver still lives, as far as this machine can tell.

A driver is known by machine (host name, boot, process namespace) and by its JVM's process id and start time. Only for
a driver of one's own machine can it be said that it is dead; about others the time since their last sign of life has to
decide.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

_PROC = Path("/proc")


def this_driver() -> str:
    """The driver in whose name this process works: the JVM that started it."""
    pid = _jvm()
    return f"{_machine()}/{pid}/{_started(pid) or 0}"


def is_dead(driver: str) -> bool:
    """Whether it ran on this machine and runs no more."""
    machine, _, process = driver.partition("/")
    pid, _, started = process.partition("/")
    if machine != _machine() or not pid.isdecimal() or not _PROC.is_dir():
        return False
    return _started(int(pid)) != started


def _machine() -> str:
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = (_PROC / "self/ns/pid").readlink()
    except OSError:
        return socket.gethostname()
    return f"{socket.gethostname()}:{boot}:{namespace}"


def _jvm() -> int:
    """Python workers are children of the JVM, or of a daemon of PySpark that is."""
    parent = os.getppid()
    try:
        command = (_PROC / str(parent) / "cmdline").read_bytes()
    except OSError:
        return parent
    return int(_stat(parent)[1]) if b"pyspark" in command and b"daemon" in command else parent


def _started(pid: int) -> str | None:
    """When the process began, in ticks since the machine's start; None when there is none, or only its remains."""
    try:
        stat = _stat(pid)
    except OSError:
        return None
    return None if stat[0] in ("Z", "X") else stat[19]


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on: the name before it may hold anything."""
    return (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
