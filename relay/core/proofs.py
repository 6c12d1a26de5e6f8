"""The ports of exactly once: a publisher that leaves or reads proofs, and what the engine does for it.

docs/design/exactly-once.md says how they work together. Nothing of it is used by a publisher without proofs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from relay.core.event import EventId, Fence, OutboxEvent
from relay.core.outcome import OutcomeSink
from relay.core.storage import Reaped


class LeasedRow(NamedTuple):
    """A row under one fence."""

    holder: str
    """``locked_by``; empty where the row names none."""
    fence: Fence
    event_id: EventId


Proven = Mapping[LeasedRow, str]
"""The rows with a committed proof: the destination that it speaks for, of several; empty where it speaks for all."""


class ExpiredLeases(NamedTuple):
    """Some of the leases that have expired."""

    rows: Sequence[LeasedRow]
    seen_at: datetime | None
    """The database's time of the look; None without rows."""


class AskedStorage(Protocol):
    """What storage can do besides ``OutboxStorage`` where leases are asked about before they are reclaimed."""

    async def expired(self, limit: int, excluded: Sequence[EventId] = (), *, first: bool) -> ExpiredLeases:
        """The next expired leases of a round over all of them, which the ``first`` call begins; no rows: its end."""

    async def own_leases(self) -> list[LeasedRow]:
        """What is held under this relay's RELAY_ID: before its first claim that is what its former life has left."""

    async def reap_exactly(
        self, rows: Sequence[LeasedRow], acknowledged: Mapping[EventId, str], *, former: bool = False
    ) -> Reaped:
        """Reclaim the leases of these rows under these fences; without rows what ``expired`` cannot show.

        ``acknowledged``: by event the destination of several that has it, which is written down with it. ``former``:
        they are of this relay's former life, and have not expired.
        """


class Begun(NamedTuple):
    """Events of one claim that may be published in one transaction, under one fence."""

    fence: Fence
    expires_at: float
    """When the lease runs out, by ``steady_seconds``."""
    events: Sequence[OutboxEvent]


class HeldLeases(Protocol):
    """The leases of what a publisher was handed. To be called in the event loop's thread."""

    async def begin(
        self,
        events: Sequence[OutboxEvent],
        since: float,
        seconds: float,
        is_held: Callable[[OutboxEvent], bool] = lambda _: True,
    ) -> list[Begun]:
        """A transaction with these events begins now: until ``end`` they are neither renewed nor released.

        Those that are not held any more at that moment are left out, without a trace. Returns those whose claim or
        renewal was sent at ``since`` (``steady_seconds``) or later, and whose lease lasts for ``seconds`` more. The
        others, and those that are lost meanwhile, must not be published.
        """

    def end(self, event_ids: Iterable[EventId]) -> None:
        """A transaction that began with these events will never be committed."""


class ProofReader(ABC):
    """A publisher whose broker may have proofs that relays of the table have left."""

    @abstractmethod
    async def keeps_proofs(self) -> bool:
        """Whether there may be proofs: without them nothing is asked. Raises BrokerUnreachable."""

    @abstractmethod
    async def end_holder(self, holder: str) -> None:
        """Decide every transaction of this holder, and end its right to commit what it has claimed until now.

        Raises BrokerUnreachable.
        """

    @abstractmethod
    async def proven(self, rows: Sequence[LeasedRow]) -> Proven:
        """Those with a committed proof. Their holders were ended before. Raises BrokerUnreachable."""


class Proofs(ProofReader):
    """A publisher that publishes in transactions, each with a proof; offered to the engine beside ``Publisher``."""

    @abstractmethod
    async def publish_held(self, events: Sequence[OutboxEvent], sink: OutcomeSink, holding: HeldLeases) -> None:
        """As ``Publisher.publish``. May be called again before the outcomes of earlier calls are known.

        An event is Acknowledged once its transaction is committed. Any other outcome comes after ``holding.end``, and
        only where that transaction will never be committed. ``abandon`` leaves out what is being committed: its outcome
        comes when it is known.
        """

    @abstractmethod
    async def former_ended(self) -> bool:
        """Whether nothing can be committed any more that was claimed under this RELAY_ID before the start."""

    @abstractmethod
    def beside(self, relays: Sequence[str] | None) -> None:
        """These living relays of the table leave no proofs. While there are any, this one leaves none either.

        None: which relays there are is not known.
        """
