"""Why events fail: dead letters, and events that are tried again, by cause."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

from relay.console.api.requests import Reader
from relay.console.context import ConsoleParts
from relay.console.pages.render import page

router = APIRouter(include_in_schema=False)

_MOST_SHOWN = 200


@router.get("/dead")
def dead_page(request: Request, console: ConsoleParts, identity: Reader) -> HTMLResponse:
    """The causes, the one with the most dead events first. What is shown of one is what its replay takes."""
    failing = console.readings.causes.get()
    causes = sorted(failing.causes, key=lambda cause: -cause.dead)
    shown, rest = causes[:_MOST_SHOWN], max(len(causes) - _MOST_SHOWN, 0)
    return page(request, "dead.html", identity, title="Dead letters", causes=shown, rest=rest, sample=failing.sample)
