"""The first page: what is wrong now, the figures, and the last hour."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Form, Request
from starlette.responses import RedirectResponse, Response

from relay.app.broken import OutboxState
from relay.console.access import AccessRole
from relay.console.api.inbox import LetterRetryBody, retry_dead_letters
from relay.console.api.models import Words
from relay.console.api.parked import ParkedRetryBody, retry_parked_streams
from relay.console.api.requests import Operator, Reader
from relay.console.context import ConsoleParts
from relay.console.pages.live import live_page
from relay.core.finding import Finding
from relay.outbox.admin.explain import FailureReading
from relay.outbox.admin.overview import MOST_COUNTED, MOST_RECENT, MinuteCount

router = APIRouter(include_in_schema=False)

Places = dict[str, list[tuple[str, str]]]
"""Addresses and their words, by the subject of a finding."""

_MOST_CAUSES = 8

_WAITING = ("/events?status=PENDING", "Waiting events")
_FLEET = ("/fleet", "Relays and pauses")
_PLACES = {
    "dead": [("/dead", "Dead letters"), ("/changes/new?action=replay", "Replay all dead")],
    "retrying": [_WAITING],
    "lag": [_WAITING],
    "pause": [_WAITING],
    "relays": [_FLEET],
    "destination": [_WAITING, _FLEET],
    "prune": [("/prune", "Prune")],
}
"""Where a finding's subject can be looked at, and what cures all of it."""


@router.get("/")
def show_overview(request: Request, console: ConsoleParts, identity: Reader) -> Response:
    """The whole page; its middle part alone for htmx."""
    reading = console.readings.with_causes(console.readings.overview)
    places = _PLACES if identity.role >= AccessRole.ADMIN else _PLACES | {"prune": []}

    def values() -> dict[str, Any]:
        return _values(reading, places) | {"logged": console.log.configured}

    return live_page(request, "overview", identity, reading, values)


@router.post("/set-aside/retry")
def retry_set_aside(
    console: ConsoleParts,
    identity: Operator,
    idempotency_key: Annotated[str, Form()],
    subject: Annotated[Literal["inbox", "subscription"], Form()],
    name: Annotated[Words, Form(min_length=1)],
) -> Response:
    """Try again what a consumer or a subscription has set aside, all of it."""
    if subject == "inbox":
        retry_dead_letters(console, identity, LetterRetryBody.model_validate({"consumer": name}), idempotency_key)
    else:
        retry_parked_streams(console, identity, ParkedRetryBody.model_validate({"subscription": name}), idempotency_key)
    return RedirectResponse("/", 303)


def _places(finding: Finding, places: Places) -> list[tuple[str, str]]:
    """The event that the finding names comes first."""
    return [*([(f"/events/{finding.event}", "Event")] if finding.event else []), *places.get(finding.subject, [])]


def _values(reading: tuple[OutboxState, FailureReading], places: Places) -> dict[str, Any]:
    (overview, findings), failing = reading
    return {
        "title": "Overview",
        "overview": overview,
        "backlog": overview.figures.backlog,
        "findings": [(each, _places(each, places)) for each in findings],
        "causes": failing.causes[:_MOST_CAUSES],
        "more_causes": max(len(failing.causes) - _MOST_CAUSES, 0),
        "sample": failing.sample,
        "plot": json.dumps(plot_of(overview.minutes)),
        "partial_types": any(each.examined >= MOST_RECENT for each in overview.types),
        "most": MOST_COUNTED,
        "estimated": not all(minute.exact for minute in overview.minutes),
        "hour": sum(minute.events for minute in overview.minutes),
        "failed": sum(minute.failed or 0 for minute in overview.minutes),
        "longest_lag": max((minute.lag for minute in overview.minutes if minute.lag is not None), default=None),
        "last_minute": overview.minutes[-2].events,  # the last row is the minute that goes on
    }


def plot_of(minutes: list[MinuteCount]) -> dict[str, list[float]]:
    """Times in seconds since 1970, the events of each whole minute, and where relays count them the failures."""
    whole = minutes[:-1]  # the last one goes on
    plot = {"times": [each.minute.timestamp() for each in whole], "events": [float(each.events) for each in whole]}
    if any(each.failed is not None for each in whole):
        plot["failures"] = [float(each.failed or 0) for each in whole]
    return plot
