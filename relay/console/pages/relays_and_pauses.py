"""The relays, and pausing and resuming."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Form, Request
from starlette.responses import RedirectResponse, Response

from relay.console.api.requests import Operator, Reader, change_request
from relay.console.context import ConsoleParts
from relay.console.pages.form_fields import time_field
from relay.console.pages.live import live_page
from relay.console.relays_and_pauses import end_pause, set_pause
from relay.core.pause import PauseScope, PauseTarget
from relay.outbox.admin.relays import differences

router = APIRouter(include_in_schema=False)

Back = Annotated[str, Form(pattern=r"^(/|/fleet|/types|/events/[0-9a-f-]{36})$")]
"""The page that sent the form."""


@router.get("/fleet")
def fleet_page(request: Request, console: ConsoleParts, identity: Reader) -> Response:
    """The whole page; its list of relays alone for htmx."""
    reading = console.readings.relays.get()
    members, pauses = reading

    def values() -> dict[str, Any]:
        return {
            "title": "Relays and pauses",
            "members": members,
            "differences": differences(members) if members else [],
            "pauses": pauses,
            "command": f"relay-cli migrate --table {console.table} --with",
        }

    return live_page(request, "fleet", identity, reading, values)


@router.post("/pauses")
def pause_events(
    console: ConsoleParts,
    identity: Operator,
    idempotency_key: Annotated[str, Form()],
    scope: Annotated[PauseScope, Form()],
    name: Annotated[str, Form(max_length=1000)] = "",
    until: Annotated[str, Form(max_length=40)] = "",
    reason: Annotated[str, Form(max_length=500)] = "",
    back: Back = "/fleet",
) -> Response:
    """Pause, and show what is paused."""
    request = change_request(identity, idempotency_key, reason)
    target = PauseTarget(scope, name.strip() if scope is not PauseScope.ALL else "")
    set_pause(console, target, time_field(until), request)
    return RedirectResponse(back, 303)


@router.post("/pauses/resume")
def resume_events(
    console: ConsoleParts,
    identity: Operator,
    idempotency_key: Annotated[str, Form()],
    scope: Annotated[PauseScope, Form()],
    name: Annotated[str, Form(max_length=1000)] = "",
    back: Back = "/fleet",
) -> Response:
    """Resume, and show what is still paused."""
    end_pause(console, PauseTarget(scope, name), change_request(identity, idempotency_key, ""))
    return RedirectResponse(back, 303)


@router.post("/pauses/resume-all")
def resume_everything(console: ConsoleParts, identity: Operator, idempotency_key: Annotated[str, Form()]) -> Response:
    """End every pause, and show that nothing is paused."""
    end_pause(console, None, change_request(identity, idempotency_key, ""))
    return RedirectResponse("/fleet", 303)
