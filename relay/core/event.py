"""The outbox event, and the terms of this project.

Glossary (the field's standard terms, used the same way everywhere):

- *event*: one row of the outbox table; *message*: what the broker gets.
- *claim*: take due PENDING rows and lock them for this relay (PENDING -> DELIVERING).
- *lease*: the right to work on a claimed row until LEASE_TIMEOUT after ``locked_at``.
- *fence*: ``locked_by`` and the exact ``locked_at`` of one claim or renewal; only its holder may settle.
- *renew*: extend a lease; *reap*: reclaim an expired lease (it counts as a failed attempt).
- *settle*: write an outcome back: DELIVERED, PENDING with backoff, or DEAD.
- *release*: return a row unchanged (PENDING, attempts as before).
- *backoff*: the delay before the next attempt; *dead letter*: a row in DEAD.
- *gate*: open while the broker answers; closed, nothing is claimed.
- *lag*: the age of the oldest row that is due.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple, NewType

if TYPE_CHECKING:
    from datetime import datetime

    from relay.core.errors import StorageError

EventId = NewType("EventId", str)
"""The canonical text of the row's ``event_id`` UUID (lower case, with hyphens)."""

Fence = NewType("Fence", "datetime")
"""The exact ``locked_at`` (microseconds, with time zone) that a claim or renewal returned."""


LEASE_EXPIRED: Final = "LEASE_EXPIRED"
"""The code in ``last_error`` of an event whose lease was reaped."""


class Status(StrEnum):
    """The four values of the ``status`` column (docs/reference/conformance.md#the-table)."""

    PENDING = "PENDING"
    DELIVERING = "DELIVERING"
    DELIVERED = "DELIVERED"
    DEAD = "DEAD"


class OutboxEvent(NamedTuple):
    """A claimed row, as far as publishing needs it.

    A named tuple because a row becomes one without a single attribute assignment; at tens of thousands of
    events a second that is a measurable part of the cost. The field order is the column order of
    ``sql/outbox/claim.sql``.
    """

    event_id: EventId
    event_type: str
    """Destination: topic, subject or stream."""
    partition_key: str | None
    payload: bytes
    """Opaque, never modified."""
    headers: str
    """PostgreSQL's own text of the JSONB column; ``relay.core.headers`` turns it into names and values."""
    attempts: int
    """Failed attempts before this one."""
    age: float
    """Seconds from ``created_at`` to the claim, by the database's clock."""
    last_code: str | None = None
    """The code of the last failed attempt: what ``last_error`` begins with, up to the first colon."""
    created_at: float = math.inf
    """``created_at`` in seconds since 1970, exact to the microsecond; infinite where the row's is."""
    acknowledged_by: str | None = None
    """The destinations of several that have acknowledged it, by name, separated by commas; None for all other events.

    A publisher sends it to the others alone, and gives a failed event back with what is known by then.
    """

    @property
    def size(self) -> int:
        """See ``size_of``."""
        return size_of((self,))

    @property
    def copy_id(self) -> str:
        """The identity of the message: the event's id, and of a copy for one of several destinations more than that.

        A broker that drops repeats by an id would drop the second copy where two destinations lead to one place.
        """
        return self.event_id

    @property
    def proof_for(self) -> str:
        """The destination that a proof of this message speaks for; empty where it speaks for the event."""
        return ""

    @property
    def announced_type(self) -> str:
        """The row's own ``event_type``, also in a copy that a route has named after its destination."""
        return self.event_type


class RoutedEvent(OutboxEvent):
    """A copy of an event whose ``event_type`` is the name of its destination, as publishers take it from there."""

    row_type = ""
    copy_for = ""
    """The destination that it is for, of several for the event; empty with one."""
    in_part = False
    """Whether another destination lacks the event, too."""

    @property
    def copy_id(self) -> str:
        """See ``OutboxEvent``."""
        return f"{self.event_id}:{self.copy_for}" if self.copy_for else self.event_id

    @property
    def proof_for(self) -> str:
        """See ``OutboxEvent``."""
        return self.copy_for if self.in_part else ""

    @property
    def announced_type(self) -> str:
        """See ``OutboxEvent``."""
        return self.row_type or self.event_type


def size_of(events: Iterable[OutboxEvent]) -> int:
    """What they weigh in memory and on the wire, about, in bytes: payloads, headers, keys and destinations."""
    return sum(
        [len(one.payload) + len(one.headers) + len(one.partition_key or "") + len(one.event_type) for one in events]
    )


class Claim(NamedTuple):
    """The result of one claim: the fence of all its rows, and the rows, oldest first.

    ``fence`` is None exactly when nothing was claimed.
    """

    fence: Fence | None
    events: list[OutboxEvent]
    unread: Sequence[EventId] = ()
    """Claimed as well, but the payloads could not be read in time, or one before in its key was not: to be released."""
    waiting: bool = False
    """In order per key: more due rows were seen than claimed. They may be claimed by the next claim, or once others of
    their keys are settled."""
    refused: Sequence[StorageError] = ()
    """Rows that claims have gone past, and that the database refused once more; in order per key those that were kept
    as they were while rows behind them changed. Each error names one."""
    rest: float = math.inf
    """Seconds after which the next claim goes on trying such rows."""
