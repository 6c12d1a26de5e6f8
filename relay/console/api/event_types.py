"""The event types at a glance."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from relay.console.api.requests import Reader
from relay.console.context import ConsoleParts
from relay.outbox.admin.eventtypes import EventTypeFigures

router = APIRouter(tags=["outbox"])


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class PaceItem(_Model):
    """Events a minute, as the mean of a time that has just ended."""

    last_minute: float
    last_hour: float


class SampleItem(_Model):
    """What figures are based on."""

    rows: int
    whole: bool = Field(description="False when there are more rows than the sample has.")
    seconds: float = Field(description="The time that it covers, an hour at most.")


class EventTypeItem(_Model):
    """One event type."""

    event_type: str = Field(examples=["user.signup"])
    paused: bool
    delivered: PaceItem
    died: PaceItem
    p50: float | None = Field(description="Seconds from created to delivered; null without a delivery in the sample.")
    p99: float | None
    waiting: int
    retrying: int = Field(description="Waiting after a failed attempt.")
    oldest_due_age_sec: float | None = Field(description="Null when no event is due.")
    dead: int

    @classmethod
    def of(cls, figures: EventTypeFigures, *, paused: bool) -> EventTypeItem:
        """The API's form of one type's figures."""
        values = figures._asdict()
        values["oldest_due_age_sec"] = values.pop("oldest_due_age")
        values |= {name: PaceItem(**values[name]._asdict()) for name in ("delivered", "died")}
        return cls(**values, paused=paused)


class EventTypeItems(_Model):
    """Event types, those with the most events first; their figures are those of samples."""

    items: list[EventTypeItem]
    delivered: SampleItem = Field(description="The newest deliveries of the last hour.")
    waiting: SampleItem = Field(description="The waiting events that are due first.")
    dead: SampleItem = Field(description="The newest dead events.")


@router.get("/types")
def list_event_types(console: ConsoleParts, identity: Reader) -> EventTypeItems:
    """Pace, latency, backlog and dead events by type, from samples of bounded size."""
    del identity
    figures = console.readings.types.get()
    pauses = figures.pauses or []
    items = [
        EventTypeItem.of(each, paused=any(pause.target.holds(each.event_type) for pause in pauses))
        for each in figures.types
    ]
    samples = {name: SampleItem(**getattr(figures, name)._asdict()) for name in ("delivered", "waiting", "dead")}
    return EventTypeItems(items=items, **samples)
