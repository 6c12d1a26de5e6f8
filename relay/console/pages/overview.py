"""The first page: what is wrong now, the figures, and the last hour."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from relay.console.access import Role
from relay.console.api.requests import Reader
from relay.console.context import ConsoleParts
from relay.console.pages.live import live_page
from relay.console.trouble import troubles
from relay.outbox.admin.overview import MOST_COUNTED, MOST_RECENT, MinuteCount, Overview

router = APIRouter(include_in_schema=False)

_PLACES = {
    "dead": ("/dead", "Dead letters"),
    "retrying": ("/events?status=PENDING", "Waiting events"),
    "lag": ("/events?status=PENDING", "Waiting events"),
    "pause": ("/fleet", "Relays and pauses"),
    "relays": ("/fleet", "Relays and pauses"),
    "prune": ("/prune", "Prune"),
}
"""Where a finding's subject can be looked at."""


@router.get("/")
def show_overview(request: Request, console: ConsoleParts, identity: Reader) -> Response:
    """The whole page; its middle part alone for htmx."""
    overview = console.readings.overview.get()
    places = _PLACES if identity.role >= Role.ADMIN else {name: _PLACES[name] for name in _PLACES.keys() - {"prune"}}

    def values() -> dict[str, Any]:
        return _values(overview, places) | {"logged": console.log.configured}

    return live_page(request, "overview", identity, overview, values)


def _values(overview: Overview, places: dict[str, tuple[str, str]]) -> dict[str, Any]:
    return {
        "title": "Overview",
        "overview": overview,
        "backlog": overview.figures.backlog,
        "findings": [(finding, places.get(finding.subject)) for finding in troubles(overview, overview.pauses or ())],
        "plot": json.dumps(plot_of(overview.minutes)),
        "partial_types": any(each.examined >= MOST_RECENT for each in overview.types),
        "most": MOST_COUNTED,
        "estimated": not all(minute.exact for minute in overview.minutes),
        "hour": sum(minute.events for minute in overview.minutes),
        "last_minute": _last_full_minute(overview),
    }


def plot_of(minutes: list[MinuteCount]) -> dict[str, list[float]]:
    """Times in seconds since 1970, and the events of each minute, without gaps."""
    counts = {int(each.minute.timestamp()): each.events for each in minutes if isinstance(each.minute, datetime)}
    if not counts:
        return {"times": [], "events": []}
    times = list(range(min(counts), max(counts) + 60, 60))[1:-1]  # the first and the last minute are not whole
    return {"times": [float(time) for time in times], "events": [float(counts.get(time, 0)) for time in times]}


def _last_full_minute(overview: Overview) -> int:
    """Events delivered in the minute before the current one."""
    minutes = overview.minutes
    return minutes[-2].events if len(minutes) > 1 else 0
