"""The event types at a glance; a type is paused and resumed from there."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Query, Request
from starlette.responses import HTMLResponse, Response

from relay.console.api.requests import Operator, Reader
from relay.console.context import ConsoleParts
from relay.console.pages.live import live_page
from relay.console.pages.render import page
from relay.core.pause import Pause, PauseScope
from relay.outbox.admin.event_types import MOST_TYPES, EventTypeFigures

router = APIRouter(include_in_schema=False)


class _Line(NamedTuple):
    """One line of the table."""

    event_type: str
    figures: EventTypeFigures | None
    """None for a paused type without events in the samples."""
    pauses: list[Pause]
    """Those that hold it back."""
    own: bool
    """Whether a pause of exactly this type is one of them."""


@router.get("/types")
def event_types_page(request: Request, console: ConsoleParts, identity: Reader) -> Response:
    """The whole page; its table alone for htmx."""
    figures = console.readings.types.get()

    def values() -> dict[str, Any]:
        return {
            "title": "Types",
            "figures": figures,
            "lines": _lines(figures.types, figures.pauses or []),
            "pausable": figures.pauses is not None,
            "more_types": len(figures.types) >= MOST_TYPES,
        }

    return live_page(request, "types", identity, figures, values)


@router.get("/types/pause")
def pause_page(
    request: Request, identity: Operator, event_type: Annotated[str, Query(max_length=1000)]
) -> HTMLResponse:
    """Until when a type is paused, and why."""
    return page(request, "type_pause.html", identity, title=f"Pause {event_type}", event_type=event_type)


def _lines(types: list[EventTypeFigures], pauses: list[Pause]) -> list[_Line]:
    """A line for each type, and for each paused type that has no events in the samples."""
    own = {pause.target.name for pause in pauses if pause.target.scope is PauseScope.TYPE}
    figures = {each.event_type: each for each in types}
    names = [*figures, *sorted(own - figures.keys())]
    return [
        _Line(name, figures.get(name), [pause for pause in pauses if pause.target.holds(name)], name in own)
        for name in names
    ]
