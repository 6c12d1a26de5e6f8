"""Consumer groups: one subscription that several instances consume in parts.

``subscribe(name, part=(i, n))`` consumes part ``i`` of ``n``. The design, from the outside in:

- Every stream belongs to one of 256 *slots*, by a hash of its tenant and its id. Part ``i`` of ``n`` wants the slots
  whose number modulo ``n`` is ``i``. For any ``n`` these sets are disjoint and together are all slots.
- Each slot has a position of its own: every event of its streams up to there was acknowledged. What an instance reads
  is, of each slot that it holds, the events after the slot's position. So who holds a slot may change at any time, to
  an instance with any other ``n``: nothing is skipped, and only what was not acknowledged is delivered again.
- A slot has one holder or none. Its events are delivered by that one alone, so the order of a stream is kept.
- An instance that holds slots is a *member*: a row with its lease and with the position that it has acknowledged, which
  counts for all its slots. The position of a slot is the higher one of its own and its member's. So acknowledging
  writes one row whatever the number of slots; when a member ends, its position is stored in its slots.
- A member takes all free slots that it wants, under a lock on the subscription's row, with a new id. Its slots do not
  change while it is a member: where others become free later, it ends and takes again, between two batches. So an
  acknowledgement never moves a slot that its batch did not read.

What follows from it:

- *Another ``n``.* Instances with different ``n`` may run at once, during a deployment or by mistake. Each slot stays
  with the member that took it first, and is consumed; the instances with the other ``n`` take what becomes free. When
  the old ones have ended, the new ones have all. An instance without ``part`` is part 0 of 1.
- *A part taken twice.* The second instance waits, and takes over when the first one ends or does not renew its lease.
- *A part that no instance consumes* waits with its position, and shows in the lag of its slots.
- *The first member* of a subscription that was consumed as a whole waits until its instance has ended; then every slot
  begins at its position. A reset makes it whole again, at the new position, until the next member comes.

Members of other parts do not wait for each other, except while slots are taken: a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from relay.core.errors import ConfigError
from relay.eventstore.database import Connection, execute
from relay.eventstore.errors import SubscriptionDeleted
from relay.eventstore.model import LARGEST_POSITION
from relay.eventstore.statements import EventStoreStatements

SLOTS: Final = 256
"""Stored positions depend on it: it never changes."""


class Part(NamedTuple):
    """One part of a subscription."""

    number: int
    """From 0."""
    parts: int

    @classmethod
    def of(cls, part: object) -> Part:
        """The part of a caller's argument, None being the whole. Raises ConfigError for an impossible one."""
        match part:
            case None:
                return WHOLE
            case (int(number), int(parts)) if 0 <= number < parts <= SLOTS:
                return cls(number, parts)
        raise ConfigError(f"part: {part!r}; pass (i, n) with i from 0 to n - 1 and n up to {SLOTS}")

    @property
    def wanted_slots(self) -> int:
        """The number of its slots."""
        return len(range(self.number, SLOTS, self.parts))

    def __str__(self) -> str:
        return f"{self.number}/{self.parts}"


WHOLE: Final = Part(0, 1)


def slot_positions(positions: Mapping[int, int]) -> str:
    """The array that a page's statement takes: the position of each slot, and for others one that no event is after."""
    return "{" + ",".join(str(positions.get(slot, LARGEST_POSITION)) for slot in range(SLOTS)) + "}"


async def take_slots(
    connection: Connection, statements: EventStoreStatements, values: Mapping[str, object]
) -> dict[int, tuple[int, str | None]]:
    """The slots that the instance now holds, with their positions and what was read there; none where others hold them.

    In a transaction.

    Raises SubscriptionDeleted.
    """
    rows = await execute(connection, statements.text("eventstore/subscription_groups:lock"), values)
    if not rows:
        raise SubscriptionDeleted(f"subscription {values['name']} was deleted; subscribe again to create it")
    is_grouped, is_free = rows[0]
    if not is_grouped:
        if not is_free:
            return {}
        await execute(connection, statements.text("eventstore/subscription_groups:create_slots"), values)
    await execute(connection, statements.text("eventstore/subscription_groups:free_slots"), values)
    rows = await execute(connection, statements.text("eventstore/subscription_groups:take_slots"), values)
    return {slot: (position, last_read) for slot, position, last_read in rows}
