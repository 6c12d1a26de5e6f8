"""The engine's port to the outbox table: claim, settle, renew, reap, and what is read beside that.

All methods are called from one event loop and never concurrently for the same claim, unless their text says
otherwise. An adapter raises errors of ``relay.core.errors`` only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from relay.core.errors import StorageError
from relay.core.event import Claim, EventId, Fence, OutboxEvent
from relay.core.places import Flow

READING_SHARE: Final = 0.025
"""Most of the time that each reading beside delivery takes which grows with what vacuum has not removed: counting the
backlog, and a walk over all leases.

While events come one by one, this and looking behind (``relay.outbox.waiting_rows``) are what a held horizon costs
the server.
"""


@dataclass(slots=True)
class Settlement:
    """The verdicts on events of one claim, written together. Each event id occurs once at most."""

    fence: Fence
    delivered: list[EventId] = field(default_factory=list)
    retried: list[tuple[EventId, str, float]] = field(default_factory=list)
    """Event id, error text (any: the storage replaces what its column cannot hold), delay in seconds."""
    buried: list[tuple[EventId, str]] = field(default_factory=list)
    released: list[EventId] = field(default_factory=list)
    acknowledged: dict[EventId, str] = field(default_factory=dict)
    """``acknowledged_by`` of events that are not delivered, and that some of their destinations have acknowledged."""
    holder: str | None = None
    """Whose fence it is; None for this relay's own."""

    def keep_names(self, *events: OutboxEvent) -> None:
        """Write down what is known of these events in ``acknowledged_by``."""
        self.acknowledged |= {one.event_id: one.acknowledged_by for one in events if one.acknowledged_by is not None}

    def put_before(self, earlier: Settlement) -> None:
        """Write these verdicts, too, before its own."""
        self.delivered[:0] = earlier.delivered
        self.retried[:0] = earlier.retried
        self.buried[:0] = earlier.buried
        self.released[:0] = earlier.released
        self.acknowledged |= earlier.acknowledged

    def where(self, is_chosen: Callable[[EventId], bool]) -> Settlement:
        """The verdicts on some of the events."""
        return Settlement(
            self.fence,
            [event_id for event_id in self.delivered if is_chosen(event_id)],
            [entry for entry in self.retried if is_chosen(entry[0])],
            [entry for entry in self.buried if is_chosen(entry[0])],
            [event_id for event_id in self.released if is_chosen(event_id)],
            self.acknowledged,
            self.holder,
        )

    def event_ids(self) -> list[EventId]:
        """Every event there is a verdict on."""
        failed = (entry[0] for entries in (self.retried, self.buried) for entry in entries)
        return [*self.delivered, *failed, *self.released]

    def __len__(self) -> int:
        return len(self.delivered) + len(self.retried) + len(self.buried) + len(self.released)


class Settled(NamedTuple):
    """Number of rows of each kind that were written and committed under a valid fence, and what another session has."""

    delivered: int = 0
    retried: int = 0
    buried: int = 0
    released: int = 0
    locked: frozenset[EventId] = frozenset()
    """Still held under the fence and not written: another session has locked these rows."""
    kept: frozenset[EventId] = frozenset()
    """Still held under the fence, not written and not locked: a BEFORE trigger or a rule keeps them as they are."""

    @property
    def total(self) -> int:
        """Total number of rows written."""
        return self.delivered + self.retried + self.buried + self.released


class Renewal(NamedTuple):
    """The new fence, and which of the events are held under it. The lease of all others but ``unchanged`` is lost."""

    fence: Fence
    held: frozenset[EventId]
    unchanged: frozenset[EventId] = frozenset()
    """Held under the fence before, not renewed: another session has locked the rows, or the database rolled back."""


class Reaped(NamedTuple):
    """Expired leases that one statement reclaimed: set to PENDING, and dead."""

    retried: int
    buried: int
    kept: int = 0
    """Leases that it chose, and that a BEFORE trigger or a rule kept as they are."""
    kept_row: EventId | None = None
    """Which one that is, after a statement with a limit of 1."""
    refused: tuple[StorageError, ...] = ()
    """Why the database refused single leases, each with its row, where they are too many to be left out by ids."""
    more: bool = False
    """Whether the next call goes on at once, however few were reclaimed."""

    @property
    def total(self) -> int:
        """How many were reclaimed."""
        return self.retried + self.buried


