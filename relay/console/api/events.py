"""Events: search, one event, and what an operator does to one."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Response

from relay.console.api.models import (
    ActionBody,
    ChangeItem,
    DryRun,
    EventDetail,
    EventItems,
    Time,
    Words,
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
from relay.console.context import ConsoleParts, shows_payloads
from relay.core.event import Status
from relay.outbox.admin.actions import Action, EventAction, EventMissing, change_event, check_action
from relay.outbox.admin.explain import explain_event
from relay.outbox.admin.search import LONGEST_PAGE, EventSearch, search_events
from relay.routing.reported import read_reported

router = APIRouter(tags=["events"])

_Status = Literal["PENDING", "DELIVERING", "DELIVERED", "DEAD"]


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
    explained = explain_event(console.url, console.table, event_id, read_reported)
    if explained is None:
        raise EventMissing(f"there is no event {event_id} in table {console.table}")
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
    window = console.duplicate_window() if action is Action.REPLAY else 0.0
    change, _ = change_event(console.url, console.table, wish, request, window)
    return ChangeItem.model_validate(change)
