"""The event types at a glance."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import Field

from relay.console.api.models import ApiModel
from relay.console.api.requests import READING
from relay.console.context import ConsoleParts

router = APIRouter(tags=["outbox"])


class PaceItem(ApiModel):
    """Events a minute, as the mean of a time that has just ended."""

    last_minute: float
    last_hour: float


class SampleItem(ApiModel):
    """What figures are based on."""

    rows: int
    whole: bool = Field(description="False when there are more rows than the sample has.")
    seconds: float = Field(description="The time that it covers, an hour at most.")


class EventTypeItem(ApiModel):
    """One event type."""

    event_type: str = Field(examples=["user.signup"])
    paused: bool
    delivered: PaceItem
    died: PaceItem
    p50: float | None = Field(description="Seconds from created to delivered; null without a delivery in the sample.")
    p99: float | None
    waiting: int
    retrying: int = Field(description="Waiting after a failed attempt.")
    oldest_due_age_sec: float | None = Field(
        description="Null when no event is due.", validation_alias="oldest_due_age"
    )
    dead: int


class EventTypeItems(ApiModel):
    """Event types, those with the most events first; their figures are those of samples."""

    items: list[EventTypeItem]
    delivered: SampleItem = Field(description="The newest deliveries of the last hour.")
    waiting: SampleItem = Field(description="The waiting events that are due first.")
    dead: SampleItem = Field(description="The newest dead events.")


@router.get("/types", dependencies=READING)
def list_event_types(console: ConsoleParts) -> EventTypeItems:
    """Pace, latency, backlog and dead events by type, from samples of bounded size."""
    figures = console.readings.types.get()
    pauses = figures.pauses or []
    items = [
        {**each._asdict(), "paused": any(pause.target.holds(each.event_type) for pause in pauses)}
        for each in figures.types
    ]
    samples = {"delivered": figures.delivered, "waiting": figures.waiting, "dead": figures.dead}
    return EventTypeItems.model_validate({"items": items, **samples})
