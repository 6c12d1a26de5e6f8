"""Changing many events at once: how many it would be, and beginning it."""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Form, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import HTMLResponse, RedirectResponse, Response

from relay.console.api.changes import BulkBody, begin_change, counted
from relay.console.api.models import moment_text
from relay.console.api.requests import Operator
from relay.console.context import ConsoleParts
from relay.console.pages.form_fields import Text, as_request, text_field, time_field
from relay.console.pages.render import page
from relay.console.problems import invalid_request
from relay.outbox.admin.actions import Action
from relay.outbox.admin.bulk import KINDS
from relay.outbox.admin.overview import MOST_COUNTED

router = APIRouter(include_in_schema=False)

_RATE: Final = 100  # events a second that the form proposes
_MEANINGS: Final = {
    Action.RETRY: "They are due now; their attempts stay counted.",
    Action.REPLAY: "They are sent again, as if they had never been tried.",
    Action.BURY: "They are not tried again: they become dead, until they are replayed.",
    Action.CANCEL: "Scheduled events that were never tried are not sent: they are deleted, and their rows kept.",
}
_LINKS: Final = {
    Action.RETRY: "Retry these",
    Action.REPLAY: "Replay these",
    Action.BURY: "Bury these",
    Action.CANCEL: "Cancel those scheduled",
}


class BulkFields(BaseModel):
    """Which events, as the search's form names them, and the dead letters' error code; an empty field is no filter."""

    action: Action
    status: Text = ""
    event_type: Text | None = None
    partition_key: Text = ""
    error: Text = ""
    error_code: Text | None = None
    cause: Text = ""
    since: Text = ""
    until: Text = ""
    unchanged_since: Text = ""

    def body(self, **options: object) -> BulkBody:
        """The request that the API would get. Raises RequestProblem for what is no time."""
        selection = {
            "status": [self.status.lower() or KINDS[self.action][0]],
            "event_type": self.event_type,
            "partition_key": text_field(self.partition_key),
            "error": text_field(self.error),
            "error_code": self.error_code,
            "cause": self.cause or None,
            "since": time_field(self.since),
            "until": time_field(self.until),
            "unchanged_since": time_field(self.unchanged_since),
        }
        return as_request(BulkBody, {"action": self.action, "selection": selection, **options})

    def facts(self) -> dict[str, str]:
        """The selection for people."""
        facts = {
            "Status": self.status or KINDS[self.action][0].upper(),
            "Type": self.event_type or "any",
            "Key": self.partition_key,
            "Error": "none" if not self.error_code and self.error_code is not None else self.error_code or "",
            "Error contains": self.error,
            "Cause": self.cause,
            "Since, UTC": self.since,
            "Until, UTC": self.until,
        }
        return {name: value for name, value in facts.items() if value}

    def back(self) -> str:
        """The page that led here."""
        if (self.cause or self.error_code is not None) and not self.status:
            return "/dead"
        names = {"status", "event_type", "partition_key", "error", "error_code", "cause", "since", "until"}
        values = self.model_dump(include=names, exclude_none=True)
        return "/events?" + urlencode({name: value for name, value in values.items() if value or name == "error_code"})


class BulkForm(BulkFields):
    """What the form of a change sends."""

    idempotency_key: str
    rate: Annotated[str, Field(max_length=20)] = ""
    limit: Annotated[str, Field(max_length=20)] = ""
    reason: Text = ""


@router.get("/changes/new")
def confirm_page(
    request: Request, console: ConsoleParts, identity: Operator, fields: Annotated[BulkFields, Query()]
) -> HTMLResponse:
    """How many events a change would take, and at which rate."""
    counts = counted(console, fields.body(), MOST_COUNTED)
    hidden = fields.model_dump(exclude_none=True) | {"unchanged_since": moment_text(counts.at)}
    return page(
        request,
        "bulk.html",
        identity,
        title=f"{fields.action.capitalize()} events",
        fields=fields,
        facts=fields.facts(),
        back=fields.back(),
        meaning=_MEANINGS[fields.action],
        counts=counts,
        hidden={name: value for name, value in hidden.items() if value or name in {"event_type", "error_code"}},
        rate=_RATE,
    )


@router.post("/changes")
def begin(console: ConsoleParts, identity: Operator, form: Annotated[BulkForm, Form()]) -> Response:
    """Begin the change of the events that the form has counted, and follow it."""
    body = form.body(limit=_count(form.limit, "limit"), rate=_count(form.rate, "rate"), reason=form.reason)
    change = begin_change(console, identity, body, form.idempotency_key)
    return RedirectResponse(f"/changes/{change.change_id}", 303)


def links(status: str, used: dict[str, str]) -> list[tuple[str, dict[str, str], bool]]:
    """What may be done to all events of a search for one status: words, query, whether it ends events."""
    return [
        (words, {"action": action, **used}, action in {Action.BURY, Action.CANCEL})
        for action, words in _LINKS.items()
        if status in map(str.upper, KINDS[action])
    ]


def _count(text: str, field: str) -> int | None:
    """A whole number above 0; None for an empty field."""
    if not text.strip():
        return None
    if not text.strip().isdecimal() or not 0 < int(text) <= 1_000_000_000:
        raise invalid_request(f"{field}: {text!r} is not a whole number above 0")
    return int(text)
