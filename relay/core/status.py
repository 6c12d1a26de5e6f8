"""The relay's state as its HTTP endpoints show it: the port between the server and the other rooms.

Everything is answered from memory, in the event loop's thread, at once; only ``stats`` may wait for the database,
and then not for long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from relay.core.destination import DestinationCondition
from relay.core.storage import Backlog
from relay.core.telemetry import RelayState


@dataclass(frozen=True, slots=True)
class Health:
    """Whether the process and its loops run."""

    problem: str = ""
    """The loops that have ended; empty if all run."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether storage and broker answer, by the last probes."""

    storage_problem: str = ""
    """Why the database is unavailable; empty when it is available."""
    broker_problem: str = ""
    """Why the broker is unavailable; empty when it is available."""
    degraded: Mapping[str, str] = field(default_factory=dict)
    """Other parts that fail without stopping the relay: the reason by name, empty for a part that works."""
    storage_refuses: bool = False
    """Whether the database answers and refuses the work, for example because its table was dropped."""
    pauses: Sequence[str] = ()
    """What an operator has paused, one sentence each: no reason not to be ready."""

    @property
    def ready(self) -> bool:
        """Whether events can be delivered."""
        return not (self.storage_problem or self.broker_problem)


@dataclass(frozen=True, slots=True)
class Stats:
    """The backlog and this relay's part in it."""

    relay_id: str
    state: RelayState
    in_flight: int
    """Events claimed and not settled."""
    backlog: Backlog
    sample_age: float
    """Seconds since the backlog was read."""
    pauses: Sequence[str] = ()
    """What an operator has paused, one sentence each."""
    destinations: Mapping[str, DestinationCondition] = field(default_factory=dict)
    """By name."""


class Exposition(NamedTuple):
    """Metrics in an exposition format."""

    body: bytes
    content_type: str


class StatusView(Protocol):
    """The state that the server shows. Never raises."""

    def health(self) -> Health:
        """Whether the process and its loops run."""

    def readiness(self) -> Readiness:
        """Whether storage and broker answered their last probes."""

    async def stats(self) -> Stats | None:
        """The backlog, read again where that is cheap, else as last read; None before the first read."""

    def metrics(self, accept: str) -> Exposition:
        """All metrics in the format that the ``Accept`` header asks for."""
