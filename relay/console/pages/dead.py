"""Dead letters by type and error."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

from relay.console.api.requests import Reader
from relay.console.context import ConsoleParts
from relay.console.pages.render import page
from relay.outbox.admin.overview import MOST_DEAD, dead_groups

router = APIRouter(include_in_schema=False)


@router.get("/dead")
def dead_page(request: Request, console: ConsoleParts, identity: Reader) -> HTMLResponse:
    """The groups."""
    groups = dead_groups(console.url, console.table)
    examined = groups[0].examined if groups else 0
    return page(request, "dead.html", identity, title="Dead letters", groups=groups, examined=examined, most=MOST_DEAD)
