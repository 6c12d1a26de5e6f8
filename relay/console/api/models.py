"""What the API takes and returns, as OpenAPI describes it. Times are ISO 8601 in UTC, or ``infinity``."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from fastapi import Response
from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from relay.core.durations import time_text
from relay.core.json_text import with_member
from relay.outbox.admin.actions import Action
from relay.outbox.admin.explain import ExplainedEvent
from relay.postgres.codec import Moment

Words = Annotated[str, Field(max_length=500, pattern=r"^[^\x00]*$")]
"""Text without NUL, which PostgreSQL cannot store."""


def moment_text(moment: Moment | None) -> Any:  # noqa: ANN401 - text, or None for None
    """A time as the API writes it."""
    return None if moment is None else time_text(moment, "microseconds")


def _in_utc(time: datetime) -> datetime:
    """Raises ValueError for the hours at the ends of the calendar that have no time in UTC."""
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise ValueError("the time in UTC must be within the years 1 to 9999") from None


Time = Annotated[AwareDatetime, AfterValidator(_in_utc)]
"""A time that a request names, in UTC."""

_EVENT_ID: Final = "0190b0a0-0000-7000-8000-000000000001"
_CHANGE_ID: Final = "0190b0a0-0000-7000-8000-0000000000aa"
_TIME: Final = "2026-03-10T12:00:00.000000Z"
_Encoding = Literal["utf-8", "base64", "hidden"]


Stamp = Annotated[str, BeforeValidator(moment_text)]
"""A time of the database, as the API writes it."""


class ApiModel(BaseModel):
    """What an operation takes or returns. One that is made of a row takes its fields by their names, and no others."""

    model_config = ConfigDict(extra="forbid", from_attributes=True)


class EventItem(ApiModel):
    """One event of a list."""

    event_id: UUID = Field(examples=[_EVENT_ID])
    event_type: str = Field(examples=["user.signup"])
    partition_key: str | None = Field(examples=["user-1"])
    status: Literal["PENDING", "DELIVERING", "DELIVERED", "DEAD"]
    attempts: int = Field(description="Failed attempts.")
    since: Stamp | None = Field(description="When it entered its status.", examples=[_TIME])
    created_at: Stamp = Field(examples=[_TIME])
    available_at: Stamp = Field(description="Not claimed before this time.", examples=[_TIME])
    locked_by: str | None = Field(description="The relay that holds it.")
    payload_bytes: int
    last_error: str | None


class EventItems(ApiModel):
    """A page of events."""

    items: list[EventItem] = Field(validation_alias="events")
    next: str | None = Field(description="Cursor of the next page; null at the end.")
    prev: str | None = Field(description="Cursor of the page before this one; null at the beginning.")
    examined_until: Stamp | None = Field(
        description="Where the search paused because it had examined enough events; the next page goes on from there."
    )


class BlockerItem(ApiModel):
    """What is in an event's way."""

    kind: Literal["event", "pause", "destination", "relay"]
    name: str = Field(description="An event's id, what a pause names, or the name of the destination or relay.")


class ReasonItem(ApiModel):
    """One cause for which an event is not delivered."""

    cause: str = Field(
        description="`delivered`, `dead`, `lease`, `backoff`, `scheduled`, `pause`, `key`, `destination`, `relay`, "
        "`refused`, `due` or `unknown`.",
        examples=["pause"],
    )
    sentence: str = Field(examples=["Event type user.signup is paused by ada since 2026-03-10T12:00:00Z: repair."])
    step: str = Field(description="What to do; empty where there is nothing to do.")
    blocker: BlockerItem | None


class WhyItem(ReasonItem):
    """Why an event is not delivered: the first cause that holds, and the others."""

    also: list[ReasonItem] = Field(description="Further causes; one that says `if` may hold.")


class EventDetail(ApiModel):
    """One event, whole. Its ETag is for `If-Match`."""

    event_id: UUID = Field(examples=[_EVENT_ID])
    event_type: str
    partition_key: str | None
    status: Literal["PENDING", "DELIVERING", "DELIVERED", "DEAD"]
    attempts: int
    last_error: str | None
    created_at: Stamp
    available_at: Stamp
    locked_by: str | None
    locked_at: Stamp | None
    delivered_at: Stamp | None
    updated_at: Stamp
    headers: Any = Field(description="Null when the role may not see it.")
    payload: str | None = Field(description="Null when the role may not see it.")
    payload_encoding: _Encoding
    why: WhyItem

    @classmethod
    def of(cls, explained: ExplainedEvent, *, visible: bool) -> EventDetail:
        """The API's form of an event, with its payload and headers where they may be seen."""
        event = explained.event
        shown = stored(event.headers, event.payload, visible=visible)
        return cls.model_validate({**event._asdict(), **shown, "why": explained.why.answer()})


class ActionBody(ApiModel):
    """What is done to one event, and why."""

    reason: Words = Field("", description="Recorded with the change.", examples=["asked by support"])
    dry_run: bool = Field(False, description="Check whether it is allowed, and change nothing.")