class Backlog(NamedTuple):
    """GetStats: the backlog at one moment, by the database's clock. Ages are seconds, 0.0 when there is none."""

    pending_new: int
    """PENDING with no failed attempt."""
    pending_retrying: int
    """PENDING with failed attempts."""
    oldest_age: float
    """Now - min(created_at) of PENDING."""
    oldest_due_age: float
    """Now - min(available_at) of the PENDING rows that are due: the lag to alert on."""
    dead: int

    def answer(self) -> dict[str, float]:
        """The figures by their names in ``/stats`` and ``relay-cli stats``."""
        return {
            "pending_count": self.pending_new,
            "retrying_count": self.pending_retrying,
            "oldest_age_sec": round(self.oldest_age, 3),
            "oldest_due_age_sec": round(self.oldest_due_age, 3),
            "dead_count": self.dead,
        }


class Upkeep(NamedTuple):
    """How far behind the table's upkeep is; seconds."""

    oldest_delivered_age: float | None
    """Since the oldest DELIVERED row was delivered, 0.0 when there is none: older than retained, prune does not run.
    None when it was not read in time."""
    horizon_held: float
    """For which vacuum could not remove dead rows, 0.0 when it can."""
    ahead: Mapping[str, int] | None = None
    """Rows whose time is ahead of the database's clock, by column; None when they were not read in time."""


class Rest(NamedTuple):
    """What follows a look for rows that claims have gone past."""

    seconds: float
    """Until the next look."""
    claimable: bool
    """Whether this one found something to claim."""


class OutboxStorage(Protocol):
    """The outbox table.

    Every method raises ``StorageUnavailable`` when the database does not answer (whether the statement took effect is
    unknown), ``StorageBusy`` when it was rolled back and may be repeated, ``SchemaError`` for a table that is missing
    or not granted. ``claim``, ``settle`` and the housekeeping methods may run at the same time as one another.
    """

    async def open(self) -> None:
        """Connect and look at the table. Safe to repeat after a failure."""

    async def close(self) -> None:
        """Close every connection; never raises, never waits for the database longer than a second."""

    async def claim(
        self,
        limit: int,
        max_bytes: int,
        excluded: Sequence[EventId] = (),
        without: Sequence[str] = (),
        *,
        control: bool = False,
    ) -> Claim:
        """Lease up to ``limit`` due rows, oldest first, of ``max_bytes`` in sum (one larger row alone).

        Rows in ``excluded`` are left out; so are, but in order per key, rows for the destinations in ``without``.
        When the database refuses a claim with a limit of 1, the error's ``event_id`` names the row, where known.

        A ``control`` is one row from elsewhere in the queue (the newest, and others; of distinct keys), where the first
        of up to 20 goes through; each call tries others. It brings nothing where all of them fail.

        A row whose lease expired and that has one attempt left is claimed alone: it may be what kills its relays.
        A crash of the database may lose a claim until a verdict of it or a later write is committed: its rows are
        PENDING again, and nothing written under its fence takes effect.
        """

    def leave_out(self, flows: Sequence[Flow], in_part: Sequence[Flow] = ()) -> None:
        """Leave these event types, or parts of them, out of the claims that are sent from now on, until the next call.

        Of those ``in_part`` only what some destinations have acknowledged, where the storage can tell; else all.

        In order per key it keeps everything behind it in its key from being claimed. Such events stay, count as late,
        and cost other claims nothing, however many there are.
        """

    def pass_over(self, event_id: EventId) -> None:
        """Go past this row, which the last claim's error named: claims begin behind it from now on.

        It is tried again beside them, now and then, in groups of rows, and ``Claim.refused`` says how that ended. For
        rows too many to be left out by their ids.
        """

    async def settle(self, settlements: Sequence[Settlement]) -> list[Settled]:
        """Write verdicts, fenced; all of them commit together, and durably, before this returns.

        A row that another session has locked is skipped and reported; nothing waits for it.
        """

    async def held(self, settlements: Sequence[Settlement]) -> list[frozenset[EventId]]:
        """Which events of each settlement are still held under its fence: after a reply that was lost."""

    async def renew(self, fence: Fence, event_ids: Sequence[EventId]) -> Renewal:
        """Prolong leases to a full LEASE_TIMEOUT from now; rows that another session has locked keep theirs.

        After a lost reply the current fence is read back before this returns.
        """

    async def reap(self, limit: int, excluded: Sequence[EventId] = ()) -> Reaped:
        """Reclaim up to ``limit`` expired leases, each as a failed attempt; for ``excluded`` see ``claim``."""

    async def look(self) -> Rest:
        """Look for rows that claims have gone past, a small part of the time; called again after the rest.

        Claims do not begin at the oldest row where that would be slow. What appears before the place where they begin
        is found by this.
        """

    async def backlog(self) -> Backlog:
        """Count and age what waits (may be slow on a huge backlog)."""

    async def oldest_due_age(self) -> float:
        """The lag alone; cheap on any table."""

    async def upkeep(self) -> Upkeep:
        """How far prune and vacuum are behind (may be slow where vacuum is)."""

    async def ping(self) -> None:
        """Raise unless the database answers and takes writes."""
