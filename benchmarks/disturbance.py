"""What else ran on the machine while a benchmark measured, from /proc: stolen processor time, and other processes.

A round that was disturbed is thrown away: what it measured is the machine's other work.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, Self

MOST_STEAL: Final = 0.05
"""Share of the machine's processor time."""
MOST_OTHERS: Final = 0.10
"""Cores."""

TICKS: Final = os.sysconf("SC_CLK_TCK")
"""Clock ticks a second: the unit of /proc."""
_PROC: Final = Path("/proc")
_STEAL: Final = 7  # place among the numbers of /proc/stat; what follows is counted in the first two as well
_KERNEL_THREADS: Final = 2  # their parent; they write for the benchmark's servers, too


@dataclass(frozen=True)
class Disturbance:
    """What took processor time from a round."""

    steal: float
    """Share of the machine's processor time that the hypervisor gave to others."""
    others: float
    """Cores that processes used which the benchmark did not start."""
    busiest: str
    """The name of the process that used most of it."""

    @property
    def excessive(self) -> bool:
        """Whether the round says too little about the relay."""
        return self.steal > MOST_STEAL or self.others > MOST_OTHERS

    def __str__(self) -> str:
        busiest = f", most of it {self.busiest}" if self.busiest else ""
        return f"steal {self.steal:.1%}, other processes {self.others:.1%} of a core{busiest}"


class Times(NamedTuple):
    """The processor time of one process so far, in clock ticks."""

    name: str
    own: int
    ended_children: int
    """Of children that have ended and were waited for."""


@dataclass(frozen=True)
class Sample:
    """The machine at one moment."""

    at: float
    total: int
    """Clock ticks of all cores, idle ones included."""
    steal: int
    others: dict[tuple[int, int], Times] = field(repr=False)
    """Processes that neither are the kernel's nor descend from this one, by id and start time."""

    @classmethod
    def now(cls) -> Self:
        """Read /proc."""
        numbers = [int(number) for number in (_PROC / "stat").read_text(encoding="utf-8").split("\n")[0].split()[1:]]
        return cls(time.monotonic(), sum(numbers[: _STEAL + 1]), numbers[_STEAL], _others())

    def since(self, before: Sample) -> Disturbance:
        """What happened between an earlier sample and this one."""
        seconds = max(self.at - before.at, 1 / TICKS)
        nothing = Times("", 0, 0)
        own = {one: times.own - before.others.get(one, nothing).own for one, times in self.others.items()}
        children = sum(
            times.ended_children - before.others.get(one, nothing).ended_children for one, times in self.others.items()
        )
        # A parent's count rises by all that its child has used, also by what it had used before.
        gone = sum(sum(times[1:]) for one, times in before.others.items() if one not in self.others)
        busiest = max(own, key=lambda one: own[one], default=None)
        used = sum(own.values()) + max(children - gone, 0)
        name = self.others[busiest].name if busiest and own[busiest] else ""
        steal = (self.steal - before.steal) / max(self.total - before.total, 1)
        return Disturbance(steal, used / TICKS / seconds, name)


def _others() -> dict[tuple[int, int], Times]:
    parents: dict[int, int] = {}
    processes: dict[tuple[int, int], Times] = {}
    for folder in _PROC.glob("[0-9]*"):
        with suppress(OSError):
            head, _, tail = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")
            fields = tail.split()
            own, ended = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
            parents[int(folder.name)] = int(fields[1])
            processes[int(folder.name), int(fields[19])] = Times(head.partition("(")[2], own, ended)
    excluded = {os.getpid(), _KERNEL_THREADS}
    return {one: times for one, times in processes.items() if not _ancestors(one[0], parents) & excluded}


def _ancestors(pid: int, parents: dict[int, int]) -> set[int]:
    """The process, and all that it descends from."""
    line: set[int] = set()
    while pid and pid not in line:
        line.add(pid)
        pid = parents.get(pid, 0)
    return line
