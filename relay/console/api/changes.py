"""Changes of many events, and the record of all changes."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Response
from pydantic import Field

from relay.console.access import Identity
from relay.console.api.models import TIME, ApiModel, ChangeItem, DryRun, Stamp, Time, Words, moment_text
from relay.console.api.requests import READING, IdempotencyKey, Operator, cause_of, change_request
from relay.console.context import Console, ConsoleParts
from relay.console.problems import RequestProblem, invalid_request
from relay.outbox.admin import changes
from relay.outbox.admin.actions import Action
from relay.outbox.admin.bulk import KINDS, BulkCount, change_events, count_events
from relay.outbox.admin.changes import Change
from relay.outbox.admin.replay import ReplayOptions
from relay.outbox.admin.selection import COUNT_MOST, Kind, Selection

router = APIRouter(tags=["changes"])

_LARGEST_NUMBER: Final = 2**63 - 1


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


class BulkDryRun(DryRun):
    """What a change of many events would do now."""

    at: Stamp = Field(description="The database's time before the count; for `unchanged_since`.", examples=[TIME])


class ChangeItems(ApiModel):
    """A page of changes, newest first."""

    items: list[ChangeItem]
    next: str | None = Field(description="Cursor of the next page; null at the end.")


@router.post("/changes", status_code=202, responses={200: {"model": BulkDryRun, "description": "A dry run."}})
def change_many_events(
    console: ConsoleParts,
    identity: Operator,
    body: BulkBody,
    response: Response,
    idempotency_key: IdempotencyKey = None,
) -> ChangeItem | BulkDryRun:
    """Retry now, replay, bury or cancel many events, oldest first, at a bounded rate. The answer is a change to follow.

    Events that the action does not apply to are left out, and those that an operator or a relay holds at that moment.
    """
    if body.dry_run:
        counts = counted(console, body)
        response.status_code = 200
        return BulkDryRun.model_validate(counts)
    change = begin_change(console, identity, body, idempotency_key)
    response.headers["Location"] = f"/api/v1/changes/{change.change_id}"
    return ChangeItem.model_validate(change)


@router.get("/changes", dependencies=READING)
def list_recorded_changes(
    console: ConsoleParts,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    cursor: Annotated[str | None, Query(description="`next` of the page before.")] = None,
) -> ChangeItems:
    """The record of changes, newest first."""
    page, following = page_of_changes(console, limit, cursor)
    return ChangeItems.model_validate({"items": page, "next": following})


@router.get("/changes/{change_id}", dependencies=READING)
def retrieve_change(console: ConsoleParts, change_id: UUID) -> ChangeItem:
    """One change, and how far it has come."""
    return ChangeItem.model_validate(recorded_change(console, change_id))


@router.post("/changes/{change_id}/stop")
def stop_change(console: ConsoleParts, identity: Operator, change_id: UUID) -> ChangeItem:
    """Stop a change of many events after its next batch. What was changed stays changed. It may be repeated.

    The change's `error` says who stopped it.
    """
    return ChangeItem.model_validate(
        _existing(console, change_id, changes.stop_change(console.url, console.table, change_id, identity.name))
    )


def counted(console: Console, body: BulkBody, most: int = COUNT_MOST) -> BulkCount:
    """How many events a change would take now, counted up to ``most``.

    Raises RequestProblem for a wrong selection, and as the change does.
    """
    action = Action(body.action)
    selection = selection_of(action, body.selection)
    return count_events(console.url, console.table, action, selection, _options(console, body), most)


def begin_change(console: Console, identity: Identity, body: BulkBody, idempotency_key: str | None) -> Change:
    """Record a change of many events and begin it. Raises RequestProblem without a key or for a wrong selection."""
    selection = selection_of(body.action, body.selection)
    request = change_request(identity, idempotency_key, body.reason)
    options = _options(console, body, identity.name)
    counts = count_events(console.url, console.table, body.action, selection, options)
    described = {**described_selection(body.action, body.selection), "limit": body.limit, "rate": body.rate}
    work = partial(change_events, console.url, console.table, body.action, selection, options)
    return console.jobs.start(body.action, work, request, described, counts.events)


def _options(console: Console, body: BulkBody, who: str = "") -> ReplayOptions:
    replays_delivered = body.action is Action.REPLAY and "delivered" in body.selection.status
    window = console.duplicate_window() if replays_delivered else 0.0
    return ReplayOptions(body.limit, body.rate, reason=body.reason, who=who, duplicate_window=window)


def selection_of(action: Action, selected: Selected) -> Selection:
    """The events that a request selects. Raises RequestProblem for one that selects nothing in particular."""
    narrowing = selected.model_dump(exclude={"status", "unchanged_since"}, exclude_defaults=True)
    if not narrowing and not selected.status:
        raise invalid_request("selection: name a status, ids, a type, a key, an error or a time")
    return Selection(
        _kinds(action, selected),
        tuple(selected.event_ids),
        selected.event_type,
        selected.partition_key,
        selected.since,
        selected.until,
        selected.error,
        selected.error_code,
        cause_of(selected.cause),
        selected.unchanged_since,
    )


def _kinds(action: Action, selected: Selected) -> tuple[Kind, ...]:
    """The statuses, once each. Raises RequestProblem for one that the action does not apply to."""
    kinds = tuple(dict.fromkeys(selected.status)) or KINDS[action][:1]
    for kind in kinds:
        if kind not in KINDS[action]:
            allowed = " and ".join(KINDS[action])
            raise invalid_request(f"selection: {action} takes {allowed} events, not {kind} ones")
    return kinds


def described_selection(action: Action, selected: Selected) -> dict[str, Any]:
    """The selection for the record, without what does not narrow it."""
    values = selected.model_dump(exclude_defaults=True) | {"status": list(_kinds(action, selected))}
    if selected.event_ids:
        values["event_ids"] = [str(event_id) for event_id in selected.event_ids]
    return {name: moment_text(value) if isinstance(value, datetime) else value for name, value in values.items()}


def recorded_change(console: Console, change_id: UUID) -> Change:
    """The change. Raises RequestProblem when there is none of this id."""
    return _existing(console, change_id, changes.show_change(console.url, console.table, change_id))


def _existing(console: Console, change_id: UUID, change: Change | None) -> Change:
    if change is None:
        raise RequestProblem(404, "change-missing", f"there is no change {change_id} of table {console.table}")
    return change


def page_of_changes(console: Console, limit: int, cursor: str | None) -> tuple[list[Change], str | None]:
    """A page of the record, and the cursor of the next one. Raises RequestProblem for a foreign cursor."""
    before = None
    if cursor is not None:
        # Its length first: Python reads no number of more than 4,300 digits.
        if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 19 and int(cursor) <= _LARGEST_NUMBER):
            raise RequestProblem(400, "invalid-cursor", f"cursor: {cursor[:50]!r} is not from a page of the record")
        before = int(cursor)
    rows = changes.list_changes(console.url, console.table, limit + 1, before)
    return rows[:limit], str(rows[limit - 1].number) if len(rows) > limit else None
