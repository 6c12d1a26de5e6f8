"""The outbox as a whole: statistics, what Overview shows, the last week by minute, and dead letters by type."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from relay.console.api.causes import FindingItem
from relay.console.api.models import ApiModel, Stamp
from relay.console.api.requests import READING
from relay.console.context import ConsoleParts
from relay.console.relays_and_pauses import existing
from relay.outbox.admin.overview import MOST_COUNTED, MOST_DEAD, dead_groups, read_backlog
from relay.outbox.admin.series import MOST_STEPS, read_series

router = APIRouter(tags=["outbox"])


class Statistics(ApiModel):
    """The backlog at one moment, by the names of the relay's `GET /stats`."""

    pending_count: int = Field(description="PENDING without a failed attempt.")
    retrying_count: int = Field(description="PENDING with failed attempts.")
    oldest_age_sec: float
    oldest_due_age_sec: float = Field(description="The lag: how long the oldest due event has waited.")
    dead_count: int
    in_flight_count: int


class MinuteItem(ApiModel):
    """How many events were delivered in one minute."""

    minute: Stamp
    events: int
    exact: bool = Field(description="False for an estimate.")
    failed: int | None = Field(description="Attempts that failed. Null here and below where no relay has counted.")
    dead: int | None
    lag: float | None = Field(description="The longest that a relay has seen, in seconds.")


class TypeFiguresItem(ApiModel):
    """What became of one type's events in the last hour."""

    event_type: str
    delivered: int
    dead: int
    failed: int = Field(description="Failed attempts.")


class ConnectionsItem(ApiModel):
    """A relay that is connected to the database."""

    relay_id: str
    connections: int


class OverviewItem(ApiModel):
    """The outbox at a glance."""

    findings: list[FindingItem]
    stats: Statistics
    complete: bool = Field(description="False when a count of `stats` ends at a bound: it is that many at least.")
    relays: list[ConnectionsItem]
    minutes: list[MinuteItem] = Field(description="The last one is the current minute.")
    types: list[TypeFiguresItem]


class SeriesItem(ApiModel):
    """What all relays did in one step."""

    start: Stamp
    delivered: int
    failed: int = Field(description="Attempts that failed.")
    dead: int
    lag: float = Field(description="The longest that a relay has seen, in seconds; of all event types.")
    counted: int = Field(description="Minutes in which a relay has counted; 0 says that nothing is known of the step.")


class SeriesItems(ApiModel):
    """What the relays did, step by step."""

    items: list[SeriesItem] = Field(description="The last one is the current step, whose last minute is not counted.")
    step_minutes: int


class DeadGroupItem(ApiModel):
    """Dead events of one type with one error."""

    event_type: str
    error: str = Field(description="What `last_error` says before its first colon.")
    events: int
    first: Stamp
    last: Stamp


class DeadGroupItems(ApiModel):
    """Dead events by type and error, the largest groups first."""

    items: list[DeadGroupItem]
    examined: int = Field(description="Dead events that were counted: the newest ones.")
    complete: bool = Field(description="False when there are more dead events than were counted.")


@router.get("/stats", dependencies=READING)
def statistics(console: ConsoleParts) -> Statistics:
    """The backlog in figures."""
    figures = read_backlog(console.url, console.table)
    return Statistics.model_validate({**figures.backlog.answer(), "in_flight_count": figures.in_flight})


@router.get("/overview", dependencies=READING)
def outbox_overview(
    console: ConsoleParts,
    minutes: Annotated[
        int, Query(ge=1, le=60, description="How many of the last minutes, beside the current one.")
    ] = 60,
) -> OverviewItem:
    """What is wrong now, the figures, and the last hour: what the page Overview shows. Its counts end at a bound."""
    overview, findings = console.readings.overview.get()
    figures = overview.figures
    backlog = figures.backlog
    largest = max(backlog.pending_new + backlog.pending_retrying, backlog.dead, figures.in_flight)
    return OverviewItem.model_validate(
        {
            "findings": findings,
            "stats": {**backlog.answer(), "in_flight_count": figures.in_flight},
            "complete": largest < MOST_COUNTED,
            "relays": overview.relays,
            "minutes": overview.minutes[-minutes - 1 :],
            "types": overview.types,
        }
    )


@router.get("/series", dependencies=READING)
def relay_series(
    console: ConsoleParts,
    minutes: Annotated[int, Query(ge=1, le=7 * 1440, description="How many of the last minutes.")] = 60,
    event_type: Annotated[str | None, Query(description="Of this type alone, in the minutes that name it.")] = None,
) -> SeriesItems:
    """What relays delivered, failed and buried, minute by minute for a week. Needs the extension series."""
    step = -(-minutes // MOST_STEPS)
    read = read_series(console.url, console.table, -(-minutes // step), step, event_type)
    points = existing(read, console, "series")
    return SeriesItems.model_validate({"items": points, "step_minutes": step})


@router.get("/dead-letters", dependencies=READING)
def dead_letters(console: ConsoleParts) -> DeadGroupItems:
    """Dead events by type and error. Of very many dead events the newest are counted."""
    groups = dead_groups(console.url, console.table)
    examined = groups[0].examined if groups else 0
    complete = examined < MOST_DEAD and sum(group.events for group in groups) == examined
    return DeadGroupItems.model_validate({"items": groups, "examined": examined, "complete": complete})
