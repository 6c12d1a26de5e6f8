"""Events: search, one event, and what an operator does to one."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Response
from pydantic import Field

from relay.console.api.models import (
    TIME,
    ApiModel,
    ChangeItem,
    DryRun,
    Encoding,
    Stamp,
    Time,
    Words,
    stored,
    with_headers,
)
from relay.console.api.requests import (
    IdempotencyKey,
    IfMatch,
    Operator,
    Reader,
    cause_of,
    change_request,
    etag,
    expected_version,
    header_filter,
    payload_filter,
)
from relay.console.context import Console, ConsoleParts, shows_payloads
from relay.core.event import Status
from relay.outbox.admin.actions import Action, EventAction, EventMissing, change_event, check_action
from relay.outbox.admin.changes import Change, Request
from relay.outbox.admin.explain import ExplainedEvent, explain_event
from relay.outbox.admin.search import LONGEST_PAGE, EventSearch, search_events
from relay.routing.reported import read_reported

router = APIRouter(tags=["events"])

_EVENT_ID: Final = "0190b0a0-0000-7000-8000-000000000001"
_Status = Literal["PENDING", "DELIVERING", "DELIVERED", "DEAD"]


class EventItem(ApiModel):
    """One event of a list."""

    event_id: UUID = Field(examples=[_EVENT_ID])
    event_type: str = Field(examples=["user.signup"])
    partition_key: str | None = Field(examples=["user-1"])
    status: Literal["PENDING", "DELIVERING", "DELIVERED", "DEAD"]
    attempts: int = Field(description="Failed attempts.")
    since: Stamp | None = Field(description="When it entered its status.", examples=[TIME])
    created_at: Stamp = Field(examples=[TIME])
    available_at: Stamp = Field(description="Not claimed before this time.", examples=[TIME])
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
    payload_encoding: Encoding
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


@router.get("/events")
def list_events(  # noqa: PLR0913, PLR0917 - one parameter a filter
    console: ConsoleParts,
    identity: Reader,
    status: Annotated[list[_Status] | None, Query(description="Absent: all.")] = None,
    event_type: Annotated[Words | None, Query()] = None,
    partition_key: Annotated[Words | None, Query()] = None,
    error: Annotated[Words | None, Query(description="Part of last_error, in any case.")] = None,
    error_code: Annotated[
        Words | None, Query(description="What last_error says before its first colon, as the groups of dead letters.")
    ] = None,
    cause: Annotated[Words | None, Query(description="The name of a cause, as `GET /causes` lists it.")] = None,
    header: Annotated[
        Words | None, Query(description="A header's name and value; for operators.", examples=["tenant=acme"])
    ] = None,
    payload: Annotated[Words | None, Query(description="Part of the payload, as UTF-8; for operators.")] = None,
    since: Annotated[Time | None, Query(description="When events entered their status.")] = None,
    until: Annotated[Time | None, Query(description="The same, before this time.")] = None,
    limit: Annotated[int, Query(ge=1, le=LONGEST_PAGE)] = 50,
    cursor: Annotated[str | None, Query(description="`next` or `prev` of another page.")] = None,
) -> EventItems:
    """Search events, newest first by the time at which they entered their status.

    A page takes two seconds at most, on any table: where a filter matches few events, it may have fewer of them than
    its limit, or none, and yet a next page; `examined_until` says how far back it came.
    """
    statuses = tuple(map(Status, status)) if status else tuple(Status)
    filters = (event_type, partition_key, error, error_code, cause_of(cause))
    hidden = (header_filter(header, identity), payload_filter(payload, identity))
    search = EventSearch(statuses, *filters, *hidden, since, until, limit, cursor)
    page = search_events(console.url, console.table, search)
    return EventItems.model_validate(page)


@router.get("/events/{event_id}", response_model=EventDetail)
def retrieve_event(console: ConsoleParts, identity: Reader, event_id: UUID) -> Response:
    """One event, and why it is not delivered. Payload and headers are null for a role that may not see them."""
    explained = explained_event(console, event_id)
    detail = EventDetail.of(explained, visible=shows_payloads(identity))
    version = etag(explained.event.updated_at, identity.role, detail.why.model_dump_json())
    return with_headers(detail, detail.headers, version)


@router.post("/events/{event_id}/{action}")
def change_one_event(
    console: ConsoleParts,
    identity: Operator,
    event_id: UUID,
    action: Action,
    body: ActionBody,
    idempotency_key: IdempotencyKey = None,
    if_match: IfMatch = None,
) -> ChangeItem | DryRun:
    """Retry now, replay, bury or cancel one event.

    `retry`: a waiting event is due now. `replay`: a delivered or dead event is sent again. `bury`: a waiting event is
    dead. `cancel`: a waiting event is deleted, and its row kept with the record. What a relay holds is never changed.
    """
    wish = EventAction(action, event_id, expected_version(if_match))
    if body.dry_run:
        check_action(console.url, console.table, wish)
        return DryRun(events=1, exact=True)
    request = change_request(identity, idempotency_key, body.reason)
    return ChangeItem.model_validate(changed_event(console, wish, request))


def explained_event(console: Console, event_id: UUID) -> ExplainedEvent:
    """One event, and why it is not delivered. Raises EventMissing."""
    explained = explain_event(console.url, console.table, event_id, read_reported)
    if explained is None:
        raise EventMissing(f"there is no event {event_id} in table {console.table}")
    return explained


def changed_event(console: Console, wish: EventAction, request: Request) -> Change:
    """The recorded change of one event. A replay leaves out what the broker would drop. Raises as ``change_event``."""
    window = console.duplicate_window() if wish.action is Action.REPLAY else 0.0
    change, _ = change_event(console.url, console.table, wish, request, window)
    return change
