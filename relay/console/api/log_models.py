"""What the delivery log's operations return, as OpenAPI describes it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field


class LogEventItem(BaseModel):
    """An event that was handed to the relay."""

    id: str
    tenant_id: str
    destination_id: str = Field(description="The explicit target named at publish; may be empty.")
    matched_destination_ids: list[str]
    time: str = Field(description="UTC, ISO 8601, to the millisecond.")
    topic: str
    eligible_for_retry: bool
    data_base64: str | None = Field(
        "", description="The payload, byte for byte; absent without `include=data`, null when the role may not see it."
    )
    metadata: dict[str, str] | None = Field(description="The headers; null when the role may not see them.")


class LogAttemptItem(BaseModel):
    """One attempt to deliver an event."""

    id: str
    event_id: str
    tenant_id: str
    destination_id: str
    destination_type: str
    topic: str
    status: Literal["success", "failed"]
    time: str = Field(description="UTC, ISO 8601, to the millisecond.")
    attempt_number: int = Field(description="Counted from 1; 0 means unknown.")
    manual: bool = Field(description="Whether it follows a replay.")
    code: str | None
    response_data: dict[str, Any] | None = Field(description="Null when the role may not see it.")
    event: LogEventItem


class _Page(BaseModel):
    items: list[Any]
    next: str | None = Field(description="Cursor of the next page; null: there is none.")
    prev: str | None = Field(description="Cursor of the page before; null: there is none.")


class LogEventItems(_Page):
    """One page of events."""

    items: list[LogEventItem]


class LogAttemptItems(_Page):
    """One page of attempts."""

    items: list[LogAttemptItem]


class LogMetrics(BaseModel):
    """Rows of dimensions and measures, with ``time`` when the query names a granularity."""

    rows: list[dict[str, Any]]
    query_time_ms: int
    row_count: int
    row_limit: int
    truncated: bool
