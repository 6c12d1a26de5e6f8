"""What is written under one fence: the lease that gives the fence, and a portion of a batch's verdicts."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from relay.core.event import EventId, Fence
from relay.core.ports import Settlement

if TYPE_CHECKING:
    from relay.engine.batch import Batch


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on events. Times are by the relay's clock."""

    fence: Fence
    expires_at: float
    renew_at: float
    refused: bool = False
    """The database refuses to renew it for one event, which is therefore renewed alone."""

    @classmethod
    def of(cls, fence: Fence, sent_at: float, seconds: float) -> Lease:
        """A claim's or renewal's, counted from before it was sent: so it never ends later than in the database."""
        return cls(fence, sent_at + seconds, sent_at + seconds / 3)


class Portion:
    """Verdicts of one batch under one fence, written together: being written, or set aside."""

    __slots__ = ("ambiguous", "batch", "due_at", "locked", "refusals", "settlement")

    def __init__(
        self, batch: Batch, settlement: Settlement, *, ambiguous: bool = False, refusals: int = 0, locked: int = 0
    ) -> None:
        self.batch = batch
        self.settlement = settlement
        self.ambiguous = ambiguous
        """A statement with these verdicts was sent and its reply lost: it may have been carried out."""
        self.refusals = refusals
        """How often the database refused this row when it was alone in a statement; 0 for what is not told apart."""
        self.locked = locked
        """How often in a row these rows were skipped because another session had them locked."""
        self.due_at = float("-inf")

    def __len__(self) -> int:
        return len(self.settlement)

    def part(self, event_ids: Collection[EventId]) -> Portion:
        """The verdicts on some of the events."""
        chosen = frozenset(event_ids)
        settlement = select(self.settlement, chosen.__contains__)
        return Portion(self.batch, settlement, ambiguous=self.ambiguous, locked=self.locked)


def select(settlement: Settlement, is_chosen: Callable[[EventId], bool]) -> Settlement:
    """The verdicts on some of the events."""
    return Settlement(
        settlement.fence,
        [event_id for event_id in settlement.delivered if is_chosen(event_id)],
        [entry for entry in settlement.retried if is_chosen(entry[0])],
        [entry for entry in settlement.buried if is_chosen(entry[0])],
        [event_id for event_id in settlement.released if is_chosen(event_id)],
        settlement.acknowledged,
    )
