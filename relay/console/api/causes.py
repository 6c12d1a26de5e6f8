"""What is broken, since when, and what to do; and the outbox at a glance."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response
from pydantic import Field
from pydantic_core import to_json

from relay.console.api.models import ApiModel, Stamp, Statistics
from relay.console.api.requests import READING
from relay.console.context import ConsoleParts
from relay.console.relays_and_pauses import existing
from relay.outbox.admin.overview import MOST_COUNTED
from relay.outbox.admin.series import MOST_STEPS, read_series

router = APIRouter(tags=["outbox"])


class FindingItem(ApiModel):
    """One thing that is wrong with the outbox as a whole."""

    level: Literal["warning", "error"]
    subject: str = Field(description="What it is about, in one word.", examples=["pause"])
    message: str
    advice: str


class CauseItem(ApiModel):
    """Dead and retrying events that one cause holds."""

    cause: str = Field(
        description="Its name, for `cause` of a search and of a change.", examples=["HTTP_503:1f0a9c22b7"]
    )
    code: str = Field(description="What `last_error` says before its first colon; for `error_code`.")
    error: str = Field(description="The rest, with numbers, ids and quoted parts folded to `#`.")
    message: str = Field(description="The error of the event that failed last.")
    dead: int
    retrying: int
    types: dict[str, int] = Field(description="How many events of each type, the largest number first.")
    keys: int
    first: Stamp
    last: Stamp
    sample: str = Field(description="The id of the event that failed last.")
    minutes: dict[str, int] = Field(description="How many of them failed last in which minute of the last hour.")
    step: str = Field(description="What to do.")


class CauseItems(ApiModel):
    """What holds up events, and why events fail, the cause with the most events first."""

    findings: list[FindingItem]
    causes: list[CauseItem]
    complete: bool = Field(description="False when more events fail than were read.")
    sample: str = Field(description="What was read then, as a sentence; empty when complete.")


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


@router.get("/causes", dependencies=READING, response_model=CauseItems)
def list_causes(console: ConsoleParts) -> Response:
    """What is broken, since when and what to do. Of very many dead events the newest are read."""
    state, failing = console.readings.with_causes(console.readings.state)
    answer = {"findings": [each.answer() for each in state.findings], **failing.answer()}
    return Response(to_json(answer), media_type="application/json")  # to validate a thousand causes costs five times it


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
