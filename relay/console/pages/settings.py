"""What the relays run with, and where they differ."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import HTMLResponse

from relay.console.api.requests import Reader
from relay.console.context import ConsoleParts
from relay.console.pages.render import page
from relay.console.relays_and_pauses import settings_of_console
from relay.outbox.admin.relays import compared_settings

router = APIRouter(include_in_schema=False)


@router.get("/settings")
def settings_page(
    request: Request,
    console: ConsoleParts,
    identity: Reader,
    every: Annotated[bool, Query(alias="all")] = False,
) -> HTMLResponse:
    """The variables that are not at their default or differ between relays, or all of them."""
    relays = settings_of_console(console)
    compared = compared_settings(relays or [])
    return page(
        request,
        "settings.html",
        identity,
        title="Settings",
        relays=relays,
        settings=[each for each in compared if every or each.changed or each.differs],
        every=every,
        count=len(compared),
        command=f"relay-cli migrate --table {console.table} --with fleet",
    )
