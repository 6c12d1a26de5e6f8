"""Searching events, one event with all that is known of it, and what an operator does to it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Form, Query, Request
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, RedirectResponse, Response

from relay.console.api.events import changed_event, explained_event
from relay.console.api.requests import Operator, Reader, cause_of, change_request, etag, expected_version
from relay.console.context import Console, ConsoleParts
from relay.console.pages.bulk import links
from relay.console.pages.form_fields import Text, status_field, text_field, time_field, uuid_field
from relay.console.pages.payloads import ShownPayload
from relay.console.pages.render import page
from relay.core.errors import OutboxError
from relay.core.event import Status
from relay.core.json_text import members
from relay.deliverylog import ListAttempts
from relay.outbox.admin.actions import Action, EventAction
from relay.outbox.admin.browse import ShownEvent
from relay.outbox.admin.search import EventSearch, search_events
from relay.outbox.admin.why import Reason

router = APIRouter(include_in_schema=False)

_MOST_ATTEMPTS = 100


class SearchFields(BaseModel):
    """What the form of the search sends; an empty field is no filter."""

    status: Text = ""
    event_type: Text = ""
    partition_key: Text = ""
    error: Text = ""
    error_code: Text | None = None
    """Empty for events without an error; a form that does not show it sends none."""
    cause: Text = ""
    since: Text = ""
    until: Text = ""
    event_id: Text = ""
    cursor: Text = ""

    def search(self) -> EventSearch:
        """The search. Raises RequestProblem for what is no status or time."""
        return EventSearch(
            status_field(self.status),
            text_field(self.event_type),
            text_field(self.partition_key),
            text_field(self.error),
            None if self.error_code is None else text_field(self.error_code) or "",
            cause_of(self.cause or None),
            since=time_field(self.since),
            until=time_field(self.until),
            cursor=self.cursor or None,
        )

    def filters(self) -> dict[str, str]:
        """The fields that narrow the search, for the addresses of further pages."""
        values = self.model_dump(exclude={"event_id", "cursor"}, exclude_none=True)
        return {name: value for name, value in values.items() if value or name == "error_code"}


@router.get("/events")
def search_page(
    request: Request, console: ConsoleParts, identity: Reader, fields: Annotated[SearchFields, Query()]
) -> Response:
    """The search, or the event whose id was written."""
    if fields.event_id.strip():
        return RedirectResponse(f"/events/{uuid_field(fields.event_id, 'an event')}", 303)
    result = search_events(console.url, console.table, fields.search())
    used = fields.filters()
    return page(
        request,
        "events.html",
        identity,
        title="Events",
        values=fields,
        used=used,
        statuses=list(Status),
        result=result,
        deep=bool(fields.cursor),
        bulk=links(fields.status, used),
        next_page={**used, "cursor": result.next} if result.next else None,
        prev_page={**used, "cursor": result.prev} if result.prev else None,
    )


@router.get("/events/{event_id}")
async def event_page(
    request: Request, console: ConsoleParts, identity: Reader, event_id: UUID, done: Action | None = None
) -> HTMLResponse:
    """One event, its payload where the role may see it, and its attempts where there is a delivery log."""
    event, why = await run_in_threadpool(explained_event, console, event_id)
    attempts, log_trouble = await _attempts(console, event_id)
    return page(
        request,
        "event.html",
        identity,
        title=f"Event {event_id}",
        event=event,
        reasons=[(reason, _address(reason)) for reason in (why.first, *why.also)],
        seen=etag(event.updated_at, identity.role),
        headers=members(event.headers),
        payload=ShownPayload.of(event.payload),
        attempts=attempts,
        log_trouble=log_trouble,
        actions=_actions(event),
        done=done,
    )


@router.post("/events/{event_id}/{action}")
def act(
    console: ConsoleParts,
    identity: Operator,
    event_id: UUID,
    action: Action,
    idempotency_key: Annotated[str, Form()],
    version: Annotated[str, Form()],
    reason: Annotated[str, Form(max_length=500)] = "",
) -> Response:
    """Change the event, if it is as the page showed it, and show it again."""
    wish = EventAction(action, event_id, expected_version(version))
    change = changed_event(console, wish, change_request(identity, idempotency_key, reason))
    gone = action is Action.CANCEL
    return RedirectResponse(f"/changes/{change.change_id}" if gone else f"/events/{event_id}?done={action}", 303)


def _address(reason: Reason) -> str | None:
    """The page of what is in the event's way."""
    if reason.blocker is None:
        return None
    kind, name = reason.blocker
    return f"/events/{name}" if kind == "event" else "/fleet"


def _actions(event: ShownEvent) -> list[tuple[str, str]]:
    """What the event's status allows, with its meaning."""
    later = isinstance(event.available_at, datetime) and event.available_at > datetime.now(UTC)
    match event.status:
        case Status.DEAD | Status.DELIVERED:
            return [("replay", "Send it again, as if it had never been tried.")]
        case Status.PENDING:
            actions = [("retry", "Make it due now.")] if later else []
            if later and not event.attempts:
                return [*actions, ("cancel", "Do not send it: it is deleted, and its row kept with the change.")]
            return [*actions, ("bury", "Do not try it again: it becomes dead.")]
        case _:
            return []


async def _attempts(console: Console, event_id: UUID) -> tuple[Sequence[Any] | None, str]:
    """The attempts, newest first; None without a delivery log. Its trouble costs the attempts alone."""
    if not console.log.configured:
        return None, ""
    query = ListAttempts(event_ids=[str(event_id)], limit=_MOST_ATTEMPTS, include_data=False)
    try:
        result = await console.log.read(lambda log: log.list_attempts(query))
    except OutboxError as error:
        return [], str(error)
    return [record.attempt for record in result.items], ""
