"""The identity of a driver, and whether a driver of this machine is dead.

A driver is identified by its machine (host name, boot, process namespace) and by its JVM's process id and start time.
Of a driver on another machine only the time since its last sign of life is known.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

_PROC = Path("/proc")


def this_driver() -> str:
    """The driver of this process: the JVM that started it."""
    pid = _jvm()
    return f"{_machine()}/{pid}/{_start_time(pid) or 0}"


def is_dead(driver: str) -> bool:
    """Whether the driver ran on this machine and has ended."""
    machine, _, process = driver.partition("/")
    pid, _, start = process.partition("/")
    if machine != _machine() or not pid.isdecimal() or not _PROC.is_dir():
        return False
    return _start_time(int(pid)) != start


def _machine() -> str:
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = (_PROC / "self/ns/pid").readlink()
    except OSError:
        return socket.gethostname()
    return f"{socket.gethostname()}:{boot}:{namespace}"


def _jvm() -> int:
    """The JVM's process id. Python workers are children of the JVM, or of PySpark's daemon, which is."""
    parent = os.getppid()
    try:
        command = (_PROC / str(parent) / "cmdline").read_bytes()
    except OSError:
        return parent
    return int(_stat(parent)[1]) if b"pyspark" in command and b"daemon" in command else parent


def _start_time(pid: int) -> str | None:
    """The process's start, in ticks since the machine's; None for a process that has ended, a zombie included."""
    try:
        stat = _stat(pid)
    except OSError:
        return None
    return None if stat[0] in ("Z", "X") else stat[19]


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on: the name before it may contain any character."""
    return (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
