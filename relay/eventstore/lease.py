"""The lease of one instance of a subscription: claims it, renews it, and stores the checkpoint under it.

Of a subscription that is consumed as a whole, one row holds the checkpoint and the lease of the active instance. Of one
that is consumed in parts, each active instance has such a row; ``relay.eventstore.groups`` describes them. Either way
the lease is also the fence: what an instance stores after it has lost the lease changes nothing and raises
``SubscriptionLost``.

A lease ends when the server's clock has passed it, or when a waiting instance has seen it unchanged for its length on
the clock of its own process, whichever comes first. So a server whose clock steps back does not stretch the lease of
an instance that was killed. A clock that steps forward ends leases early, which costs a hand-over and no event.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, LiteralString, NamedTuple
from uuid import UUID, uuid4

from relay.core.checkpoint import Checkpoint
from relay.core.errors import PositionsWentBack
from relay.eventstore.database import Connection, Database, Row, execute
from relay.eventstore.errors import SubscriptionDeleted, SubscriptionLost
from relay.eventstore.groups import SLOTS, WHOLE, Part, slot_positions, take_slots
from relay.eventstore.renewal import Renewal
from relay.eventstore.statements import EventStoreStatements

LAZILY: Final = "off"
"""synchronous_commit for a checkpoint alone: a lost one is a batch that is delivered again."""


@dataclass(frozen=True, slots=True)
class SubscriptionClaim:
    """What an instance that has become active reads."""

    stored: Checkpoint
    """The checkpoint as it is stored; of a part, the lowest one of its slots."""
    others: frozenset[Checkpoint] = frozenset()
    """In a group: those of the other slots."""
    slots: str | None = None
    """In a group: the position of each slot, as ``slot_positions`` writes it."""
    complete: bool = True
    """Whether the instance holds all slots of its part."""


class StoredLease(NamedTuple):
    """A lease that some instance holds or has held."""

    holder: UUID
    held_until: datetime
    length: float | None
    """Seconds; None where an instance of an earlier release holds it."""
    ended: bool
    """By the server's clock."""


