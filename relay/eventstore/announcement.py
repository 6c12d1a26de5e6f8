"""From stored events to outbox rows. Pure.

The database derives the ids of announcements (``event_announcement_ids``) from a secret of the store, its id, tenant,
stream, version, position and transaction: no other writer can know one before, and none is equal to that of another
store or of a tenant's second life.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

import openoutbox
from openoutbox import Payload, TableName
from relay.eventstore.model import NewEvent
from relay.postgres.sql import DEFAULT_TABLE

Destination = Mapping[str, str] | Callable[[NewEvent], str | None]

AnnouncementRows: TypeAlias = dict[str, list[int] | list[str] | list[str | None] | list[bytes]]
"""Parameters of ``append_and_announce`` in ``sql/eventstore/append.sql``."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """Which events are announced, where, and with what body."""

    event_type: Destination
    """From an event's type to the outbox's ``event_type``, or a function from the event to it. An event that is not
    in the mapping, or for which the function returns None, is not announced."""
    payload: Callable[[NewEvent], Payload] | None = None
    """The body; by default the JSON text of ``data``, ``null`` without data."""
    table: str | TableName = DEFAULT_TABLE
    """The outbox, also as ``schema.table``."""

    @property
    def table_name(self) -> TableName:
        """``table``, parsed. Raises ``ConfigError`` for an invalid name."""
        return self.table if isinstance(self.table, TableName) else TableName.parse(self.table)

    def rows(
        self, tenant_id: UUID, stream_id: UUID, events: Sequence[NewEvent], context: Mapping[str, str] | None = None
    ) -> AnnouncementRows:
        """The parameters that announce these appended events: arrays of equal length, empty when none is announced.

        ``context`` is added to the headers of each; None adds nothing.
        """
        places, announced = [], []
        for place, event in enumerate(events, 1):
            destination = self._destination(event)
            if destination is not None:
                body = (event.data_json or "null") if self.payload is None else self.payload(event)
                headers = {
                    "tenant_id": str(tenant_id),
                    "stream_id": str(stream_id),
                    "type": event.type,
                    **(context or {}),
                }
                places.append(place)
                announced.append(openoutbox.NewEvent(destination, body, partition_key=str(stream_id), headers=headers))
        return {
            "places": places,
            "event_types": [event.event_type for event in announced],
            "partition_keys": [event.partition_key for event in announced],
            "payloads": [event.body for event in announced],
            "headers": [event.headers_json for event in announced],
        }

    def _destination(self, event: NewEvent) -> str | None:
        if isinstance(self.event_type, Mapping):
            return self.event_type.get(event.type)
        return self.event_type(event)


def as_announcement(outbox: Announcement | Destination | None) -> Announcement | None:
    """The argument ``outbox`` of ``append``; a bare mapping or function is the destination."""
    return outbox if outbox is None or isinstance(outbox, Announcement) else Announcement(outbox)
