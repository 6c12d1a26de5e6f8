"""The first page: what is wrong now, the figures, and the last hour."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from relay.console.access import Role
from relay.console.api.requests import Reader
from relay.console.context import Console, ConsoleParts
from relay.console.pages.live import live_page
from relay.console.readings import OverviewReading
from relay.core.errors import StorageBusy
from relay.outbox.admin.explain import FailureReading
from relay.outbox.admin.overview import MOST_COUNTED, MOST_RECENT, MinuteCount

router = APIRouter(include_in_schema=False)

_MOST_CAUSES = 8

_PLACES = {
    "dead": ("/dead", "Dead letters"),
    "retrying": ("/events?status=PENDING", "Waiting events"),
    "lag": ("/events?status=PENDING", "Waiting events"),
    "pause": ("/fleet", "Relays and pauses"),
    "relays": ("/fleet", "Relays and pauses"),
    "destination": ("/fleet", "Relays and pauses"),
    "prune": ("/prune", "Prune"),
}
"""Where a finding's subject can be looked at."""


@router.get("/")
def show_overview(request: Request, console: ConsoleParts, identity: Reader) -> Response:
    """The whole page; its middle part alone for htmx."""
    reading = console.readings.overview.get(), _causes(console)
    places = _PLACES if identity.role >= Role.ADMIN else {name: _PLACES[name] for name in _PLACES.keys() - {"prune"}}

    def values() -> dict[str, Any]:
        return _values(reading, places) | {"logged": console.log.configured}

    return live_page(request, "overview", identity, reading, values)


def _causes(console: Console) -> FailureReading:
    """Why events fail. Where that takes too long, the page says so and shows the rest."""
    try:
        return console.readings.causes.get()
    except StorageBusy as busy:
        return FailureReading([], f"Why events fail was not read: {busy}.")


def _values(reading: tuple[OverviewReading, FailureReading], places: dict[str, tuple[str, str]]) -> dict[str, Any]:
    (overview, findings), failing = reading
    return {
        "title": "Overview",
        "overview": overview,
        "backlog": overview.figures.backlog,
        "findings": [(finding, places.get(finding.subject)) for finding in findings],
        "causes": failing.causes[:_MOST_CAUSES],
        "more_causes": max(len(failing.causes) - _MOST_CAUSES, 0),
        "sample": failing.sample,
        "plot": json.dumps(plot_of(overview.minutes)),
        "partial_types": any(each.examined >= MOST_RECENT for each in overview.types),
        "most": MOST_COUNTED,
        "estimated": not all(minute.exact for minute in overview.minutes),
        "hour": sum(minute.events for minute in overview.minutes),
        "last_minute": overview.minutes[-2].events,  # the last row is the minute that goes on
    }


def plot_of(minutes: list[MinuteCount]) -> dict[str, list[float]]:
    """Times in seconds since 1970, and the events of each whole minute."""
    counts = [(each.minute.timestamp(), float(each.events)) for each in minutes[:-1]]  # the last one goes on
    return {"times": [time for time, _ in counts], "events": [events for _, events in counts]}
