"""What the event store's operations return, as OpenAPI describes it. Times are ISO 8601 in UTC, or ``infinity``."""

from __future__ import annotations

from typing import Any, Literal
from uuid import UUID

from pydantic import Field

from relay.console.api.models import ApiModel, Stamp


class StoreItem(ApiModel):
    """The event store as a whole."""

    schema_name: str
    positions: Literal["gapless", "settled"]
    notify: bool
    newest: int = Field(description="The newest assigned position.")
    horizon: int = Field(description="How far readers may read; above it are positions of open transactions.")


class TenantItem(ApiModel):
    """A tenant with a partition."""

    tenant_id: UUID


class TenantItems(ApiModel):
    """A page of tenants, in the order of their ids."""

    items: list[TenantItem]
    next: UUID | None = Field(description="Cursor of the next page; null at the end.")


class StreamItem(ApiModel):
    """A stream and its newest event."""

    stream_id: UUID
    version: int = Field(description="Of its newest event.")
    sequence_num: int = Field(description="The position of its newest event.")
    type: str
    log_date: Stamp


class StreamItems(ApiModel):
    """A page of a tenant's streams, in the order of their ids."""

    items: list[StreamItem]
    next: UUID | None = Field(description="Cursor of the next page; null at the end.")


class StreamEventItem(ApiModel):
    """One event of a stream."""

    version: int
    sequence_num: int
    type: str
    log_date: Stamp
    data_bytes: int = Field(description="Of `data` as JSON text.")
    meta: Any = Field(description="Null when the role may not see it.")
    data: Any = Field(description="The body; null when there is none, and when the role may not see it.")


class StreamEventItems(ApiModel):
    """A page of a stream, newest first."""

    items: list[StreamEventItem]
    next: int | None = Field(description="Cursor of the next page; null at the end.")


class SubscriptionItem(ApiModel):
    """A subscription; of one that is consumed in parts, the slots that one instance or none holds."""

    name: str
    position: int
    active: bool = Field(description="Whether an instance holds the lease.")
    updated_at: Stamp
    holder: UUID | None = Field(description="The instance that holds the lease, or held it last.")
    lag_events: int = Field(description="Events after the position, counted up to 100,000.")
    lag_seconds: float = Field(description="The age of the oldest of them.")
    part: tuple[int, int] | None
    slots: int | None
    parked: int = Field(description="Streams that the subscription has set aside, behind an event that failed.")


class SubscriptionItems(ApiModel):
    """All subscriptions, by name."""

    items: list[SubscriptionItem]
