"""From stored events to outbox rows. Pure.

The id of an announcement is derived from tenant, stream and version, so that announcing an event twice has no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID, uuid5

from relay import client
from relay.client import Payload, TableName
from relay.eventstore.model import NewEvent
from relay.postgres.sql import DEFAULT_TABLE

_NAMESPACE: Final = UUID("6ad9b9ba-5b6d-5d6e-9a3f-0d9c1f5e7c11")

Destination = Mapping[str, str] | Callable[[NewEvent], str | None]


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

    def rows(self, tenant_id: UUID, stream_id: UUID, first: int, events: Sequence[NewEvent]) -> list[client.NewEvent]:
        """The outbox events for appended ones, of which the first has version ``first``."""
        rows = []
        for version, event in enumerate(events, first):
            destination = self._destination(event)
            if destination is not None:
                rows.append(
                    client.NewEvent(
                        destination,
                        (event.data_json or "null") if self.payload is None else self.payload(event),
                        partition_key=str(stream_id),
                        headers={
                            "tenant_id": str(tenant_id),
                            "stream_id": str(stream_id),
                            "version": str(version),
                            "type": event.type,
                        },
                        event_id=announcement_id(tenant_id, stream_id, version),
                    )
                )
        return rows

    def _destination(self, event: NewEvent) -> str | None:
        if isinstance(self.event_type, Mapping):
            return self.event_type.get(event.type)
        return self.event_type(event)


def announcement_id(tenant_id: UUID, stream_id: UUID, version: int) -> UUID:
    """The ``event_id`` of the outbox row that announces one stored event."""
    return uuid5(_NAMESPACE, f"{tenant_id}/{stream_id}/{version}")


def as_announcement(outbox: Announcement | Destination | None) -> Announcement | None:
    """The argument ``outbox`` of ``append``; a bare mapping or function is the destination."""
    return outbox if outbox is None or isinstance(outbox, Announcement) else Announcement(outbox)
