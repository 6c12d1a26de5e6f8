"""Deleting old events: how many it would be, and beginning it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import HTMLResponse, RedirectResponse, Response

from relay.console.api.models import moment_text
from relay.console.api.prune import PruneBody, begin_prune, counted
from relay.console.api.requests import Admin
from relay.console.context import ConsoleParts
from relay.console.pages.form_fields import as_request
from relay.console.pages.render import page
from relay.core.errors import SchemaError
from relay.outbox.admin.overview import MOST_COUNTED
from relay.outbox.admin.prune import check_rights

router = APIRouter(include_in_schema=False)

Days = Annotated[str, Field(max_length=20)]


class PruneAges(BaseModel):
    """The ages of the form, in days; an empty field keeps all events of its status."""

    delivered_days: Days = "7"
    dead_days: Days = "30"

    def body(self, **others: str) -> PruneBody:
        """The request that the API would get. Raises RequestProblem for what is no age."""
        ages = {"delivered_days": self.delivered_days.strip() or "0", "dead_days": self.dead_days.strip() or "0"}
        return as_request(PruneBody, {**ages, **others})


class PruneForm(PruneAges):
    """What the form that deletes sends: the ages that were counted."""

    delivered_days: Days
    dead_days: Days
    as_of: Annotated[str, Field(max_length=50)]
    idempotency_key: str
    reason: Annotated[str, Field(max_length=500)] = ""


@router.get("/prune")
def prune_page(
    request: Request, console: ConsoleParts, identity: Admin, ages: Annotated[PruneAges, Query()]
) -> HTMLResponse:
    """How many events a prune would delete, and whether the console's database user may."""
    body, refused = ages.body(), ""
    counts = counted(console, body, MOST_COUNTED)
    try:
        check_rights(console.url, console.table)
    except SchemaError as error:
        refused = str(error)
    return page(
        request,
        "prune.html",
        identity,
        title="Prune",
        ages=ages,
        body=body,
        as_of=moment_text(counts.at),
        counts=counts,
        most=MOST_COUNTED,
        refused=refused,
    )


@router.post("/prune")
def begin(console: ConsoleParts, identity: Admin, form: Annotated[PruneForm, Form()]) -> Response:
    """Begin to delete what was older than the ages when it was counted, and follow it."""
    change = begin_prune(console, identity, form.body(reason=form.reason, as_of=form.as_of), form.idempotency_key)
    return RedirectResponse(f"/changes/{change.change_id}", 303)
