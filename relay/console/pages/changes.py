"""The record of changes, and the progress of one."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from relay.console.api.changes import page_of_changes, recorded_change, stop_change
from relay.console.api.requests import Operator, Reader
from relay.console.context import ConsoleParts
from relay.console.pages.live import live_page
from relay.console.pages.render import moment, page
from relay.core.pause import PauseScope, PauseTarget
from relay.outbox.admin.changes import Change

router = APIRouter(include_in_schema=False)

_PAGE = 50
_WORDS = {
    "event_id": "event {}",
    "event_ids": "events {}",
    "event_type": "type {}",
    "partition_key": "key {}",
    "error": "error with {}",
    "error_code": "error {}",
    "unchanged_since": "unchanged since {}",
    "delivered_days": "delivered more than {} d ago",
    "as_of": "as of {}",
    "dead_days": "dead for more than {} d",
    "pauses": "{} pause",
    "rate": "{} a second",
    "limit": "at most {}",
}
"""How the parts of a selection are said, but for those that their name says."""
_TIMES = {"since", "until", "unchanged_since", "as_of"}


@router.get("/changes")
def changes_page(
    request: Request,
    console: ConsoleParts,
    identity: Reader,
    cursor: Annotated[str | None, Query(max_length=50)] = None,
) -> HTMLResponse:
    """Who changed what, newest first."""
    changes, following = page_of_changes(console, _PAGE, cursor)
    items = [(change, described(change)) for change in changes]
    return page(request, "changes.html", identity, title="Changes", items=items, following=following)


@router.get("/changes/{change_id}")
def change_page(request: Request, console: ConsoleParts, identity: Reader, change_id: UUID) -> Response:
    """One change; its progress alone for htmx, every second while it runs."""
    change = recorded_change(console, change_id)

    def values() -> dict[str, Any]:
        words = described(change)
        return {"title": f"{change.action.capitalize()}: {words}", "change": change, "described": words}

    return live_page(request, "change", identity, change, values)


@router.post("/changes/{change_id}/stop")
def stop(console: ConsoleParts, identity: Operator, change_id: UUID) -> Response:
    """Stop a change of many events after its next batch."""
    stop_change(console, identity, change_id)
    return RedirectResponse(f"/changes/{change_id}", 303)


def described(change: Change) -> str:
    """The selection in words."""
    values = {name: value for name, value in json.loads(change.selection).items() if value is not None}
    if "scope" in values:
        target = str(PauseTarget(PauseScope(values["scope"]), values.get("name", "")))
        return f"{target}, until {_shown('until', values['until'])}" if "until" in values else target
    return ", ".join(_WORDS.get(name, f"{name} {{}}").format(_shown(name, value)) for name, value in values.items())


def _shown(name: str, value: object) -> str:
    if isinstance(value, list):
        return " and ".join(map(str, value))
    if name in _TIMES:
        with suppress(ValueError):
            return f"{moment(datetime.fromisoformat(str(value)))} UTC"
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)
