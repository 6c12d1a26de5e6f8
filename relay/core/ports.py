"""The engine's ports to storage and broker, as narrow protocols.

All methods are called from one event loop and never concurrently for the same claim, unless their text says
otherwise. An adapter raises errors of ``relay.core.errors`` only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from relay.core.destination import WatchedDestination
from relay.core.errors import StorageError
from relay.core.event import Claim, EventId, Fence, OutboxEvent
from relay.core.outcome import OutcomeSink
from relay.core.places import Flow
from relay.core.upkeep import Upkeep

if TYPE_CHECKING:
    from relay.core.pause import Pause
from relay.core.series import MinuteSeries


@dataclass(slots=True)
class Settlement:
    """The verdicts on events of one claim, written together. Each event id occurs once at most."""

    fence: Fence
    delivered: list[EventId] = field(default_factory=list)
    retried: list[tuple[EventId, str, float]] = field(default_factory=list)
    """Event id, error text, delay in seconds."""
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


class OptionalParts(NamedTuple):
    """The extensions of the table, one port each; None for what the relay does not use."""

    wake_ups: WakeUps | None = None
    pauses: Pauses | None = None
    fleet: Fleet | None = None
    series: MinuteSeries | None = None


NO_MEMBERS: Final[Mapping[str, WatchedDestination]] = MappingProxyType({})


class Publisher(Protocol):
    """A broker's client. ``name`` is its PUBLISHER_TYPE.

    One whose destination is one thing derives from ``SingleDestination``.
    """

    name: str

    @property
    def blocked(self) -> str:
        """Why the broker takes nothing although it is connected, where it says so; empty while it takes events."""

    @property
    def members(self) -> Mapping[str, WatchedDestination]:
        """By name, the destinations behind it that it watches; empty where the engine watches it as one."""

    @property
    def keeps_runs(self) -> bool:
        """Whether it may be handed runs: several events of one key and one destination in one ``publish``, in order.

        It promises that the broker stores no event of a run before each earlier one of that run is stored, whatever
        fails, is cut or is killed meanwhile. Once an event of a run has failed, those behind it that the broker does
        not acknowledge are ``Withheld``; when that is reported, the client holds none of them.
        """

    async def open(self) -> None:
        """Make the client. Raises ``ConfigError`` for what can never work; an absent broker is no error."""

    async def publish(self, events: Sequence[OutboxEvent], sink: OutcomeSink) -> None:
        """Offer every event, in order, and return once the client holds them all (back-pressure).

        Each event is resolved exactly once through ``sink``, in the loop's thread, maybe before this returns, as
        soon as its own answer has arrived. Raises nothing that an outcome can express. Calls do not overlap.
        """

    async def probe(self, timeout: float) -> None:
        """Ask the broker for a sign of life, at most ``timeout`` seconds.

        Raises ``BrokerUnreachable`` with the reason (also for a refused login or TLS handshake). May run at the
        same time as ``publish``.
        """

    def destination_of(self, event: OutboxEvent) -> str:
        """The name of what this event needs, and what can fail on its own: one server of several. Empty for all of it.

        Events of one name fail together, and its state is shown under that name, which holds no secret. The publisher
        asks no server for it, and need not be open. The name of an event may change once the servers have said more
        about themselves: where a cluster keeps what, for example.
        """

    async def probe_destination(self, destination: str, timeout: float) -> None:
        """As ``probe``, of one destination by the name that ``destination_of`` gives."""

    def take_back(self, reason: str) -> None:
        """Resolve as ``Withheld(reason)`` what is held and not on its way: a stop would cut it off."""

    async def abandon(self, reason: str) -> None:
        """Forget everything unanswered: on return the client holds none of it and will send none of it, and every
        event of it has been resolved as ``Unreachable(reason)``. The publisher stays usable.
        """

    async def close(self) -> None:
        """Abandon what is left and close the connections, within two seconds; never raises."""

    def twin(self) -> Publisher:
        """A new publisher to the same broker, with connections of its own; not open yet.

        Suspects are offered over it, so that a connection that is cut because of one carries no other event. A
        publisher that never reports ``ConnectionCut`` may return itself.
        """


class SingleDestination:
    """The part of a ``Publisher`` about destinations, for one whose destination is one thing."""

    members = NO_MEMBERS

    def take_back(self, reason: str) -> None:
        """See ``Publisher``; for one whose client sends at once."""

    @property
    def blocked(self) -> str:
        """See ``Publisher``; for a broker that never says so."""
        return ""

    def destination_of(self, event: OutboxEvent) -> str:  # noqa: ARG002 -- the same for every event
        """See ``Publisher``."""
        return ""

    async def probe_destination(self: Publisher, destination: str, timeout: float) -> None:  # noqa: ARG002 -- likewise
        """See ``Publisher``."""
        await self.probe(timeout)
