"""Streams that a subscription has set aside, each behind an event that failed, so that all others go on.

A parked stream is one row: the position of the event that was not applied, and the error. Later events of the stream
are not copied: they wait in the store, between that position and the subscription's checkpoint. The row is written in
the transaction that moves the checkpoint past the event, so an event is either applied, or behind such a row, or above
the checkpoint. An event that cannot be decoded is parked in the same way.

An operator lets a parked stream be retried, or skips its first event. The active instance then delivers the stream's
events in batches of their own, in order, up to the checkpoint; when they have reached it the row is deleted. A further
failure parks the stream again, where it then is.

``Parking`` is what one active instance knows of them. Its methods raise ``StorageError`` where the database does not
answer, and ``SubscriptionLost`` where a row was changed by another.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from relay.eventstore.database import Connection, Database, Row, execute
from relay.eventstore.decoding import decoded, fetch_events
from relay.eventstore.errors import SubscriptionLost, UndecodableEvent
from relay.eventstore.model import MOST_PAGE_BYTES, StoredEvent
from relay.eventstore.statements import EventStoreStatements

_LONGEST_ERROR: Final = 2000  # characters


class ParkedStream(NamedTuple):
    """A stream that a subscription has set aside, as an operator sees it."""

    subscription: str
    tenant_id: UUID
    stream_id: UUID
    position: int
    """Of the first event that was not applied."""
    version: int
    """Of the same event."""
    tries: int
    error: str
    """Of the last try."""
    retrying: bool
    """Whether the active instance retries it, or will."""
    parked_at: datetime


Located = StoredEvent | UndecodableEvent
"""An event, or the error of one that cannot be decoded."""


class Park(NamedTuple):
    """A stream that is to be set aside at an event."""

    event: Located
    error: str
    tries: int

    @classmethod
    def of(cls, event: Located, error: BaseException | str, tries: int) -> Park:
        """``error`` is cut, and written without what PostgreSQL's text cannot hold."""
        text = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        return cls(event, text[:_LONGEST_ERROR].replace("\x00", "").encode("utf-8", "replace").decode(), tries)


class HeldStream(NamedTuple):
    """A parked stream, as the active instance needs it."""

    tenant_id: UUID
    stream_id: UUID
    position: int
    due: bool
    slot_position: int
    """Of a group, up to where events of its slot were read; else 0."""


class Parking:
    """The parked streams of the events that one instance reads."""

    def __init__(self, database: Database, statements: EventStoreStatements, name: str) -> None:
        self._database = database
        self._statements = statements
        self._name = name
        self._slots: str | None = None
        self._streams: dict[tuple[UUID, UUID], HeldStream] = {}
        self._loaded_at = 0.0
        self.replay_until = 0
        """Up to which position events were delivered before a reset, as of the last claim."""

    def __len__(self) -> int:
        return len(self._streams)

    async def begin(self, slots: str | None) -> None:
        """Read what is set aside, for an instance that has become active with these slots."""
        self._slots = slots
        [(self.replay_until,)] = await self._rows("replay_until", {}) or [(0,)]
        await self.load()

    async def load(self) -> None:
        """Read it again."""
        rows = await self._rows("load", {"slots": self._slots}, *([] if self._slots is None else ["part"]))
        held = [HeldStream(*row) for row in rows]
        self._streams = {(one.tenant_id, one.stream_id): one for one in held}
        self._loaded_at = time.monotonic()

    def holds(self, event: Located) -> bool:
        """Whether an event waits behind a parked one."""
        held = self._streams.get((event.tenant_id, event.stream_id))
        return held is not None and event.sequence_num >= held.position

    async def passed(
        self, events: Sequence[StoredEvent], faults: Sequence[UndecodableEvent]
    ) -> tuple[list[StoredEvent], list[UndecodableEvent]]:
        """Of a page the events to deliver, and of each other stream the first event that cannot be decoded."""
        rows: list[Located] = [*events, *faults]
        if any(self.holds(row) for row in rows):
            # A stream that was deleted meanwhile is no longer set aside, and its new events are to be delivered.
            await self.load()
        first: dict[tuple[UUID, UUID], UndecodableEvent] = {}
        for fault in faults:
            if not self.holds(fault):
                first.setdefault((fault.tenant_id, fault.stream_id), fault)

        def is_behind(event: StoredEvent) -> bool:
            fault = first.get((event.tenant_id, event.stream_id))
            return fault is not None and event.sequence_num > fault.sequence_num

        return [one for one in events if not self.holds(one) and not is_behind(one)], list(first.values())

    async def due(self, interval: float) -> HeldStream | None:
        """A stream to retry; looks for one every ``interval`` seconds, and not at all where none is parked."""
        if self._streams and time.monotonic() - self._loaded_at > interval:
            await self.load()
        return next((held for held in self._streams.values() if held.due), None)

    async def events(
        self, held: HeldStream, until: int, limit: int, types: Sequence[str] | None
    ) -> tuple[list[StoredEvent], tuple[UndecodableEvent, ...]]:
        """The next events of a parked stream up to a position, and the one that ends them if it cannot be decoded."""
        values: dict[str, object] = {
            "tenant": held.tenant_id,
            "stream": held.stream_id,
            "position": held.position,
            "until": max(until, held.slot_position),
            "types": None if types is None else list(types),
            "limit": limit,
            "most_bytes": MOST_PAGE_BYTES,
        }
        sql = self._statements.text("eventstore/parking:events")
        rows = await self._database.run(
            f"retry stream {held.stream_id}", lambda connection: fetch_events(connection, sql, values)
        )
        events: list[StoredEvent] = []
        for row in decoded(rows):
            if isinstance(row, UndecodableEvent):
                return events, (row,)
            events.append(row)
        return events, ()

    async def park(self, connection: Connection, parks: Sequence[Park]) -> None:
        """Set streams aside, in the transaction of the acknowledgement that passes over their events."""
        for park in parks:
            await execute(connection, self._statements.text("eventstore/parking:park"), self._values(park))

    async def settle(
        self, connection: Connection, held: HeldStream, last: StoredEvent | None, park: Park | None
    ) -> None:
        """Store how far a retried stream has come: to a failure, behind ``last``, or, with neither, to the others."""
        values: dict[str, object] = {"name": self._name, "tenant": held.tenant_id, "stream": held.stream_id}
        step = "unpark"
        if park is not None:
            step, values = "park_again", self._values(park)
        elif last is not None:
            step, values = "advance", values | {"position": last.sequence_num, "version": last.version}
        text = self._statements.text(f"eventstore/parking:{step}")
        if not await execute(connection, text, values | {"read_from": held.position}):
            raise SubscriptionLost(f"subscription {self._name}: a parked stream was changed meanwhile; roll back")

    def _values(self, park: Park) -> dict[str, object]:
        event = park.event
        names = {"name": self._name, "tenant": event.tenant_id, "stream": event.stream_id}
        return names | {
            "position": event.sequence_num,
            "version": event.version,
            "tries": park.tries,
            "error": park.error,
        }

    async def _rows(self, step: str, more: dict[str, object], *tags: str) -> list[Row]:
        text = self._statements.text(f"eventstore/parking:{step}", *tags)
        return await self._database.rows(f"read what {self._name} has set aside", text, {"name": self._name} | more)