class Selected(ApiModel):
    """Which events a change takes, as a search names them; at least one of the fields must be set."""

    status: list[Literal["pending", "dead", "delivered"]] = Field(
        [],
        max_length=2,
        description="Absent: `dead` for a replay, `pending` for every other action.",
        examples=[["dead"]],
    )
    event_ids: list[UUID] = Field([], max_length=1000)
    event_type: Words | None = Field(None, examples=["user.signup"])
    partition_key: Words | None = None
    error: Words | None = Field(None, description="Part of `last_error`, in any case.")
    error_code: Words | None = Field(
        None, description="What `last_error` says before its first colon.", examples=["MSG_SIZE_TOO_LARGE"]
    )
    cause: Words | None = Field(
        None, description="The name of a cause, as `GET /causes` lists it.", examples=["MSG_SIZE_TOO_LARGE:1f0a9c22b7"]
    )
    since: Time | None = Field(None, description="When events entered their status, at the earliest.")
    until: Time | None = Field(None, description="The same, before this time.")
    unchanged_since: Time | None = Field(
        None,
        description="When you saw the events, as in `at` of a dry run: events that were changed later are left out.",
    )


class BulkBody(ApiModel):
    """One action on many events."""

    action: Action = Field(examples=["replay"])
    selection: Selected
    limit: int | None = Field(None, ge=1, le=2**40, description="Most events; the oldest are taken.")
    rate: float | None = Field(None, gt=0, le=1e6, description="Most events a second.", examples=[100])
    reason: Words = Field("", description="Recorded with the change.", examples=["the limit was raised"])
    dry_run: bool = Field(False, description="Count the events, and change nothing.")


class DryRun(ApiModel):
    """What a change would do now."""

    dry_run: Literal[True] = True
    events: int
    exact: bool = Field(description="False when there are more.")


class BulkDryRun(DryRun):
    """What a change of many events would do now."""

    at: Stamp = Field(description="The database's time before the count; for `unchanged_since`.", examples=[_TIME])


_Days = Annotated[float, Field(ge=0, le=36_500)]


class PruneBody(ApiModel):
    """Which old events are deleted."""

    delivered_days: _Days = Field(7, description="Delete events delivered longer ago than this; 0 keeps them all.")
    dead_days: _Days = Field(30, description="Delete events dead for longer than this; 0 keeps them all.")
    as_of: Time | None = Field(
        None,
        description="Ages count from this time, such as `at` of a dry run: what reaches the age later is left out.",
    )
    reason: Words = Field("", description="Recorded with the change.", examples=["the disk is nearly full"])
    dry_run: bool = Field(False, description="Count the events, and delete nothing.")


class ChangeItem(ApiModel):
    """One change: who, when, what, how many, why."""

    change_id: UUID = Field(examples=[_CHANGE_ID])
    action: Literal["retry", "replay", "bury", "cancel", "prune", "pause", "resume", "skip"]
    selection: Annotated[dict[str, Any], BeforeValidator(json.loads)]
    changed_by: str
    reason: str
    state: Literal["running", "complete", "stopped", "failed", "interrupted"]
    events: int = Field(description="Events changed so far.")
    expected: int | None = Field(description="Events that were counted before it began.")
    error: str | None
    may_have_been_sent: int | None = Field(
        description="Of a cancellation: cancelled events that a relay may have had before; else null."
    )
    started_at: Stamp
    updated_at: Stamp


class ChangeItems(ApiModel):
    """A page of changes, newest first."""

    items: list[ChangeItem]
    next: str | None = Field(description="Cursor of the next page; null at the end.")


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


class Statistics(ApiModel):
    """The backlog at one moment, by the names of the relay's `GET /stats`."""

    pending_count: int = Field(description="PENDING without a failed attempt.")
    retrying_count: int = Field(description="PENDING with failed attempts.")
    oldest_age_sec: float
    oldest_due_age_sec: float = Field(description="The lag: how long the oldest due event has waited.")
    dead_count: int
    in_flight_count: int


class PrunePreview(ApiModel):
    """What a prune would delete now."""

    delivered: int
    dead: int
    exact: bool = Field(description="False when there are more.")
    at: Stamp = Field(description="The time from which ages were counted; for `as_of`.", examples=[_TIME])


def payload_text(payload: bytes) -> str | None:
    """The payload as text, or None for one that is not UTF-8 or has a NUL character."""
    try:
        text = payload.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\x00" in text else text


def stored(headers: str, payload: bytes, *, visible: bool) -> dict[str, str | None]:
    """The three fields of an answer for headers and payload."""
    if not visible:
        return {"headers": None, "payload": None, "payload_encoding": "hidden"}
    text = payload_text(payload)
    if text is None:
        return {"headers": headers, "payload": base64.b64encode(payload).decode(), "payload_encoding": "base64"}
    return {"headers": headers, "payload": text, "payload_encoding": "utf-8"}


def with_headers(detail: BaseModel, headers: str | None, etag: str = "") -> Response:
    """The answer, into which the headers go as PostgreSQL wrote them: no number loses a digit."""
    text = with_member(detail.model_dump_json(exclude={"headers"}), "headers", headers or "null")
    return Response(text, media_type="application/json", headers={"ETag": etag} if etag else None)