class LeaseWatch:
    """Measures, on the clock of this process, how long leases have not been renewed."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._since: dict[tuple[UUID, datetime], float] = {}

    def unrenewed(self, leases: list[StoredLease]) -> list[StoredLease]:
        """Those of the leases that have been as they are for their length. Pass all leases, each time."""
        now = self._now()
        self._since = {lease[:2]: self._since.get(lease[:2], now) for lease in leases}
        return [lease for lease in leases if lease.length is not None and now - self._since[lease[:2]] > lease.length]


class SubscriptionLease:
    """The lease of one instance. Its methods raise ``StorageError`` for a database that does not answer or refuses."""

    def __init__(
        self, database: Database, statements: EventStoreStatements, name: str, part: Part, length: float
    ) -> None:
        self._database = database
        self._statements = statements
        self._name = name
        self._part = part
        self._length = length
        self._watch = LeaseWatch()
        self._ended: list[StoredLease] = []
        """Leases of others that were not renewed for their length."""
        self._in_group = False
        """Whether the subscription is consumed in parts, as of the last look."""
        self._is_member = False
        """Whether the lease is that of a member of a group."""
        self._next_holder = uuid4()
        self.holder = uuid4()
        """The id under which this instance holds the lease: another one after each loss, and each claim in a group."""

    async def exists(self) -> bool:
        """Whether there is such a subscription."""
        return bool(await self._run("subscriptions:look", {}))

    async def ensure(self, checkpoint: Checkpoint) -> None:
        """Create the subscription at a checkpoint, unless it exists."""
        await self._run("subscriptions:ensure", stored_form(checkpoint))

    async def claim(self) -> SubscriptionClaim | None:
        """Become active; None where other instances hold all leases. Raises SubscriptionDeleted."""
        if self._part == WHOLE and (claim := await self._claim_whole()):
            return claim
        # Its own lease is claimable too: it may have lost the connection after the claim, or the answer to the claim.
        if not await self._is_claimable({self.holder, self._next_holder}):
            return None
        return await (self._join() if self._in_group or self._part != WHOLE else self._claim_whole())

    async def _claim_whole(self) -> SubscriptionClaim | None:
        rows = await self._run("subscriptions:claim", self._claim_values())
        if not rows:
            return None
        self._is_member = False
        return SubscriptionClaim(_checkpoint(*rows[0]))

    async def _join(self) -> SubscriptionClaim | None:
        """Become a member of the group with all free slots of the part."""
        values = self._values(
            self._claim_values() | {"own": [self.holder, self._next_holder], "holder": self._next_holder}
        )
        doing = f"claim subscription {self._name}"
        slots = await self._database.transaction(
            doing, lambda connection: take_slots(connection, self._statements, values)
        )
        if not slots:
            return None
        self.holder, self._next_holder, self._is_member = self._next_holder, uuid4(), True
        positions = {slot: position for slot, (position, _) in slots.items()}
        checkpoints = {_checkpoint(*stored) for stored in slots.values()}
        lowest = min(checkpoints, key=lambda checkpoint: checkpoint.position)
        is_everything = len(slots) == SLOTS and len(set(positions.values())) == 1
        return SubscriptionClaim(
            lowest,
            frozenset(checkpoints - {lowest}),
            None if is_everything else slot_positions(positions),
            len(slots) == self._part.wanted_slots,
        )

    async def more(self) -> bool:
        """Whether slots of the part that others held have become free. Raises SubscriptionDeleted."""
        return await self._is_claimable(set())

    async def _is_claimable(self, own: set[UUID]) -> bool:
        """Whether a lease has ended, or is one of ``own``, or a slot has none."""
        rows = await self._run("subscriptions:look", {})
        if not rows:
            raise SubscriptionDeleted(f"subscription {self._name} was deleted; subscribe again to create it")
        self._in_group, *lease = rows[0]
        leases = await self._run("subscription_groups:leases", {}) if self._in_group else [lease]
        stored = [StoredLease(*row) for row in leases if row[0] is not None]
        others = [one for one in stored if one.holder not in {self.holder, self._next_holder}]
        self._ended = self._watch.unrenewed(others)
        return (
            len(stored) < len(leases)
            or bool(self._ended)
            or any(one.ended for one in others)
            or any(one.holder in own for one in stored)
        )

    async def renew(self) -> None:
        """Renew the lease; raises SubscriptionLost when this is not the active instance."""
        await self.renewal()(self._database)

    def renewal(self) -> Renewal:
        """Renews the lease as it is held now, over the connections of another thread too."""
        doing, text, values = f"renew subscription {self._name}", self._text("subscriptions:renew"), self._values({})

        async def renew(database: Database) -> None:
            if not await database.rows(doing, text, values):
                raise self.lost()

        return renew

    async def acknowledge(self, checkpoint: Checkpoint, read_from: int) -> None:
        """Store the checkpoint in the place of the one at ``read_from``. A crash of the server may forget it.

        Raises SubscriptionLost, and PositionsWentBack where another position is stored.
        """
        await self._database.run(
            f"acknowledge subscription {self._name}",
            lambda connection: self.store(connection, checkpoint, read_from, self.holder, LAZILY),
        )

    async def store(
        self,
        connection: Connection,
        checkpoint: Checkpoint,
        read_from: int,
        holder: UUID,
        synchronous_commit: str | None = None,
    ) -> None:
        """As ``acknowledge``, on that connection and durably, for a batch that was read as ``holder``."""
        more = {"read_from": read_from, "synchronous_commit": synchronous_commit, "holder": holder}
        values = self._values(stored_form(checkpoint) | more)
        if await execute(connection, self._text("subscriptions:acknowledge"), values):
            return
        rows = await execute(connection, self._text("subscriptions:position"), values)
        if not rows:
            raise self.lost()
        if rows[0][0] == checkpoint.position:
            raise SubscriptionLost(f"subscription {self._name}: this batch was acknowledged already; roll back")
        raise PositionsWentBack(read_from, rows[0][0])

    async def fence(self, connection: Connection, holder: UUID) -> None:
        """Lock the lease of ``holder`` in the transaction that is open on the connection, or raise SubscriptionLost."""
        if not await execute(connection, self._text("subscriptions:renew"), self._values({"holder": holder})):
            raise self.lost()

    async def position(self) -> int:
        """The committed checkpoint; raises SubscriptionLost when this is not the active instance."""
        rows = await self._run("subscriptions:position", {})
        if not rows:
            raise self.lost()
        position: int = rows[0][0]
        return position

    async def release(self) -> None:
        """Let the next instance become active at once."""
        # A consumer may close its subscription inside the transaction that acknowledged, whose lock this would wait
        # for; after the length of the lease it is over anyway.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._length):
                await self._run("subscription_groups:release" if self._is_member else "subscriptions:release", {})

    def lost(self) -> SubscriptionLost:
        """The error of an instance that is no longer the active one."""
        return SubscriptionLost(f"subscription {self._name}: this instance is no longer the active one; roll back")

    def _claim_values(self) -> dict[str, object]:
        return {
            "ended_holders": [lease.holder for lease in self._ended],
            "ended_until": [lease.held_until for lease in self._ended],
        }

    def _values(self, more: dict[str, object]) -> dict[str, object]:
        own = {"name": self._name, "holder": self.holder, "lease": self._length}
        return own | {"part": self._part.number, "parts": self._part.parts} | more

    def _text(self, path: str) -> LiteralString:
        return self._statements.text(f"eventstore/{path}", *(["part"] if self._is_member else []))

    async def _run(self, path: str, more: dict[str, object]) -> list[Row]:
        step = path.partition(":")[2]
        return await self._database.rows(f"{step} subscription {self._name}", self._text(path), self._values(more))


def stored_form(checkpoint: Checkpoint) -> dict[str, object]:
    """The columns of a checkpoint."""
    last_read = None if checkpoint.tenant_id is None else str(checkpoint)
    return {"position": checkpoint.position, "last_read": last_read}


def _checkpoint(position: int, last_read: str | None) -> Checkpoint:
    """A stored checkpoint. An earlier release has moved the position alone: then the event is that of another one."""
    checkpoint = Checkpoint.parse(last_read or "0")
    return checkpoint if checkpoint.position == position else Checkpoint(position)
