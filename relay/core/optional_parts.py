"""The engine's ports to the optional parts of the outbox, one each: a relay delivers without any of them.

``ReplayRecord`` is the delivery log's recorder's. All methods are called from one event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from relay.core.event import EventId
from relay.core.pause import Pause


class WakeUps(Protocol):
    """Says when rows may have been inserted, so that the relay need not wait for its next poll."""

    @property
    def problem(self) -> str:
        """Why none come, and what to do; empty while they may."""

    async def listen(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` whenever there may be something to claim; ends by a StorageError only."""


class Pauses(Protocol):
    """What operators have paused. The storage that belongs to it obeys."""

    async def read(self) -> Sequence[Pause]:
        """The pauses in force; the storage's claims that begin from now on leave their events out.

        Empty without the extension. Raises StorageError; then what was read before stays in force.
        """


class Heartbeat(NamedTuple):
    """What a relay says of itself every few seconds."""

    state: str
    """``active``, ``paused`` or ``error``."""
    reason: str
    """Why it is not active, which destinations do not flow, and which rows the database refuses."""
    delivered_per_second: float
    """Over the last minute."""
    failed_per_second: float
    in_flight: int
    pauses: int
    """Pauses that it obeys."""


class Fleet(Protocol):
    """This relay among the relays of the table. Every method raises StorageError, and does nothing without the list."""

    @property
    def without_proofs(self) -> Sequence[str] | None:
        """The other living relays that leave no proofs, by the last ``join`` or ``beat``; None without the list."""

    async def join(self) -> None:
        """Raises ConfigError when a living relay of the table delivers to another destination."""

    async def beat(self, heartbeat: Heartbeat) -> Sequence[str]:
        """Write a heartbeat; returns how other living relays differ from this one, one sentence each."""

    async def leave(self) -> None:
        """This relay stops."""


class TypeCounts(NamedTuple):
    """What a relay decided about the events of one type; of an empty type: about those of all others."""

    event_type: str
    delivered: int
    failed: int
    """Attempts."""
    dead: int


class MinuteSeries(Protocol):
    """What the relays of the table did, minute by minute."""

    @property
    def most_types(self) -> int:
        """Event types with counts of their own in one ``add``."""

    async def add(self, counts: Sequence[TypeCounts], lag: float, gathered: float) -> float | None:
        """Add what was counted in the last ``gathered`` seconds, and the longest lag of that time.

        Returns the seconds until the next minute begins; None without the extension. Raises StorageError.
        """


class ReplayRecord(Protocol):
    """The events that operators replayed."""

    async def first_replays(self, event_ids: Sequence[EventId]) -> Mapping[EventId, datetime]:
        """When each of these events was replayed for the first time, by the database's clock.

        What was never replayed is left out, and so is all of which nothing can be learned. Never raises.
        """

    async def close(self) -> None:
        """Let go of what was opened; never raises."""


class OptionalParts(NamedTuple):
    """The extensions of the table, one port each; None for what the relay does not use."""

    wake_ups: WakeUps | None = None
    pauses: Pauses | None = None
    fleet: Fleet | None = None
    series: MinuteSeries | None = None
